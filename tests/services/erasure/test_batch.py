"""Deletions of single memories that are due on the same night: erased as one batch, reported individually."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app import failpoints
from app.domain.privacy.export import NewExport
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict
from app.services.erasure import batch, execution, night_slice, requests, steps
from app.services.erasure.report import read_report
from app.services.erasure.requests import ErasureOptions
from app.services.erasure.steps import STEPS
from app.services.memories import memories
from app.services.privacy import export_requests, legal_holds, rights_overview
from app.services.security import audit
from app.store.erasure import residue
from app.store.erasure.requests import Erasure
from tests.service import Service
from tests.services.cold_due import Chilled, aged, chilled
from tests.services.due_deletions import erased, worked
from tests.services.erasure.test_erasing_killed import PLACES, USUAL_PLACES
from tests.variants import variants

__all__ = ["aged", "chilled"]

TEXTS = ("Ann likes gooseberries", "Bob heard of it", "The weather was fine", "Ann moved to Wroclaw", "And so on")


class Deleted:
    """A tenant with some deleted memories."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tenant_id = service.tenant().tenant_id
        result = [{"text": text, "thread": "t", "subject": f"s{place}"} for place, text in enumerate(TEXTS)]
        self.ids = service.send(self.tenant_id, *result)
        service.work()
        self.erasures: list[UUID] = []

    def delete(self, *places: int) -> None:
        statement = "SELECT erasure_id FROM hidden_memories WHERE memory_id = %s"
        for place in places:
            memories.delete(self.tenant_id, self.ids[place], "key")
            self.erasures.append(self.service.one(statement, self.ids[place]))
        self.service.work()

    def night(self) -> None:
        erased(self.tenant_id)

    def all(self) -> list[Erasure]:
        """Return the erasures of the deleted memories, in the order of deletion."""
        return [requests.get(self.tenant_id, erasure_id) for erasure_id in self.erasures]

    def left(self) -> list[UUID]:
        rows = self.service.rows("SELECT memory_id FROM memories WHERE tenant_id = %s ORDER BY seq", self.tenant_id)
        return [memory_id for (memory_id,) in rows]

    def entries(self, action: str) -> list[Any]:
        return audit.list_entries(self.tenant_id, action, None, 100)


@pytest.fixture
def deleted(service: Service) -> Deleted:
    return Deleted(service)


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch, service: Service) -> list[int]:
    """The number of deletions folded into each batch."""
    sizes: list[int] = []
    fold = batch.fold

    def counted(tenant_id: UUID, as_of: datetime) -> UUID | None:
        batch_id = fold(tenant_id, as_of)
        if batch_id is not None:
            statement = "SELECT count(*) FROM erasures WHERE batch_id = %s AND erasure_id <> batch_id"
            sizes.append(service.one(statement, batch_id))
        return batch_id

    monkeypatch.setattr(batch, "fold", counted)
    return sizes


def report_without_ids(tenant_id: UUID, erasure_id: UUID) -> dict[str, Any]:
    """Return a report without the values that are unique to each erasure."""
    report = read_report(tenant_id, erasure_id)
    own = ("erasure_id", "clocks", "audit", "made_at", "cut", "backups", "elsewhere")
    steps = [(each["step"], each["removed"]) for each in report["steps"]]
    passes = [(each["memories"], each["held"], each["holds"]) for each in report["passes"]]
    return {name: value for name, value in report.items() if name not in own} | {"steps": steps, "passes": passes}


def memories_reported(tenant_id: UUID, erasure_id: UUID) -> set[tuple[int, int, int]]:
    """Return the memories found, removed and left according to the step, and to the table."""
    stores = read_report(tenant_id, erasure_id)["stores"]
    named = {"table memories", STEPS["memories"].store}
    return {(row["found"], row["removed"], row["left"]) for row in stores if row["store"] in named}


