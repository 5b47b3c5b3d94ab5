"""Files in the forms in which the real products wrote them: their times, their envelopes, their second back ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.domain.imports.items import FileRefused
from tests.domain.imports.reading import NOW, database, faults, items, links, memories

LANGGRAPH = """
CREATE TABLE store (
  prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key)
);
INSERT INTO store VALUES ('users.ann', 'k', '{"kind": "Memory", "content": {"content": "a heron", "n": 1}}',
  '2026-11-01 04:34:24', '2026-11-01 04:34:24', NULL, NULL);
INSERT INTO store VALUES ('users.ann', 'late', '{"text": "gone"}',
  '2026-11-01 04:34:24', '2026-11-01 04:34:24', '2026-11-02 04:34:24.272358+00:00', 60.0);
"""
CORTEXGRAPH = """
CREATE TABLE memories (
  id TEXT PRIMARY KEY, content TEXT NOT NULL, meta TEXT NOT NULL, created_at INTEGER NOT NULL,
  last_used INTEGER NOT NULL, use_count INTEGER NOT NULL DEFAULT 0, strength REAL NOT NULL DEFAULT 1.0,
  status TEXT NOT NULL, promoted_at INTEGER, promoted_to TEXT, embed BLOB, entities TEXT,
  review_priority REAL DEFAULT 0.0, last_review_at INTEGER, review_count INTEGER DEFAULT 0,
  cross_domain_count INTEGER DEFAULT 0
);
CREATE TABLE relations (
  id TEXT PRIMARY KEY, from_memory_id TEXT NOT NULL, to_memory_id TEXT NOT NULL, relation_type TEXT NOT NULL,
  strength REAL NOT NULL DEFAULT 1.0, created_at INTEGER NOT NULL, metadata TEXT
);
INSERT INTO memories (id, content, meta, created_at, last_used, use_count, strength, status, promoted_at, entities)
  VALUES ('a', 'Ann sings', '{"tags": ["music"], "source": "chat", "context": null, "extra": {"k": 1}}',
    1790000000, 1791000000, 3, 1.5, 'promoted', 1792000000, '["Ann"]'),
  ('b', 'broken', '{', 1790000000, 1791000000, 3, 1.5, 'active', NULL, '[]');
