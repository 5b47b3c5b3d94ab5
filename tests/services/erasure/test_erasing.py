"""The steps of an erasure: deleting every trace of its memories outside `memories`."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.clients.object_store import cold_store
from app.domain.jobs import ERASE, Job
from app.domain.privacy.dead_letter_redaction import placeholder_thread
from app.domain.privacy.legal_hold import Scope
from app.domain.text.embedding_input import CONTEXT_TURNS
from app.domain.tiers import pca
from app.services.erasure import execution, night_slice, requests, steps
from app.services.erasure.requests import ErasureOptions
from app.services.erasure.steps import STEPS
from app.services.ingest import dead_letter_replay
from app.services.privacy import legal_holds
from app.services.tiers import pca_fitting, segment_compaction
from app.store.core import database
from app.store.erasure import requests as stored_requests
from app.store.jobs import jobs
from app.store.tiers import cold_segments
from tests.service import Service
from tests.services.archived_memories import archive_all, fade, remember
from tests.services.cold_due import LONG, Chilled, aged, chilled
from tests.services.erasure.test_erasures import Household, house
from tests.services.tiers.test_pca_fitting import crowd
from tests.variants import variants
from tests.waiting import PATIENCE_SECONDS

__all__ = ["aged", "chilled", "house"]


def erase(tenant_id: UUID, **scope: Any) -> UUID:
    """Request an erasure without a grace period, and return its id."""
    return requests.request(tenant_id, ErasureOptions(Scope(**scope), "gdpr", 0), "key").erasure_id


def carried_out(tenant_id: UUID, erasure_id: UUID, steps: int = 100) -> str:
    """Run at most this many steps of the erasure, and return its status."""
    state: dict[str, Any] = {}
    for _ in range(steps):
        done = execution.run_slice(Job(uuid4(), tenant_id, ERASE, {"erasure_id": str(erasure_id)}, state, None, 0))
        assert done.failure is None, done
        if done.finished:
            break
        state = done.state
    return requests.get(tenant_id, erasure_id).status


def removed(tenant_id: UUID, erasure_id: UUID) -> dict[str, int]:
    return {each["step"]: each["removed"] for each in requests.get(tenant_id, erasure_id).executed}


def test_a_plan_of_a_newer_version_waits_for_that_version(house: Household) -> None:
    """After a rollback, an erasure may have steps that this version doesn't know; its nights go on with the others."""
    newer, other = (erase(house.tenant_id, subject=subject) for subject in ("ann", "bob"))
    assert carried_out(house.tenant_id, newer, steps=2) == "running"
    own = requests.get(house.tenant_id, newer).plan
    assert own is not None
    with database.tenant(house.tenant_id) as tx:
        stored_requests.set_fields(tx, house.tenant_id, newer, plan=[{**own[0], "step": "dreams"}, *own])
    job = Job(uuid4(), house.tenant_id, ERASE, {"erasure_id": str(newer)}, {}, None, 0)
    done = execution.run_slice(job)
    assert (done.finished, done.failure) == (True, execution._NEWER_PLAN)
    house.service.rows("UPDATE jobs SET status = 'failed' WHERE kind = 'erase' RETURNING 1")
    night: dict[str, Any] = {}
    with database.tenant(house.tenant_id) as tx:
        now = database.now(tx)
    while not (step := night_slice.run_night_slice(house.tenant_id, now, night, time.monotonic())).finished:
        night = step.state
    assert requests.get(house.tenant_id, newer).status == "running"
    assert requests.get(house.tenant_id, other).status == "verified"
    with database.tenant(house.tenant_id) as tx:
        stored_requests.set_fields(tx, house.tenant_id, newer, plan=own)
    assert carried_out(house.tenant_id, newer) == "verified"


# --- Dead letters and their replays (acceptance 10) ---


