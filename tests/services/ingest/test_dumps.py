"""Dump and load: a round trip changes nothing, erased data isn't loaded again, foreign dumps are refused."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from app.domain.ingest.quarantine import NewQuarantine
from app.domain.ingest.uses import Touches, Use
from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest
from app.services.ingest import import_dump
from app.services.privacy import dump, quarantines
from app.services.search import search
from app.services.strength import memory_strength
from app.services.uses import reinforcement
from app.store.core import database
from app.store.strength import states
from tests.services.erasure.test_erasing import carried_out, erase
from tests.services.ingest.import_store import Importer, importer

__all__ = ["importer"]

DAY = 86_400.0
WORDS = ("heron", "otter", "tea", "river", "train", "garden", "violin", "winter", "lamp", "bread")
DERIVED = {"memory_state": {"tenant_id", "next_due_at", "policy_version"}}


def texts(count: int) -> list[dict[str, Any]]:
    return [
        {
            "text": f"{WORDS[n % 10]} and {WORDS[(n * 7 + n // 10) % 10]} number {n}",
            "subject": "ann" if n % 5 == 0 else "bob",
            "thread": f"t{n // 8}",
            "tags": [WORDS[n % 3]],
            "metadata": {"n": n, "x": n / 7},
            "occurred_at": f"2026-03-{1 + n % 28:02}T10:00:00.123456Z",
        }
        | ({"external_id": f"e{n}"} if n % 2 else {})
        | ({"salience": n % 100 / 100} if n % 3 == 0 else {})
        for n in range(count)
    ]


def fill(importer: Importer, count: int) -> list[UUID]:
    ids = importer.service.send(importer.tenant_id, *texts(count), days=3)
    importer.service.work()
    for session in range(2):
        reinforcement.touch_memory(importer.tenant_id, ids[1], Touches([Use(ids[1])], session))
    importer.service.rows(
        "INSERT INTO links (tenant_id, memory_id, other_id, kind, weight) VALUES (%s, %s, %s, 'supports', 0.3)",
        *(importer.tenant_id, ids[0], ids[1]),
    )
    return ids


def table(importer: Importer, tenant_id: UUID, name: str) -> list[dict[str, Any]]:
    rows = importer.service.rows(
        f"SELECT to_jsonb(row) FROM {name} AS row WHERE tenant_id = %s ORDER BY memory_id, to_jsonb(row)::text",  # noqa: S608
        tenant_id,
    )
    left_out = {"tenant_id", "event_id"} | DERIVED.get(name, set())
    return [{key: value for key, value in row.items() if key not in left_out} for (row,) in rows]


def strengths(tenant_id: UUID, ids: list[UUID], at: float) -> np.ndarray[Any, Any]:
    with database.tenant(tenant_id) as tx:
        times = memory_strength.load_timeline(tx, tenant_id)
        stored = states.read(tx, tenant_id, ids)
    assert len(stored) == len(ids)
    state = memory_strength.advance_to_era(stored, times, at).state
    return memory_strength.evaluate_strength(times.at(at), state, at).strength


def dumped(tenant_id: UUID) -> bytes:
    return b"".join(dump.stream_dump(tenant_id, "key"))


def load(importer: Importer, content: bytes, tenant_id: UUID, **options: Any) -> Any:
    importer.tenant_id = tenant_id
    return importer.run("dump", content, **options)


@pytest.mark.parametrize("profile", ["spec", "memory_decay"])
def test_a_round_trip_keeps_every_field_and_every_strength(importer: Importer, profile: str) -> None:
    service = importer.service
    policy = Policy.model_validate({"forgetting": {"profile": profile}})
    first = service.tenant(policy).tenant_id
    importer.tenant_id = first
    ids = fill(importer, 40)
    content = dumped(first)
    second = service.tenant().tenant_id
    made = load(importer, content, second)
    assert (made.status, made.counts) == ("done", {"stored": 40, "links": 1}), made
    for name in ("memories", "memory_events", "scores", "links"):
        assert table(importer, first, name) == table(importer, second, name), name
    with database.tenant(second) as tx:
        now = database.now(tx).timestamp()
        assert memory_strength.load_timeline(tx, second).at(now).policy == policy
    for at in (now, now + 30 * DAY):
        assert np.max(np.abs(strengths(first, ids, at) - strengths(second, ids, at))) <= 1e-9
    counts = service.rows("SELECT tenant_id, sum(active), sum(text_bytes) FROM tenant_counts GROUP BY 1")
    assert len({tuple(row[1:]) for row in counts if row[0] in (first, second)}) == 1
    again = load(importer, content, second)
    assert again.counts == {"unchanged": 40}


def test_another_policy_keeps_the_strength_of_the_dump(importer: Importer) -> None:
    service = importer.service
    first = importer.tenant_id
    ids = fill(importer, 10)
    content = dumped(first)
    second = service.tenant(Policy.model_validate({"forgetting": {"profile": "cmm"}})).tenant_id
    importer.tenant_id = second
    importer.run("jsonl", b'{"text": "touched", "external_id": "own"}\n')
    made = load(importer, content, second)
    assert made.counts["stored"] == 10
    at = made.requested_at.timestamp()
    assert np.max(np.abs(strengths(first, ids, at) - strengths(second, ids, at))) <= 1e-5


def test_subjects_and_memories_erased_since_are_not_loaded_again(importer: Importer) -> None:
    first = importer.tenant_id
    ids = fill(importer, 20)
    content = dumped(first)
    assert carried_out(first, erase(first, subject="ann")) == "verified"
    assert carried_out(first, erase(first, memory_ids=[ids[1]])) == "verified"
    for tenant_id in (importer.service.tenant().tenant_id, first):
        made = load(importer, content, tenant_id)
        assert made.reasons == {import_dump.ERASED: 5}
        left = importer.service.rows("SELECT subject FROM memories WHERE tenant_id = %s", tenant_id)
        assert {subject for (subject,) in left} == {"bob"}
        assert len(left) == 15


def test_a_dump_of_another_installation_is_refused_unless_accepted(importer: Importer) -> None:
    first = importer.tenant_id
    fill(importer, 4)
    lines = dumped(first).splitlines(keepends=True)
    foreign = json.loads(lines[0]) | {"tenant_id": str(uuid4())}
    content = b"".join([json.dumps(foreign).encode() + b"\n", *lines[1:]])
    second = importer.service.tenant().tenant_id
    refused = load(importer, content, second)
    assert (refused.status, refused.failure) == ("failed", import_dump.ELSEWHERE)
    assert load(importer, content, second, accept=True).counts["stored"] == 4


def test_memories_in_quarantine_are_left_out_and_counted(importer: Importer) -> None:
    ids = importer.service.send(importer.tenant_id, "heron", "otter")
    importer.service.work()
    importer.service.rows("UPDATE memories SET source = 'tool' WHERE memory_id = %s RETURNING 1", ids[0])

    def dumped() -> tuple[set[str], dict[str, int]]:
        lines = [json.loads(line) for line in b"".join(dump.stream_dump(importer.tenant_id, "key")).splitlines()]
        return {line["memory"]["memory_id"] for line in lines if "memory" in line}, lines[-1]["end"]

    assert dumped() == ({str(each) for each in ids}, {"memories": 2, "damaged": 0, "quarantined": 0})
    newest = "SELECT items FROM audit WHERE tenant_id = %s AND action = 'tenant_dumped' ORDER BY seq DESC LIMIT 1"
    assert importer.service.one(newest, importer.tenant_id) == 2
    placed = quarantines.place(importer.tenant_id, NewQuarantine(source="tool", confirm=True), "key")
    assert dumped() == ({str(ids[1])}, {"memories": 1, "damaged": 0, "quarantined": 1})
    assert importer.service.one(newest, importer.tenant_id) == 1, "the audit log counts what the dump contains"
    quarantines.lift(importer.tenant_id, placed.quarantine_id, "key")
    assert dumped()[1]["quarantined"] == 0


def test_incomplete_and_damaged_dumps_are_refused_with_the_reason(importer: Importer) -> None:
    first = importer.tenant_id
    fill(importer, 4)
    lines = dumped(first).splitlines(keepends=True)
    second = importer.service.tenant().tenant_id
    assert load(importer, b"".join(lines[:-1]), second).failure == "the dump is incomplete: its last line is missing"
    broken = json.loads(lines[1])
    broken["state"]["multiplier"] = 7
    third = importer.service.tenant().tenant_id
    made = load(importer, b"".join([lines[0], json.dumps(broken).encode() + b"\n", *lines[2:]]), third)
    assert made.failure == "a row of memory_state violates a constraint of the table"
    assert load(importer, b"{}\n", third).failure == "the file isn't a dump of the format ebbing-dump-2"


@pytest.mark.long
def test_searches_of_a_loaded_tenant_return_the_same_results(importer: Importer) -> None:
    first = importer.tenant_id
    fill(importer, 300)
    second = importer.service.tenant().tenant_id
    content = dumped(first)
    assert load(importer, content, second).counts["stored"] == 300
    importer.service.work()
    for n in range(100):
        query = f"{WORDS[n % 10]} {WORDS[(n * 3 + n // 10) % 10]} number {n * 3}"
        first_found, second_found = (
            search.search(tenant_id, SearchRequest(query=query, reinforce=False)) for tenant_id in (first, second)
        )
        assert [result.id for result in first_found] == [result.id for result in second_found], query
        scores = [result.score for result in first_found]
        # Strength fades between the two searches.
        assert [result.score for result in second_found] == pytest.approx(scores, abs=1e-6)
        assert scores
