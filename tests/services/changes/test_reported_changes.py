"""Which changes the feed reports, of which ids, and in which order; and what it never contains."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from app.domain.changes.types import (
    DEAD_LETTER_CREATED,
    DELETED,
    ERASURE_CANCELLED,
    ERASURE_COMPLETED,
    ERASURE_REQUESTED,
    EXPORT_READY,
    MERGED,
    MOVED,
    NIGHT_FINISHED,
    RESTORED,
    SCORED,
    SELF_TEST_FAILED,
    STORED,
    SUPERSEDED,
    TYPES,
    UPDATED,
)
from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.quarantine import NewQuarantine
from app.domain.ingest.sources import Writer
from app.domain.policy.policy import Changes, Policy
from app.domain.privacy.legal_hold import Scope
from app.services.consolidation import merge_undo, supersession
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.ingest import drain
from app.services.jobs import schedule
from app.services.memories import memories
from app.services.privacy import anonymisation, quarantines
from app.store import self_tests
from app.store.changes import feed
from app.store.core import database
from tests.service import Service
from tests.services import archived_memories
from tests.services.archived_memories import archive_all, fade, remember
from tests.services.due_deletions import erased, worked
from tests.services.evaluation.test_self_tests import CELLO, mind_of
from tests.services.export_store import Vault, vault
from tests.services.mergeable import LIKE, Alike, alike

__all__ = ["alike", "vault"]

BOAT = "We rowed the boat across the lake"


def reported(tenant_id: UUID, *types: str) -> list[tuple[str, UUID]]:
    """Return the type and id of all changes, or of those of some types, in the order of the feed."""
    with database.tenant(tenant_id) as tx:
        found = feed.read_page(tx, tenant_id, 0, frozenset(types or TYPES), 1000)[0]
    return [(change.type, UUID(change.id)) for change in found]


def of_memory(tenant_id: UUID, memory_id: UUID) -> list[str]:
    return [change_type for change_type, each in reported(tenant_id) if each == memory_id]


@pytest.fixture
def tenant_id(service: Service) -> UUID:
    return service.tenant().tenant_id


def test_a_memory_is_stored_scored_edited_and_deleted(service: Service, tenant_id: UUID) -> None:
    [memory_id] = service.send(tenant_id, BOAT)
    service.work()
    memories.edit_memory(tenant_id, memory_id, MemoryPatch(tags=["boats"]))
    memories.edit_memory(tenant_id, memory_id, MemoryPatch(salience=0.9))
    deletion = memories.delete(tenant_id, memory_id)
    assert of_memory(tenant_id, memory_id) == [STORED, SCORED, UPDATED, UPDATED, DELETED]
    requests.cancel(tenant_id, deletion.erasure_id, "key")
    assert of_memory(tenant_id, memory_id)[5:] == [RESTORED]
    again = memories.delete(tenant_id, memory_id)
    erased(tenant_id)
    assert of_memory(tenant_id, memory_id)[6:] == [DELETED]
    erasures = [deletion.erasure_id, deletion.erasure_id, again.erasure_id, again.erasure_id]
    types = (ERASURE_REQUESTED, ERASURE_CANCELLED, ERASURE_REQUESTED, ERASURE_COMPLETED)
    assert reported(tenant_id, *types) == list(zip(types, erasures, strict=True))


def test_an_upsert_stores_then_updates_and_supersedes(service: Service, tenant_id: UUID) -> None:
    [first] = service.send(tenant_id, {"text": "Ann lives in Rome", "external_id": "home"})
    drain.drain_streams()
    service.send(tenant_id, {"text": "Ann lives in Oslo", "external_id": "home"})
    service.send(tenant_id, {"text": "Ann lives in Oslo", "external_id": "home"})
    drain.drain_streams()
    [newer] = service.send(tenant_id, {"text": "Ann lives in Paris", "supersedes": ["home"]})
    drain.drain_streams()
    assert of_memory(tenant_id, first) == [STORED, UPDATED, SUPERSEDED]
    [pair] = supersession.list_supersessions(tenant_id, "active", None, None, 9)
    supersession.undo_supersession(tenant_id, pair.supersession_id, Writer("key", "unknown"))
    supersession.make_supersession(tenant_id, str(newer), str(first), Writer("key", "user"))
    assert of_memory(tenant_id, first)[3:] == [RESTORED, SUPERSEDED]


def test_a_memory_that_matches_an_open_erasure_is_stored_then_deleted(service: Service, tenant_id: UUID) -> None:
    requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr"), "key")
    [memory_id] = service.send(tenant_id, {"text": BOAT, "subject": "ann"}, days=-1)
    drain.drain_streams()
    assert of_memory(tenant_id, memory_id) == [STORED, DELETED]


def test_tiers_move_down_and_a_use_restores(service: Service, tenant_id: UUID) -> None:
    [memory_id] = remember(service, tenant_id, BOAT)
    fade(service, [memory_id])
    archive_all(tenant_id)
    archived_memories.act_on(tenant_id, memory_id, "use")
    assert of_memory(tenant_id, memory_id) == [STORED, SCORED, MOVED, RESTORED]


def test_a_merge_archives_its_sources_and_is_undone(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    alike.run()
    [summary_id] = alike.summaries()
    assert of_memory(alike.tenant_id, summary_id) == [STORED]
    merged = {each for _, each in reported(alike.tenant_id, MERGED)}
    assert merged == {each for each, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "archived"} != set()
    merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    assert of_memory(alike.tenant_id, summary_id) == [STORED, DELETED]
    assert {each for _, each in reported(alike.tenant_id, RESTORED)} == merged


def test_a_summary_of_an_erased_source_is_hidden_then_rewritten(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann")
    alike.run()
    [summary_id] = alike.summaries()
    memories.delete(alike.tenant_id, reported(alike.tenant_id, MERGED)[0][1])
    alike.rederive()
    assert of_memory(alike.tenant_id, summary_id) == [STORED, DELETED, RESTORED, UPDATED]


def test_a_quarantine_reports_its_memories_as_deleted_and_its_lift_as_restored(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    alike.run()
    [summary_id] = alike.summaries()
    covered = {*ids, summary_id}
    placed = quarantines.place(alike.tenant_id, NewQuarantine(source="unknown", confirm=True), "key")
    assert {each for _, each in reported(alike.tenant_id, DELETED)} == covered
    assert len(reported(alike.tenant_id, DELETED)) == len(covered)
    assert reported(alike.tenant_id, RESTORED) == []
    quarantines.lift(alike.tenant_id, placed.quarantine_id, "key")
    alike.rederive()
    assert {each for _, each in reported(alike.tenant_id, RESTORED)} == covered
    last = {each: change_type for change_type, each in reported(alike.tenant_id, DELETED, RESTORED)}
    assert set(last.values()) == {RESTORED}


def test_an_erasure_reports_its_memories_and_keeps_ids_and_types(service: Service, tenant_id: UUID) -> None:
    ids = service.send(tenant_id, *({"text": f"{BOAT} {number}", "subject": "ann"} for number in range(3)))
    service.work()
    new = requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", grace_days=0), "key")
    worked(service)
    assert service.one("SELECT count(*) FROM memories WHERE tenant_id = %s", tenant_id) == 0
    assert {each for _, each in reported(tenant_id, DELETED)} == set(ids)
    assert reported(tenant_id, ERASURE_REQUESTED, ERASURE_COMPLETED) == [
        (ERASURE_REQUESTED, new.erasure_id),
        (ERASURE_COMPLETED, new.erasure_id),
    ]
    rows = str(service.rows("SELECT to_jsonb(changes) FROM changes"))
    assert [word for word in ("ann", "boat", "lake") if word in rows] == []


def test_an_anonymised_memory_is_updated(service: Service, tenant_id: UUID) -> None:
    [memory_id] = service.send(tenant_id, {"text": BOAT, "subject": "ann"})
    service.work()
    anonymisation.anonymise(tenant_id, memory_id, "key")
    assert of_memory(tenant_id, memory_id) == [STORED, SCORED, UPDATED]


def test_a_dead_letter_is_reported_once(service: Service, tenant_id: UUID) -> None:
    service.push(tenant_id, {b"n": b"x", b"h": b"nonsense", b"e": b"y"})
    drain.drain_streams()
    letter_id = service.one("SELECT letter_id FROM dead_letters")
    assert reported(tenant_id) == [(DEAD_LETTER_CREATED, letter_id)]


def test_a_night_is_reported_with_its_job(service: Service, tenant_id: UUID) -> None:
    run = schedule.run(tenant_id, "night")
    worked(service)
    assert reported(tenant_id) == [(NIGHT_FINISHED, run.job_id)]


def test_a_night_removes_expired_changes(service: Service) -> None:
    tenant_id = service.tenant(Policy(changes=Changes(keep_days=2))).tenant_id
    with database.tenant(tenant_id) as tx:
        for days in (3, 1):
            feed.record(tx, tenant_id, STORED, [uuid4()], database.now(tx) - timedelta(days=days))
    schedule.run(tenant_id, "night")
    worked(service)
    assert [change_type for change_type, _ in reported(tenant_id)] == [STORED, NIGHT_FINISHED]
    with database.tenant(tenant_id) as tx:
        assert feed.oldest(tx, tenant_id) == 1


def test_an_export_is_reported_when_it_is_ready(vault: Vault) -> None:
    vault.remember({"text": BOAT, "subject": "ann"})
    export = vault.made()
    assert reported(vault.tenant_id, EXPORT_READY) == [(EXPORT_READY, export.export_id)]


def test_only_a_failed_self_test_is_reported(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    mind = mind_of(service)
    mind.remember(CELLO)
    for failed in (0, 1):
        results = {"recall": {"passed": 1, "failed": failed}}
        monkeypatch.setattr(self_tests, "read_results", lambda *_, results=results: (results, []))
        run = mind.run()
        expected = [(SELF_TEST_FAILED, run.run_id)] if failed else []
        assert reported(mind.tenant_id, SELF_TEST_FAILED) == expected
