"""Every format: what its reader keeps, and which records it names and skips."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.domain.imports.items import FileRefused
from tests.domain.imports.reading import NOW, archive, database, faults, items, lines, links, memories

MEMORY_DECAY = """
CREATE TABLE memories (id TEXT PRIMARY KEY, user_id TEXT DEFAULT '', content TEXT, mtype TEXT, category TEXT,
  importance REAL, speaker TEXT, created_tick INTEGER, storage_score REAL, retrieval_score REAL, stability_score REAL,
  last_activated_tick INTEGER, last_reinforced_tick INTEGER, retrieval_count INTEGER);
CREATE TABLE associations (source_id TEXT, target_id TEXT, weight REAL, created_tick INTEGER);
CREATE TABLE metadata (key TEXT, value TEXT);
"""
HISTORY = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
  created_at TEXT, updated_at TEXT, is_deleted INTEGER, actor_id TEXT, role TEXT);
"""
INSERT_MEMORY = "INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_EVENT = "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def test_json_lines_keep_every_field_and_put_the_rest_into_metadata() -> None:
    found = items(
        "jsonl",
        lines(
            {"text": "a heron", "external_id": "h1", "tags": ["bird"], "occurred_at": "2026-03-01T10:00:00Z"},
            {"text": "a stork", "colour": "white", "metadata": {"n": 1}, "uses": 3, "strength": 0.4},
        ),
    )
    first, second = memories(found)
    assert (first.place, first.given.external_id, first.given.tags) == (1, "h1", ("bird",))
    assert first.given.occurred_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert second.given.metadata == {"colour": "white", "n": 1}
    assert second.state is not None
    assert (second.state.uses, second.state.strength) == (3, 0.4)
    assert str(second.given.external_id).startswith("import:")
    assert (
        memories(items("jsonl", lines({"text": "a stork", "colour": "white", "metadata": {"n": 1}})))[
            0
        ].given.external_id
        == memories(items("jsonl", lines({"text": "a stork", "colour": "white"})))[0].given.external_id
    )