@pytest.mark.acceptance(10)
def test_a_dead_letter_loses_them_and_its_replay_stores_the_others(house: Household) -> None:
    service = house.service
    body = [{"text": "Ann sings of otters", "subject": "ann"}, {"text": "Bob hums", "subject": "bob"}]
    service.rows("ALTER TABLE memories ADD CONSTRAINT trouble CHECK (text <> 'Bob hums') NOT VALID")
    try:
        _, bob = service.send(house.tenant_id, *body)
        service.work()
    finally:
        service.rows("ALTER TABLE memories DROP CONSTRAINT trouble")
    [letter_id] = service.rows("SELECT letter_id FROM dead_letters")[0]
    erasure_id = erase(house.tenant_id, subject="ann")
    assert carried_out(house.tenant_id, erasure_id) == "verified"
    assert removed(house.tenant_id, erasure_id)["letters"] == 1
    assert b"otters" not in bytes(service.one("SELECT payload FROM dead_letters"))
    dead_letter_replay.replay_letter(house.tenant_id, letter_id)
    service.work()
    assert service.rows("SELECT memory_id, text FROM memories WHERE text LIKE '%%hums%%'") == [(bob, "Bob hums")]
    assert service.one("SELECT count(*) FROM memories WHERE thread = %s", placeholder_thread(erasure_id)) == 0
    assert not any("erased" in text for text in house.listed())


# --- Bases of archived vectors (acceptance 8) ---


@pytest.mark.acceptance(8)
def test_a_basis_is_fitted_without_them_and_others_vectors_are_put_into_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pca_fitting, "OWN_FROM", 300)
    monkeypatch.setattr(pca, "SUBJECT_MAX", 5000)
    tenant = service.tenant()
    crowd(service, tenant, 40, "ann")
    others = crowd(service, tenant, 300, "bob")
    fade(service, others)
    archive_all(tenant.tenant_id)
    [old] = service.rows("SELECT basis_id FROM pca_bases")[0]
    before = service.rows("SELECT memory_id, vector::real[] FROM archived_memories ORDER BY memory_id")
    erasure_id = erase(tenant.tenant_id, subject="ann")
    assert carried_out(tenant.tenant_id, erasure_id) == "verified"
    [(new, samples)] = service.rows("SELECT basis_id, samples FROM pca_bases")
    assert new > old
    assert samples == 300
    assert service.rows("SELECT DISTINCT basis_id FROM archived_memories") == [(new,)]
    after = dict(service.rows("SELECT memory_id, vector::real[] FROM archived_memories"))
    pairs = [(before[0], each) for each in before[1:20]]
    for (one, one_was), (other, other_was) in pairs:
        was = sum(a * b for a, b in zip(one_was, other_was, strict=True))
        assert sum(a * b for a, b in zip(after[one], after[other], strict=True)) == pytest.approx(was, abs=0.02)


@pytest.mark.acceptance(8)
def test_where_too_few_are_left_archived_ones_keep_their_words_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pca_fitting, "SHARE_EACH", 300)
    tenant = service.tenant()
    crowd(service, tenant, 200, "ann")
    others = crowd(service, tenant, 100, "bob")
    pca_fitting._cached.cache_clear()
    assert "shared" in pca_fitting.refit_basis(tenant.tenant_id)[0]
    fade(service, others)
    archive_all(tenant.tenant_id)
    assert service.one("SELECT count(*) FROM archived_memories WHERE basis_id IS NOT NULL") == 100
    erasure_id = erase(tenant.tenant_id, subject="ann")
    assert carried_out(tenant.tenant_id, erasure_id) == "verified"
    assert service.one("SELECT count(*) FROM pca_bases") == 0
    assert service.one("SELECT count(*) FROM archived_memories WHERE vector IS NULL AND own IS NOT NULL") == 100


@pytest.mark.acceptance(8)
def test_an_archived_turn_that_held_their_words_loses_its_vector(house: Household) -> None:
    [(_, bob)] = [house.ids[:2]]
    fade(house.service, [bob])
    archive_all(house.tenant_id)
    assert house.service.one("SELECT vector IS NOT NULL FROM archived_memories")
    assert carried_out(house.tenant_id, erase(house.tenant_id, subject="ann")) == "verified"
    assert house.service.rows("SELECT memory_id, vector IS NULL, own IS NULL FROM archived_memories") == [
        (bob, True, False)
    ]