def test_each_has_its_own_report_its_dates_and_its_place_in_the_audit(deleted: Deleted, folded: list[int]) -> None:
    deleted.delete(0, 2, 3)
    deleted.night()
    assert sum(folded) == 3
    assert deleted.left() == [deleted.ids[1], deleted.ids[4]]
    all_of_them = deleted.all()
    assert [each.status for each in all_of_them] == ["verified"] * 3
    assert len({each.requested_at for each in all_of_them}) == 3
    for erasure in all_of_them:
        assert erasure.scope == Scope()
        assert [step["step"] for step in erasure.executed] == list(STEPS)
        report = read_report(deleted.tenant_id, erasure.erasure_id)
        assert report["memories"] == 1
        tables = {row["store"]: row for row in report["stores"]}
        for table in ("memories", "memory_state", "hidden_memories"):
            assert [tables[f"table {table}"][name] for name in ("found", "removed", "left")] == [1, 1, 0]
        entry = {each.seq: each for each in deleted.entries("erasure_verified")}[report["audit"]["entry"]]
        assert entry.details["erasure"] == str(erasure.erasure_id)
        assert entry.hash.hex() == report["audit"]["hash"]
    [batch] = deleted.entries("memories_erased")
    assert (batch.items, batch.details) == (3, {"erasures": 3})
    moved = deleted.service.rows("SELECT move, rule, memories FROM tier_moves ORDER BY move")
    assert moved == [("deleted", "erasure", 3), ("hidden", "erasure", 3)]
    ledger = deleted.service.rows(
        "SELECT erasure_id, memory_ids FROM ebbing_keys.erasure_ledger WHERE tenant_id = %s", deleted.tenant_id
    )
    wanted = zip((each.erasure_id for each in all_of_them), (deleted.ids[place] for place in (0, 2, 3)), strict=True)
    assert sorted(ledger) == sorted((erasure_id, [memory_id]) for erasure_id, memory_id in wanted)
    assert audit.verify(deleted.tenant_id).broken is None
    assert deleted.service.one("SELECT seq = (SELECT max(seq) FROM ebbing_keys.erasure_ledger) FROM ledger_mark"), (
        "a start has nothing to replay"
    )