def test_a_mapping_names_columns_and_descends_into_objects() -> None:
    record = {"body": {"content": "a heron", "lang": "en"}, "ts": 1_772_359_200, "id": 7}
    options = {"map": {"text": "body.content", "occurred_at": "ts", "external_id": "id"}, "subject": "ann"}
    [found] = memories(items("jsonl", lines(record), **options))
    assert (found.given.text, found.given.external_id, found.given.subject) == ("a heron", "7", "ann")
    assert found.given.occurred_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "isn't JSON"),
        (b"[1]", "isn't a JSON object"),
        (b'{"text": "\xff"}', "isn't UTF-8"),
        (b'{"tags": []}', "text is missing"),
        (b'{"text": "' + b"a" * 40_000 + b'"}', "text is too long"),
        (b'{"text": "x", "occurred_at": "2026-03-01T10:00:00"}', "occurred_at has no offset"),
        (b'{"text": "x", "occurred_at": "yesterday"}', "occurred_at must be a time"),
        (b'{"text": "x", "salience": 3}', "salience must be 0 to 1"),
        (b'{"text": "  "}', "text must not be blank"),
        (b'{"text": "x\\u0000"}', "text contains a NUL"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(line: bytes, reason: str) -> None:
    found = items("jsonl", lines({"text": "a"}) + line + b"\n" + lines({"text": "b"}))
    [fault] = faults(found)
    assert fault.place == 2
    assert reason in fault.reason
    assert "yesterday" not in fault.reason
    assert [item.given.text for item in memories(found)] == ["a", "b"]


def test_csv_reads_quoted_lines_lists_and_names_rows_with_other_columns() -> None:
    content = 'text,tags,written\n"a heron\nin two lines",bird;grey,2026-03-01 10:00\nshort\n"a stork",,\n'
    found = items(
        "csv",
        b"\xef\xbb\xbf" + content.encode(),
        map={"occurred_at": "written"},
        time_zone="Europe/Berlin",
    )
    first, second = memories(found)
    assert (first.given.text, first.given.tags) == ("a heron\nin two lines", ("bird", "grey"))
    assert first.given.occurred_at == datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert second.given.text == "a stork"
    assert [(fault.place, fault.reason) for fault in faults(found)] == [(4, "has 1 columns instead of 3")]


def test_csv_without_a_text_column_is_refused() -> None:
    with pytest.raises(FileRefused, match="text=COLUMN"):
        items("csv", b"content,tags\nx,y\n")


def test_cortexgraph_keeps_the_last_line_of_an_id_its_uses_and_its_promotion() -> None:
    memory = {
        "id": "m1",
        "content": "old",
        "meta": {"tags": ["tea"], "source": "chat", "extra": {"k": 1}},
        "created_at": NOW - 86_400,
        "last_used": NOW - 3600,
        "use_count": 4,
        "strength": 1.3,
        "status": "promoted",
        "promoted_at": NOW - 60,
        "entities": ["Ann"],
    }
    other = memory | {"id": "m2", "content": "gone"}
    relation = {"id": "r1", "from_memory_id": "m1", "to_memory_id": "m3", "relation_type": "supports", "strength": 0.5}
    content = lines(memory, other, memory | {"content": "new"}, {"id": "m2", "_deleted": True})
    zipped = archive(memories__jsonl=content, relations__jsonl=lines(relation))
    for found in (items("cortexgraph", content + lines(relation)), items("cortexgraph", zipped)):
        [kept] = memories(found)
        assert (kept.given.text, kept.given.external_id, kept.given.multiplier) == ("new", "cortexgraph:m1", 1.3)
        assert kept.given.metadata == {"source": "chat", "k": 1}
        assert kept.state is not None
        assert (kept.state.uses, kept.state.accessed_at, kept.state.promoted_at) == (4, NOW - 3600, NOW - 60)
        assert kept.state.model == "mnemex"
        [link] = links(found)
        assert link[1:] == ("cortexgraph:m1", "cortexgraph:m3", "supports", 0.5)


def test_memory_decay_turns_ticks_into_times_and_keeps_scores_and_associations(tmp_path: Path) -> None:
    row = ("a", "ann", "a heron", "fact", "preference", 0.9, "Ann", 90, 0.5, 0.6, 0.2, 95, 95, 3)
    content = database(
        tmp_path,
        MEMORY_DECAY,
        (INSERT_MEMORY, row),
        (INSERT_MEMORY, ("b", *row[1:8], None, *row[9:])),
        ("INSERT INTO metadata VALUES ('current_tick', ?)", ("100",)),
        ("INSERT INTO associations VALUES ('a', 'b', 0.5, 91)", ()),
    )
    found = items("memory-decay", content, tick_seconds=600)
    [kept] = memories(found)
    assert (kept.given.kind, kept.given.salience, kept.given.subject) == ("semantic", 0.9, "ann")
    assert kept.state is not None
    assert (kept.state.created_at, kept.state.accessed_at) == (NOW - 6000, NOW - 3000)
    assert (kept.state.uses, kept.state.retrieval, kept.state.stability) == (3, 0.6, 0.2)
    assert [fault.place for fault in faults(found)] == [2]
    assert links(found)[0][1:] == ("memory-decay:a", "memory-decay:b", "associated", 0.5)


def test_mem0_rows_history_and_plugin_export(tmp_path: Path) -> None:
    payload = {"data": "Likes tea", "hash": "x", "user_id": "ann", "run_id": "r", "role": "user", "mood": "good"}
    rows = [
        {"id": "1", "vector": [0.1], "payload": payload | {"created_at": "2026-03-01T10:00:00Z"}},
        {"id": "2", "payload": {"data": "Ann", "linked_memory_ids": ["1"]}},
        {"id": "3", "payload": {"data": "old", "expiration_date": "2025-01-01"}},
    ]
    for content in (json.dumps(rows).encode(), lines(*rows), json.dumps({"results": rows}).encode()):
        found = items("mem0", content)
        [kept] = memories(found)
        assert (kept.given.text, kept.given.subject, kept.given.thread) == ("Likes tea", "ann", "r")
        assert (kept.given.external_id, kept.given.metadata, kept.given.role) == ("mem0:1", {"mood": "good"}, "user")
        assert len(faults(found)) == 2
    history = database(
        tmp_path,
        HISTORY,
        (INSERT_EVENT, ("h1", "m1", None, "first", "ADD", "2026-03-01T10:00:00Z", None, 0, None, "user")),
        (INSERT_EVENT, ("h2", "m1", "first", "second", "UPDATE", "2026-03-02T10:00:00Z", None, 0, None, "user")),
        (INSERT_EVENT, ("h3", "m2", None, "secret", "ADD", "2026-03-01T10:00:00Z", None, 0, None, "user")),
        (INSERT_EVENT, ("h4", "m2", "secret", None, "DELETE", None, None, 1, None, "user")),
    )
    found = items("mem0", history)
    assert [(item.given.text, item.given.external_id) for item in memories(found)] == [("second", "mem0:m1")]
    assert [fault.reason for fault in faults(found)] == ["was deleted in mem0"]
    export = (
        b"---\nid: p1\ncreated_at: 2026-03-01T10:00:00Z\ntype: note\ncategories: tea, work\n---\nLikes tea\n---\n"
        b"\n---\nid: p2\n---\nSecond\n"
    )
    first, second = memories(items("mem0", export))
    assert (first.given.tags, first.given.metadata) == (("tea", "work"), {"type": "note"})
    assert first.given.text == "Likes tea\n---"
    assert second.given.external_id == "mem0:p2"


def test_the_reference_servers_file_gives_a_memory_for_each_observation_and_relation() -> None:
    found = items(
        "knowledge-graph",
        lines(
            {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Likes tea", "Lives in Ulm"]},
            {"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works at"},
            {"type": "other"},
        ),
    )
    assert [item.given.text for item in memories(found)] == ["Likes tea", "Lives in Ulm", "Ann works at Acme"]
    assert memories(found)[0].given.entities == ("Ann",)
    assert memories(found)[0].given.tags == ("person",)
    assert len({item.given.external_id for item in memories(found)}) == 3
    assert [fault.place for fault in faults(found)] == [3]


def node(identifier: str, parent: str | None, role: str, *parts: object, **more: object) -> dict[str, object]:
    message = {"id": identifier, "author": {"role": role}, "content": {"parts": list(parts)}, "create_time": None}
    return {"id": identifier, "parent": parent, "message": message | more}


def test_chatgpt_follows_the_current_branch_and_skips_what_was_not_said() -> None:
    mapping = {
        "root": {"id": "root", "parent": None, "message": None},
        "s": node("s", "root", "system", "hidden"),
        "u": node("u", "s", "user", "I like tea", {"asset_pointer": "x"}),
        "old": node("old", "u", "assistant", "an edited answer"),
        "a": node("a", "u", "assistant", "Noted", create_time=1_772_359_200.5),
        "t": node("t", "a", "tool", "result"),
        "e": node("e", "t", "assistant", {"asset_pointer": "x"}),
        "w": node("w", "e", "user", "aside", weight=0),
    }
    chat = {"id": "c1", "title": "Tea", "create_time": 1_772_359_100, "current_node": "w", "mapping": mapping}
    content = json.dumps([chat]).encode()
    whole = archive(**{"conversations-000__json": content, "memory__json": b'[{"content": "Prefers Ulm"}]'})
    for data, saved in ((content, 0), (whole, 1)):
        found = items("chatgpt", data)
        texts = [item.given.text for item in memories(found)]
        assert texts == ["I like tea", "Noted"] + ["Prefers Ulm"] * saved
        first, second = memories(found)[:2]
        assert (first.given.thread, first.given.role, second.given.role) == ("chatgpt:c1", "user", "assistant")
        assert first.given.occurred_at is not None
        assert first.given.metadata == {"title": "Tea"}
        assert len(faults(found)) == 4
    pasted = memories(items("chatgpt", b"[2026-03-01] - Prefers tea\nHas a cat\n"))
    assert [item.given.text for item in pasted] == ["Prefers tea", "Has a cat"]


def test_claude_reads_text_blocks() -> None:
    message = {"uuid": "m1", "sender": "human", "text": "", "created_at": "2026-03-01T10:00:00Z"}
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I like tea"}]
    chat = {
        "uuid": "c1",
        "name": "Tea",
        "chat_messages": [message | {"content": blocks}, message | {"uuid": "m2", "sender": "assistant", "text": "ok"}],
    }
    for content in (json.dumps([chat]).encode(), lines(chat), archive(conversations__json=json.dumps([chat]).encode())):
        found = memories(items("claude", content))
        assert [(item.given.text, item.given.role) for item in found] == [("I like tea", "user"), ("ok", "assistant")]
        assert found[0].given.external_id == "claude:c1/m1"


def test_langgraph_reads_the_store_in_three_forms(tmp_path: Path) -> None:
    row = {"prefix": "users.ann", "key": "k1", "value": {"text": "a heron", "n": 1}, "expires_at": None}
    old = row | {"key": "k2", "expires_at": "2025-01-01T00:00:00Z"}
    table = "CREATE TABLE store (prefix text, key text, value text, created_at text, updated_at text, expires_at text);"
    value = json.dumps(row["value"])
    as_database = database(
        tmp_path,
        table,
        ("INSERT INTO store VALUES ('users.ann', 'k1', ?, '2026-03-01T10:00:00Z', NULL, NULL)", (value,)),
        ("INSERT INTO store VALUES ('users.ann', 'k2', ?, NULL, NULL, '2025-01-01T00:00:00Z')", (value,)),
    )
    quoted = value.replace('"', '""')
    as_csv = (
        f'prefix,key,value,expires_at\nusers.ann,k1,"{quoted}",\nusers.ann,k2,"{quoted}",2025-01-01T00:00:00Z\n'
    ).encode()
    for content in (lines(row, old), as_csv, as_database):
        found = items("langgraph", content)
        [kept] = memories(found)
        assert (kept.given.text, kept.given.external_id) == ("a heron", "langgraph:users.ann/k1")
        assert kept.given.metadata == {"n": 1, "namespace": "users.ann"}
        assert [fault.reason for fault in faults(found)] == ["had expired in LangGraph"]
    deep = {"prefix": "p", "key": "k", "value": {"note": {"body": "deep"}}}
    assert memories(items("langgraph", lines(deep), map={"text": "value.note.body"}))[0].given.text == "deep"


def test_letta_gives_promoted_blocks_and_messages() -> None:
    file = {
        "agents": [
            {
                "id": "agent-1",
                "messages": [
                    {"id": "1", "role": "user", "content": [{"type": "text", "text": "I like tea"}]},
                    {"id": "2", "role": "tool", "content": "x"},
                ],
            }
        ],
        "blocks": [{"id": "b1", "label": "human", "value": "Ann, likes tea", "tags": ["x"]}],
    }
    found = items("letta", json.dumps(file).encode())
    block, message = memories(found)
    assert (block.given.tags, block.given.external_id) == (("human", "x"), "letta:b1")
    assert block.state is not None
    assert block.state.promoted_at == NOW
    assert (message.given.thread, message.given.role) == ("letta:agent-1", "user")
    assert len(faults(found)) == 1


def test_exports_of_ebbing_keep_strength_uses_and_links() -> None:
    memory = {"memory_id": "m1", "text": "a heron", "external_id": None, "tags": ["bird"], "metadata": None}
    state = {"access_count": 2, "created_at": "2026-03-01T10:00:00+00:00", "accessed_at": "2026-03-02T10:00:00+00:00"}
    state |= {"kind": 1, "salience": 0.5, "salience_source": "caller", "multiplier": 1.2, "promoted_at": None}
    link = {"other_id": "m2", "kind": "related", "weight": 0.5}
    cold = {"other_id": "m1", "kind": "about", "weight": 1}
    first = {"memory": memory, "hidden": False, "strength": 0.25, "state": state, "others": {"links": [link]}}
    second = {"memory": memory | {"memory_id": "m2", "external_id": "own"}, "state": state}
    second |= {"others": {"links": [], "cold_links": [cold]}}
    hidden = first | {"hidden": True}
    found = items("ebbing", archive(memories__jsonl=lines(first, second, hidden)))
    kept, other = memories(found)
    assert (kept.given.external_id, other.given.external_id) == ("ebbing:m1", "own")
    assert (kept.given.kind, kept.given.salience, kept.given.multiplier) == ("semantic", 0.5, 1.2)
    assert kept.state is not None
    assert (kept.state.strength, kept.state.uses) == (0.25, 2)
    assert [each[1:] for each in links(found)] == [
        ("ebbing:m1", "own", "related", 0.5),
        ("own", "ebbing:m1", "about", 1),
    ]
    assert len(faults(found)) == 1
    given = {"text": "a heron", "occurred_at": "2026-03-01T10:00:00Z", "external_id": "e"}
    assert memories(items("ebbing", archive(given__jsonl=lines(given))))[0].given.external_id == "e"