@pytest.mark.acceptance(8)
@pytest.mark.parametrize("erased", variants({str(n): n for n in range(7)}, {"0", "3"}))
def test_archived_turns_on_both_sides_lose_the_vectors_that_include_an_erased_one(
    service: Service, erased: int
) -> None:
    """The bundled embedder includes two turns before and two after a memory in its vector."""
    tenant = service.tenant()
    turns = [{"text": f"turn {n} of a boat", "thread": "t", "subject": f"person {n}"} for n in range(7)]
    ids = remember(service, tenant.tenant_id, *turns)
    fade(service, [each for place, each in enumerate(ids) if place != erased])
    archive_all(tenant.tenant_id)
    vectors = "SELECT memory_id FROM archived_memories WHERE vector IS NOT NULL"
    assert len(service.rows(vectors)) == 6
    assert carried_out(tenant.tenant_id, erase(tenant.tenant_id, subject=f"person {erased}")) == "verified"
    retained = {each for place, each in enumerate(ids) if abs(place - erased) > CONTEXT_TURNS}
    assert {memory_id for (memory_id,) in service.rows(vectors)} == retained


# --- Cold storage ---


def test_keys_go_at_once_and_a_night_rewrites_the_segments(chilled: Chilled) -> None:
    ann = chilled.remember(*[f"{n} {LONG}" for n in range(2)], subject="ann")
    bob = chilled.remember(*[f"{n} {LONG}" for n in range(5)], subject="bob")
    assert chilled.cool() == 7
    [segment_id] = chilled.service.rows("SELECT segment_id FROM segments")[0]
    erasure_id = erase(chilled.tenant_id, subject="ann")
    assert carried_out(chilled.tenant_id, erasure_id) == "verified"
    keys = "SELECT count(*) FROM ebbing_keys.record_keys WHERE tenant_id = %s"
    assert chilled.service.one(keys, chilled.tenant_id) == len(bob)
    assert removed(chilled.tenant_id, erasure_id)["keys"] == 1
    assert segment_compaction.compact_segments(chilled.tenant_id) == (1, {}), (
        "rewritten although most of the segment is still in use"
    )
    assert segment_compaction.compact_segments(chilled.tenant_id) == (0, {})
    [(left, records)] = chilled.service.rows("SELECT segment_id, records FROM segments")
    assert (left != segment_id, records) == (True, 5)
    assert not {memory_id for (memory_id,) in chilled.service.rows("SELECT memory_id FROM cold_memories")} & set(ann)
    assert len(list(cold_store().list_folder(f"segments/{chilled.tenant_id}"))) == 1


