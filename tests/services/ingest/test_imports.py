"""Imports: what is stored, updated and skipped; strength as it was; nothing twice; files deleted with the job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app import failpoints
from app.domain.dynamics.profiles import profile
from app.domain.dynamics.state import new
from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.errors import Conflict, Invalid
from app.services.ingest import import_batch, import_job
from app.services.jobs import queue
from app.services.strength import memory_strength
from app.store.core import database
from app.store.strength import states
from tests.domain.imports.reading import lines
from tests.service import Service
from tests.services.ingest.import_store import Importer, importer

__all__ = ["importer"]

DAY = 86_400.0


def records(count: int, **more: Any) -> bytes:
    return lines(*({"text": f"heron {place}", "external_id": f"e{place}"} | more for place in range(count)))


def strength(importer: Importer, external_id: str, at: float) -> float:
    with database.tenant(importer.tenant_id) as tx:
        times = memory_strength.load_timeline(tx, importer.tenant_id)
        stored = states.read(tx, importer.tenant_id, [importer.id_of(external_id)])
    era = times.at(at)
    return float(
        memory_strength.evaluate_strength(era, memory_strength.advance_to_era(stored, times, at).state, at).strength[0]
    )


def test_memories_are_stored_in_order_indexed_and_found(importer: Importer) -> None:
    made = importer.run("jsonl", records(5) + b"{\n" + lines({"text": "a stork", "external_id": "s", "tags": ["bird"]}))
    assert (made.status, made.counts, made.position) == ("done", {"stored": 6, "skipped": 1}, 7)
    assert made.skipped == [(6, "the record isn't JSON")]
    assert made.reasons == {"the record isn't JSON": 1}
    assert importer.texts() == [*(f"heron {place}" for place in range(5)), "a stork"]
    importer.service.work()
    counts = importer.service.one("SELECT sum(active) FROM tenant_counts WHERE tenant_id = %s", importer.tenant_id)
    assert counts == 6
    words = importer.service.one("SELECT count(*) FROM memory_words WHERE tenant_id = %s", importer.tenant_id)
    assert words == 6
    assert importer.objects() == []
    keys = importer.service.one("SELECT count(*) FROM ebbing_keys.record_keys WHERE key_id = %s", made.import_id)
    assert keys == 0


def test_the_audit_log_has_the_memories_that_an_import_stored(importer: Importer) -> None:
    def audited() -> tuple[int, dict[str, Any]]:
        [(items, details)] = importer.service.rows(
            "SELECT items, details FROM audit WHERE tenant_id = %s AND action = 'import_ended' "
            "ORDER BY seq DESC LIMIT 1",
            importer.tenant_id,
        )
        return items, details

    importer.run("jsonl", records(3) + b"{\n", dry_run=True)
    assert audited() == (0, {"status": "done", "imports": 1}), "a dry run stores nothing"
    importer.run("jsonl", records(3) + b"{\n")
    assert audited() == (3, {"status": "done", "imports": 1, "stored": 3, "skipped": 1})
    importer.run("jsonl", records(3, tags=["bird"]))
    assert audited() == (3, {"status": "done", "imports": 1, "updated": 3})
    importer.run("jsonl", b"{\n")
    assert audited() == (0, {"status": "done", "imports": 1, "skipped": 1})


def test_a_second_import_changes_nothing_and_a_changed_record_updates(importer: Importer) -> None:
    importer.run("jsonl", records(3))
    again = importer.run("jsonl", records(3))
    assert again.counts == {"unchanged": 3}
    changed = importer.run("jsonl", records(2) + lines({"text": "changed", "external_id": "e2"}))
    assert changed.counts == {"unchanged": 2, "updated": 1}
    assert sorted(importer.texts()) == ["changed", "heron 0", "heron 1"]


def test_the_last_record_of_an_id_counts(importer: Importer) -> None:
    made = importer.run("jsonl", records(2) + lines({"text": "last", "external_id": "e0"}))
    assert made.counts == {"stored": 2, "skipped": 1}
    assert made.skipped == [(1, import_batch.REPEATED)]
    assert sorted(importer.texts()) == ["heron 1", "last"]


def test_a_dry_run_counts_and_stores_nothing(importer: Importer) -> None:
    importer.run("jsonl", records(2))
    made = importer.run("jsonl", records(5) + b"{\n", dry_run=True)
    assert (made.status, made.counts) == ("done", {"stored": 3, "updated": 2, "skipped": 1})
    assert len(importer.texts()) == 2
    assert importer.objects() == []


@pytest.mark.parametrize(
    "place", ["import.before_copy", "import.before_commit", "import.after_upsert", "import.after_batch"]
)
def test_an_import_that_is_killed_anywhere_continues_without_storing_anything_twice(
    importer: Importer, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(import_job, "BATCH", 4)
    importer.run("jsonl", lines({"text": "before", "external_id": "e1"}))
    with_link = lines({"text": "linked", "external_id": "l", "links": [{"to": "e0"}], "uses": 3, "strength": 0.5})
    started = importer.upload("jsonl", records(10) + with_link)
    kills = 0

    class Killed(BaseException):
        pass

    def kill(name: str, *_: object) -> None:
        nonlocal kills
        if name == place and kills < 2:
            kills += 1
            raise Killed

    monkeypatch.setattr(failpoints, "trigger", kill)
    for _ in range(2):
        importer.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", started.job_id)
        with pytest.raises(Killed):
            import_job.run_job_slice(importer_job(importer, started.job_id))
        import_job._close_reader()
    made = importer.work(started)
    assert kills == 2
    assert made.status == "done"
    assert made.position == 11
    assert sorted(importer.texts()) == sorted([*(f"heron {each}" for each in range(10)), "linked"])
    assert made.counts["stored"] == 10
    assert importer.service.one("SELECT count(*) FROM links WHERE tenant_id = %s", importer.tenant_id) == 1
    uses = importer.service.one("SELECT access_count FROM memory_state WHERE memory_id = %s", importer.id_of("l"))
    assert uses == 3
    counted = importer.service.one("SELECT sum(active) FROM tenant_counts WHERE tenant_id = %s", importer.tenant_id)
    assert counted == 11


def importer_job(importer: Importer, job_id: Any) -> Any:
    found = queue.get(importer.tenant_id, job_id)
    return Job(job_id, importer.tenant_id, found.kind, found.parameters, {}, None, found.done)


@pytest.mark.parametrize("name", ["spec", "mnemex", "cmm", "memory_decay"])
def test_a_stated_strength_arrives_in_every_model(service: Service, importer: Importer, name: str) -> None:
    importer.tenant_id = service.tenant(Policy.model_validate({"forgetting": {"profile": name}})).tenant_id
    made = importer.run("jsonl", records(2, uses=4, strength=0.37, created_at="2026-01-01T00:00:00Z", salience=0.5))
    assert made.counts == {"stored": 2}
    at = made.requested_at.timestamp()
    assert strength(importer, "e0", at) == pytest.approx(0.37, abs=1e-9)
    assert strength(importer, "e0", at + 30 * DAY) < 0.37
    assert service.one("SELECT access_count FROM memory_state WHERE memory_id = %s", importer.id_of("e0")) == 4


@pytest.mark.parametrize("name", ["spec", "mnemex"])
def test_memories_of_cortexgraph_keep_their_score(service: Service, importer: Importer, name: str) -> None:
    importer.tenant_id = service.tenant(Policy.model_validate({"forgetting": {"profile": name}})).tenant_id
    started = importer.upload("cortexgraph", b"x")
    at = started.requested_at.timestamp()
    record = {"id": "m", "content": "a heron", "created_at": at - 9 * DAY, "last_used": at - 5 * DAY}
    made = importer.run("cortexgraph", lines(record | {"use_count": 1, "strength": 0.75, "status": "promoted"}))
    at = made.requested_at.timestamp()
    mnemex = profile("mnemex")
    state = new(np.array([at - 5 * DAY]), multiplier=0.75)
    state = type(state)(**{f: getattr(state, f) for f in state.__slots__} | {"access_count": np.array([1.0])})
    expected = float(mnemex.score(state, at)[0])
    assert strength(importer, "cortexgraph:m", at) == pytest.approx(expected, abs=1e-5)
    promoted = service.one(
        "SELECT promoted_for FROM memory_state WHERE memory_id = %s", importer.id_of("cortexgraph:m")
    )
    assert promoted == "manual"


def test_links_lead_to_stored_memories_only(importer: Importer) -> None:
    memory = {"id": "a", "content": "a heron"}
    relation = {"id": "r", "from_memory_id": "a", "to_memory_id": "b", "relation_type": "supports"}
    missing = relation | {"id": "q", "to_memory_id": "c"}
    made = importer.run("cortexgraph", lines(memory, memory | {"id": "b", "content": "a stork"}, relation, missing))
    assert made.counts == {"stored": 2, "links": 1, "skipped": 1}
    assert made.skipped == [(4, import_batch.NO_LINK)]
    rows = importer.service.rows("SELECT kind, weight FROM links WHERE tenant_id = %s", importer.tenant_id)
    assert [tuple(row) for row in rows] == [("supports", 1.0)]


def test_a_file_that_cannot_be_read_fails_the_import_and_is_deleted(importer: Importer) -> None:
    made = importer.run("mem0", b"SQLite format 3\0")
    assert (made.status, made.failure is not None) == ("failed", True)
    assert importer.objects() == []


def test_files_are_stored_encrypted_and_a_cancelled_import_deletes_them(importer: Importer) -> None:
    started = importer.upload("jsonl", lines({"text": "a secret heron", "external_id": "x"}), subject="ann")
    stored = b"".join(path.read_bytes() for path in importer.objects())
    assert stored
    assert b"heron" not in stored
    assert b"ann" not in stored
    queue.cancel(importer.tenant_id, started.job_id)
    made = importer.work(started)
    assert made.status == "ended"
    assert importer.objects() == []
    assert importer.texts() == []


@pytest.mark.parametrize(
    ("format_name", "content", "options", "field"),
    [
        ("pickle", b"x", {}, "format"),
        ("mem0", b"x", {"map": {"text": "content"}}, "map"),
        ("langgraph", b"x", {"map": {"subject": "content"}}, "map"),
        ("jsonl", b"x", {"map": {"txt": "content"}}, "map"),
        ("jsonl", b"x", {"time_zone": "Mars/Olympus"}, "time_zone"),
        ("jsonl", b"", {}, "body"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    importer: Importer, format_name: str, content: bytes, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        importer.upload(format_name, content, **options)
    assert [error.field for error in refused.value.errors] == [field]


def test_too_many_unfinished_imports_are_refused(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.ingest.import_requests.OPEN_MAX", 1)
    importer.upload("jsonl", b"x")
    with pytest.raises(Conflict, match="unfinished"):
        importer.upload("jsonl", b"x")


def test_a_memory_stored_meanwhile_is_updated(importer: Importer, monkeypatch: pytest.MonkeyPatch) -> None:
    original = failpoints.trigger

    def send(name: str, *given: str) -> None:
        if name == "import.before_copy" and not importer.texts():
            importer.service.send(importer.tenant_id, {"text": "sent", "external_id": "e0"})
            importer.service.work()
        original(name, *given)

    monkeypatch.setattr(failpoints, "trigger", send)
    made = importer.run("jsonl", records(2))
    assert made.counts == {"stored": 1, "updated": 1}
    assert sorted(importer.texts()) == ["heron 0", "heron 1"]