INSERT INTO relations VALUES ('r', 'a', 'b', 'supports', 0.4, 1790000000, '{}');
"""


def test_times_of_langgraphs_sqlite_store_are_in_utc_and_the_text_of_langmem_is_found(tmp_path: Path) -> None:
    content = database(tmp_path, LANGGRAPH)
    found = items("langgraph", content)
    [memory] = memories(found)
    assert memory.given.text == "a heron"
    assert memory.given.occurred_at == datetime(2026, 11, 1, 4, 34, 24, tzinfo=UTC)
    assert memory.given.metadata == {"kind": "Memory", "content": {"n": 1}, "namespace": "users.ann"}
    assert [fault.reason for fault in faults(found)] == ["had expired in LangGraph"]
    [elsewhere] = memories(items("langgraph", content, time_zone="Europe/Berlin"))
    assert elsewhere.given.occurred_at == datetime(2026, 11, 1, 3, 34, 24, tzinfo=UTC), "a stated zone wins"


def test_the_database_of_cortexgraph_holds_the_same_as_its_lines(tmp_path: Path) -> None:
    found = items("cortexgraph", database(tmp_path, CORTEXGRAPH))
    [memory] = memories(found)
    assert (memory.given.text, memory.given.tags, memory.given.entities) == ("Ann sings", ("music",), ("Ann",))
    assert memory.given.multiplier == 1.5
    assert memory.given.metadata is not None
    assert memory.given.metadata["k"] == 1
    assert memory.state is not None
    assert (memory.state.uses, memory.state.accessed_at, memory.state.promoted_at) == (3, 1791000000, 1792000000)
    assert [(fault.place, fault.reason) for fault in faults(found)] == [(2, "meta isn't JSON")]
    assert [link[1:] for link in links(found)] == [("cortexgraph:a", "cortexgraph:b", "supports", 0.4)]


def test_a_memory_of_mem0_is_valid_on_the_day_that_it_names() -> None:
    today = datetime.fromtimestamp(NOW, UTC).date().isoformat()
    rows = [
        {"id": day, "payload": {"data": "a heron", "user_id": "ann", "expiration_date": day}}
        for day in (today, "2026-11-17", "9999-12-31", "2026-02-31")
    ]
    found = items("mem0", json.dumps(rows).encode())
    [memory] = memories(found)
    assert memory.given.expires_at == datetime(2026, 11, 19, tzinfo=UTC)
    assert [(fault.place, fault.reason) for fault in faults(found)] == [
        (2, "had expired in mem0"),
        (3, "a time must be a date such as 2026-11-20"),
        (4, "a time must be a date such as 2026-11-20"),
    ]


def test_the_answer_of_qdrant_to_a_scroll_is_read() -> None:
    point = {"id": "p1", "payload": {"data": "a heron", "user_id": "ann"}, "vector": [0.5], "shard_key": None}
    answer = {"result": {"points": [point], "next_page_offset": None}, "status": "ok", "time": 0.1}
    for indent in (None, 1):
        [memory] = memories(items("mem0", json.dumps(answer, indent=indent).encode()))
        assert (memory.given.text, memory.given.subject, memory.given.external_id) == ("a heron", "ann", "mem0:p1")


def test_a_database_whose_tables_are_still_in_its_log_is_refused_with_a_hint(tmp_path: Path) -> None:
    content = bytearray(database(tmp_path, "CREATE TABLE other (x);"))
    content[18:20] = b"\2\2"
    with pytest.raises(FileRefused, match="-wal file"):
        items("memory-decay", bytes(content))


def _letta(*messages: Mapping[str, object]) -> bytes:
    return json.dumps({"agents": [{"id": "agent-0", "messages": messages}], "blocks": []}).encode()


def test_letta_answers_by_a_tool_and_packs_what_users_say() -> None:
    call = {"id": "c", "function": {"name": "send_message", "arguments": '{"message": "I am here."}'}}
    packed = {"type": "user_message", "message": "Ann is my sister", "time": "2025-10-21 04:55:56 PM UTC+0000"}
    event = {"type": "login", "last_login": "Never", "time": "2025-10-21 04:55:56 PM UTC+0000"}
    said = {"type": "list", "of": "milk"}
    found = items(
        "letta",
        _letta(
            {"role": "assistant", "content": [{"type": "text", "text": "a thought"}], "tool_calls": [call]},
            {"role": "user", "content": [{"type": "text", "text": json.dumps(packed)}]},
            {"role": "user", "content": json.dumps(event)},
            {"role": "user", "content": json.dumps(said)},
            {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "hidden"}], "text": "older"},
        ),
    )
    assert [memory.given.text for memory in memories(found)] == ["I am here.", "Ann is my sister", json.dumps(said)]
    assert [(fault.place, fault.reason) for fault in faults(found)] == [
        (3, "an event such as a log-in isn't imported"),
        (5, "a message has no text"),
    ]


def test_an_agent_file_that_is_a_json_string_or_larger_than_a_record_is_read() -> None:
    content = _letta({"role": "user", "content": "a heron"})
    [memory] = memories(items("letta", json.dumps(content.decode()).encode()))
    assert memory.given.text == "a heron"
    many = _letta(*({"id": f"m{n}", "role": "user", "content": "x" * 30_000} for n in range(300)))
    assert len(many) > 8 << 20
    assert len(memories(items("letta", many))) == 300


def test_ids_that_count_from_zero_in_every_agent_file_dont_mix_two_agents() -> None:
    def ids(name: str) -> list[str | None]:
        message = {"id": "message-0", "role": "user", "content": "hello", "created_at": "2026-01-22T02:06:34+00:00"}
        agent = {"id": "agent-0", "name": name, "messages": [message]}
        block = {"id": "block-0", "label": "human", "value": f"knows {name}"}
        content = json.dumps({"agents": [agent], "blocks": [block]}).encode()
        found = memories(items("letta", content))
        assert found[1].given.thread == f"letta:{name}"
        return [memory.given.external_id for memory in found]

    assert ids("ann")[0] == "letta:ann/human"
    assert ids("ann") == ids("ann")
    assert not set(ids("ann")) & set(ids("bob"))