def test_a_location_without_its_memory_is_removed_by_the_next_pass(
    chilled: Chilled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker of an earlier version leaves it, if it rewrites the segment while the memory is deleted."""
    chilled.remember(LONG, subject="ann")
    assert chilled.cool() == 1
    complete, calls = cold_segments.delete_locations, iter([True])

    def overlook_once(*given: Any) -> list[UUID]:
        return [] if next(calls, False) else complete(*given)

    monkeypatch.setattr(cold_segments, "delete_locations", overlook_once)
    assert carried_out(chilled.tenant_id, erase(chilled.tenant_id, subject="ann")) == "verified"
    for table in ("cold_memories", "ebbing_keys.record_keys"):
        left = f"SELECT count(*) FROM {table} WHERE tenant_id = %s"  # noqa: S608 - constants
        assert chilled.service.one(left, chilled.tenant_id) == 0


# --- Records ---


def test_ended_jobs_and_released_holds_name_them_no_more(house: Household) -> None:
    hold = legal_holds.place_hold(house.tenant_id, Scope(subject="ann"), "a case", "key")
    house.service.rows("UPDATE holds SET reason = 'the case of ann'")  # as an earlier version accepted it
    legal_holds.release_hold(house.tenant_id, hold.hold_id, "key")
    with database.tenant(house.tenant_id) as tx:
        jobs.add(tx, uuid4(), house.tenant_id, "test", {"of": [{"subject": "ann"}]}, lone=False)
    house.service.rows("UPDATE jobs SET status = 'done', finished_at = now() WHERE kind = 'test'")
    erasure_id = erase(house.tenant_id, subject="ann")
    assert carried_out(house.tenant_id, erasure_id) == "verified"
    assert removed(house.tenant_id, erasure_id)["records"] == 3, "a job, a hold, and the hold's reason"
    for table in ("jobs", "holds", "erasures"):
        said = house.service.rows(f"SELECT row_to_json({table})::text FROM {table}")  # noqa: S608 - constants
        assert said
        assert not any('"ann"' in row or "case of ann" in row for (row,) in said), table


# --- Killed and concurrent workers (acceptance 4 and 5) ---


@pytest.mark.acceptance(5)
@pytest.mark.parametrize("steps", variants({str(n): n for n in range(1, 9)}, {"1", "4", "8"}))
def test_two_who_work_at_one_do_no_step_twice(house: Household, steps: int) -> None:
    erasure_id = erase(house.tenant_id, subject="ann")
    carried_out(house.tenant_id, erasure_id, steps)
    assert carried_out(house.tenant_id, erasure_id) == "verified"
    done = requests.get(house.tenant_id, erasure_id)
    assert [each["step"] for each in done.executed] == [each["step"] for each in done.plan or ()] == [*STEPS]
    assert house.service.one("SELECT count(*) FROM audit WHERE action = 'memories_erased'") == 1


@pytest.mark.acceptance(5)
def test_a_step_that_somebody_else_has_done_is_passed_over(house: Household) -> None:
    erasure_id = erase(house.tenant_id, subject="ann")
    carried_out(house.tenant_id, erasure_id, 2)
    stale = requests.get(house.tenant_id, erasure_id)
    assert carried_out(house.tenant_id, erasure_id) == "verified"
    with pytest.raises(steps.Overtaken):
        STEPS["memories"].erase(house.tenant_id, stale, [UUID(int=1)], "", time.monotonic() + PATIENCE_SECONDS)


def test_a_night_leaves_to_a_job_what_a_job_is_to_do(house: Household) -> None:
    erasure_id = erase(house.tenant_id, subject="ann")
    with database.tenant(house.tenant_id) as tx:
        now = database.now(tx)
    night_slice.run_night_slice(house.tenant_id, now, {}, time.monotonic() + PATIENCE_SECONDS)
    assert requests.get(house.tenant_id, erasure_id).status == "grace"
    house.service.rows("UPDATE jobs SET status = 'failed', finished_at = now() WHERE kind = 'erase'")
    night_slice.run_night_slice(house.tenant_id, now, {}, time.monotonic() + PATIENCE_SECONDS)
    assert requests.get(house.tenant_id, erasure_id).status == "verified"


@pytest.mark.acceptance(4)
def test_what_is_left_is_told_and_done_again(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave_it(tenant_id: UUID, erasure: Any, _ids: Any, _at: str, _until: float) -> steps.StepProgress:
        with steps.step_transaction(tenant_id, erasure, "memories"):
            return steps.StepProgress(None, 0)

    kept = STEPS["memories"]
    erasure_id = erase(house.tenant_id, subject="ann")
    with monkeypatch.context() as patch:
        patch.setitem(STEPS, "memories", _with(kept, leave_it))
        with pytest.raises(AssertionError, match="residue remains"):
            carried_out(house.tenant_id, erasure_id)
    assert requests.get(house.tenant_id, erasure_id).status == "running"
    assert carried_out(house.tenant_id, erasure_id) == "verified"


def _with(work: steps.ErasureStep, erase: Any) -> steps.ErasureStep:
    return steps.ErasureStep(work.store, work.method, work.find, erase)