def test_the_report_is_the_one_that_it_would_have_by_itself(
    deleted: Deleted, folded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted.delete(0)
    deleted.night()
    assert not sum(folded), "a single deletion isn't batched"
    deleted.delete(2, 3)
    deleted.night()
    assert sum(folded) == 2
    alone, *both = [report_without_ids(deleted.tenant_id, each.erasure_id) for each in deleted.all()]
    tables = {row["store"]: row["found"] for row in alone["stores"]}
    for each in both:
        assert {row["store"]: row["found"] for row in each["stores"]}.keys() == tables.keys()
        assert {name: value for name, value in each.items() if name != "stores"} == {
            name: value for name, value in alone.items() if name != "stores"
        }


def test_an_export_is_reported_for_its_own_memory_and_a_held_memory_waits(chilled: Chilled, folded: list[int]) -> None:
    house = Deleted(chilled.service)
    house.delete(0, 1, 2, 3)
    export_requests.request_export(house.tenant_id, NewExport("s1"), "key")
    hold = legal_holds.place_hold(house.tenant_id, Scope(subject="s2"), "a lawsuit", "key")
    house.night()
    assert folded == [3]
    assert [each.status for each in house.all()] == ["verified", "verified", "held", "verified"]
    assert house.left() == [house.ids[2], house.ids[4]]
    removed = [{each["step"]: each["removed"] for each in erasure.executed} for erasure in house.all()]
    assert [each["exports"] for each in removed] == [0, 1, 0, 0]
    assert [each["memories"] for each in removed] == [1, 1, 0, 1]
    legal_holds.release_hold(house.tenant_id, hold.hold_id, "key")
    worked(house.service)
    assert house.all()[2].status == "verified"
    assert house.left() == [house.ids[4]]


def test_a_cold_memory_names_its_segment_in_its_own_report(chilled: Chilled, folded: list[int]) -> None:
    cold = chilled.remember("The first of two", "The second of two", "The third stays")
    chilled.cool()
    for memory_id in cold[:2]:
        memories.delete(chilled.tenant_id, memory_id, "key")
    erased(chilled.tenant_id)
    assert sum(folded) == 2
    for each in requests.page(chilled.tenant_id, None, None, 10):
        report = read_report(chilled.tenant_id, each.erasure_id)
        [row] = [row for row in report["stores"] if "rewritten_by" in row]
        assert (row["found"], row["removed"], row["left"]) == (1, 1, 0)
        assert report["segments_to_rewrite"] == 1
        assert each.rewrite_by is not None


@pytest.mark.parametrize("place", variants([*PLACES, "verify"], {*USUAL_PLACES, "verify"}))
def test_after_a_crash_the_next_night_finishes_the_batch(
    deleted: Deleted, folded: list[int], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    deleted.delete(0, 2, 3)
    with monkeypatch.context() as patched:
        if place == "verify":
            patched.setattr(batch, "settle", _fails)
        else:
            patched.setattr(failpoints, "trigger", lambda name, *_: _fails() if name == place else None)
        with pytest.raises(ConnectionError):
            deleted.night()
    deleted.night()
    assert [each.status for each in deleted.all()] == ["verified"] * 3
    assert [{step["step"]: step["removed"] for step in each.executed}["memories"] for each in deleted.all()] == [1] * 3
    assert deleted.left() == [deleted.ids[1], deleted.ids[4]]
    assert len(deleted.entries("erasure_verified")) == 3
    assert len(deleted.entries("memories_erased")) == 1
    assert deleted.service.one("SELECT count(*) FROM erasures") == 3, "no batch remains"


def _fails(*_: object) -> None:
    raise ConnectionError


def test_a_hold_placed_after_the_plan_keeps_its_memory_until_its_release(
    deleted: Deleted, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted.delete(0, 2, 3)
    plan = batch.plan_each
    placed: list[UUID] = []

    def plan_and_place(*given: Any) -> Any:
        planned = plan(*given)
        placed.append(legal_holds.place_hold(deleted.tenant_id, Scope(subject="s2"), "a lawsuit", "key").hold_id)
        return planned

    with monkeypatch.context() as patched:
        patched.setattr(batch, "plan_each", plan_and_place)
        deleted.night()
    assert [each.status for each in deleted.all()] == ["verified", "held", "verified"]
    assert deleted.left() == [deleted.ids[1], deleted.ids[2], deleted.ids[4]]
    [kept] = [row for row in (deleted.all()[1].report or {})["kept"] if row["what"] == "held memories"]
    assert kept["count"] == 1
    for hold_id in placed:
        legal_holds.release_hold(deleted.tenant_id, hold_id, "key")
    assert memories_reported(deleted.tenant_id, deleted.erasures[1]) == {(1, 0, 0)}
    worked(deleted.service)
    assert deleted.all()[1].status == "verified"
    assert deleted.left() == [deleted.ids[1], deleted.ids[4]]
    for erasure_id in deleted.erasures:
        assert memories_reported(deleted.tenant_id, erasure_id) == {(1, 1, 0)}
    waited = read_report(deleted.tenant_id, deleted.erasures[1])
    assert [(each["memories"], each["held"]) for each in waited["passes"]] == [(0, 1), (1, 0)]
    assert [each["hold_id"] for each in waited["holds"]] == [str(hold_id) for hold_id in placed]
    assert deleted.service.one("SELECT count(*) FROM hidden_memories") == 0


def test_residue_is_verified_for_each_deletion_individually(
    deleted: Deleted, folded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave_it(tenant_id: UUID, erasure: Any, _ids: Any, _at: str, _until: float) -> steps.StepProgress:
        with steps.step_transaction(tenant_id, erasure, "memories"):
            return steps.StepProgress(None, 0)

    deleted.delete(0, 2)
    there = STEPS["memories"]
    with monkeypatch.context() as patched:
        patched.setitem(STEPS, "memories", replace(there, erase=leave_it))
        deleted.night()
    assert folded == [2]
    assert [(each.status, each.batch_id) for each in deleted.all()] == [("running", None)] * 2
    assert deleted.service.one("SELECT sum(residue) > 0 FROM erasures")
    deleted.night()
    assert [each.status for each in deleted.all()] == ["verified"] * 2
    assert deleted.left() == [deleted.ids[place] for place in (1, 3, 4)]
    for erasure_id in deleted.erasures:
        assert memories_reported(deleted.tenant_id, erasure_id) == {(1, 1, 0)}


def test_a_batch_that_is_run_again_reports_what_its_first_run_removed(
    deleted: Deleted, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, runs = residue.counts, list[int]()

    def finds_residue_once(*given: Any) -> dict[str, int]:
        runs.append(1)
        return counts(*given) | ({"words without a memory": 1} if len(runs) == 1 else {})

    monkeypatch.setattr(residue, "counts", finds_residue_once)
    deleted.delete(0, 2)
    deleted.night()
    assert len(runs) == 2
    for erasure_id in deleted.erasures:
        assert memories_reported(deleted.tenant_id, erasure_id) == {(1, 1, 0)}


def test_a_batch_is_not_listed_and_its_deletions_are_running(deleted: Deleted) -> None:
    deleted.delete(0, 2)
    batch_id = batch.fold(deleted.tenant_id, datetime.now(UTC) + timedelta(days=31))
    assert batch_id is not None
    assert {each.erasure_id for each in requests.page(deleted.tenant_id, None, None, 10)} == set(deleted.erasures)
    assert [each.status for each in deleted.all()] == ["running"] * 2
    assert [each.scope for each in deleted.all()] == [Scope(memory_ids=[deleted.ids[place]]) for place in (0, 2)]
    with pytest.raises(Conflict):
        requests.cancel(deleted.tenant_id, deleted.erasures[0], "key")


def test_continuing_one_deletion_of_a_batch_runs_the_batch(deleted: Deleted) -> None:
    deleted.delete(0, 2)
    batch.fold(deleted.tenant_id, datetime.now(UTC) + timedelta(days=31))
    rights_overview.start_now(deleted.tenant_id, deleted.erasures[1])
    worked(deleted.service)
    assert [each.status for each in deleted.all()] == ["verified"] * 2
    assert len(deleted.entries("memories_erased")) == 1


def test_deletions_whose_batch_the_previous_version_finished_are_verified(deleted: Deleted) -> None:
    deleted.delete(0, 2)
    batch_id = batch.fold(deleted.tenant_id, datetime.now(UTC) + timedelta(days=31))
    deleted.service.rows("UPDATE erasures SET status = 'verified', scope = '{}' WHERE erasure_id = %s", batch_id)
    deleted.night()
    assert [each.status for each in deleted.all()] == ["verified"] * 2
    assert deleted.left() == [deleted.ids[place] for place in (1, 3, 4)]


def test_state_of_a_night_that_the_previous_version_began(deleted: Deleted, folded: list[int]) -> None:
    deleted.delete(0, 2)
    state: dict[str, Any] = {"erasure": None, "failed": [], "apart": []}
    later = datetime.now(UTC) + timedelta(days=31)
    while not (done := night_slice.run_night_slice(deleted.tenant_id, later, state, time.monotonic())).finished:
        state = done.state
        assert {"erasure", "failed", "apart"} <= state.keys(), "keys that the previous version reads"
    assert folded == [2]
    assert [each.status for each in deleted.all()] == ["verified"] * 2


def test_what_has_a_job_of_its_own_or_more_than_one_memory_is_left_alone(deleted: Deleted, folded: list[int]) -> None:
    for scope in (Scope(memory_ids=[deleted.ids[0]]), Scope(memory_ids=deleted.ids[1:3]), Scope(subject="s3")):
        requests.request(deleted.tenant_id, ErasureOptions(scope, "user", 0), "key")
    deleted.night()
    assert not sum(folded)
    asked = requests.page(deleted.tenant_id, None, None, 10)
    assert {each.status for each in asked} == {"grace"}, "left to their own jobs"


def test_a_batch_waits_for_data_that_is_not_stored_yet(
    deleted: Deleted, folded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted.delete(0, 2)
    left: list[list[UUID]] = []

    def waits_twice(*_: object) -> bool:
        left.append(deleted.left())
        return len(left) <= 2

    monkeypatch.setattr(execution, "is_waiting", waits_twice)
    deleted.night()
    assert left[:3] == [deleted.ids] * 3
    assert folded == [2]
    assert [each.status for each in deleted.all()] == ["verified"] * 2
