"""Deletions of single memories due on the same night: processed as one batch, reported individually."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app import failpoints
from app.domain.privacy.export import NewExport
from app.domain.privacy.hold import Meant
from app.services.erasure import erasing_together, erasure_reports, erasures
from app.services.erasure.erasing_steps import STEPS
from app.services.erasure.erasures import Asked
from app.services.memories import memories
from app.services.privacy import exports, holds
from app.services.security import audit
from app.store.erasure.erasures import Erasure
from tests.service import Service
from tests.services.chilled import Chilled, aged, chilled
from tests.services.grave import erased

__all__ = ["aged", "chilled"]

TEXTS = ("Ann likes gooseberries", "Bob heard of it", "The weather was fine", "Ann moved to Wroclaw", "And so on")


class Deleted:
    """A tenant with some deleted memories."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tenant_id = service.tenant().tenant_id
        told = [{"text": text, "thread": "t", "subject": f"s{place}"} for place, text in enumerate(TEXTS)]
        self.ids = service.send(self.tenant_id, *told)
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
        return [erasures.get(self.tenant_id, erasure_id) for erasure_id in self.erasures]

    def left(self) -> list[UUID]:
        rows = self.service.rows("SELECT memory_id FROM memories WHERE tenant_id = %s ORDER BY seq", self.tenant_id)
        return [memory_id for (memory_id,) in rows]

    def entries(self, action: str) -> list[Any]:
        return audit.page(self.tenant_id, action, None, 100)


@pytest.fixture
def deleted(service: Service) -> Deleted:
    return Deleted(service)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of erasures verified in each batch call."""
    verified: list[int] = []
    carry_out = erasing_together.run_batch

    def counted(*given: Any) -> erasing_together.Did:
        did = carry_out(*given)
        verified.append(did.verified)
        return did

    monkeypatch.setattr(erasing_together, "run_batch", counted)
    return verified


def told(tenant_id: UUID, erasure_id: UUID) -> dict[str, Any]:
    """Return a report without the values that are unique to each erasure."""
    report = erasure_reports.report(tenant_id, erasure_id)
    own = ("erasure_id", "clocks", "audit", "made_at", "cut", "backups", "elsewhere")
    steps = [(each["step"], each["removed"]) for each in report["steps"]]
    return {name: value for name, value in report.items() if name not in own} | {"steps": steps}


def test_each_has_its_own_report_its_dates_and_its_place_in_the_audit(deleted: Deleted, together: list[int]) -> None:
    deleted.delete(0, 2, 3)
    deleted.night()
    assert sum(together) == 3
    assert deleted.left() == [deleted.ids[1], deleted.ids[4]]
    all_of_them = deleted.all()
    assert [each.status for each in all_of_them] == ["verified"] * 3
    assert len({each.requested_at for each in all_of_them}) == 3
    for erasure in all_of_them:
        assert erasure.scope == Meant()
        assert [step["step"] for step in erasure.executed] == list(STEPS)
        report = erasure_reports.report(deleted.tenant_id, erasure.erasure_id)
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
    deleted: Deleted, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted.delete(0)
    deleted.night()
    assert not sum(together), "a single deletion isn't batched"
    deleted.delete(2, 3)
    deleted.night()
    assert sum(together) == 2
    alone, *both = [told(deleted.tenant_id, each.erasure_id) for each in deleted.all()]
    tables = {row["store"]: row["found"] for row in alone["stores"]}
    for each in both:
        assert {row["store"]: row["found"] for row in each["stores"]}.keys() == tables.keys()
        assert {name: value for name, value in each.items() if name != "stores"} == {
            name: value for name, value in alone.items() if name != "stores"
        }


def test_who_has_more_to_be_erased_than_a_memory_is_carried_out_by_itself(
    chilled: Chilled, together: list[int]
) -> None:
    house = Deleted(chilled.service)
    house.delete(0, 1, 2, 3)
    exports.request(house.tenant_id, NewExport("s1"), "key")
    hold = holds.place(house.tenant_id, Meant(subject="s2"), "a lawsuit", "key")
    house.night()
    assert together[0] == 2
    assert [each.status for each in house.all()] == ["verified", "verified", "held", "verified"]
    assert house.left() == [house.ids[2], house.ids[4]]
    executed = {each["step"]: each["removed"] for each in house.all()[1].executed}
    assert executed["exports"] == 1
    holds.release(house.tenant_id, hold.hold_id, "key")


def test_a_cold_memory_names_its_segment_in_its_own_report(chilled: Chilled, together: list[int]) -> None:
    cold = chilled.remember("The first of two", "The second of two", "The third stays")
    chilled.cool()
    for memory_id in cold[:2]:
        memories.delete(chilled.tenant_id, memory_id, "key")
    erased(chilled.tenant_id)
    assert sum(together) == 2
    for each in erasures.page(chilled.tenant_id, None, None, 10):
        report = erasure_reports.report(chilled.tenant_id, each.erasure_id)
        [row] = [row for row in report["stores"] if "rewritten_by" in row]
        assert (row["found"], row["removed"], row["left"]) == (1, 1, 0)
        assert report["segments_to_rewrite"] == 1
        assert each.rewrite_by is not None


@pytest.mark.parametrize("place", ["erasing.entered", "erasing.planned", "erasing.before_commit", "bases", "verify"])
def test_a_crash_in_between_leaves_each_to_be_gone_on_with(
    deleted: Deleted, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    deleted.delete(0, 2, 3)
    with monkeypatch.context() as patched:
        if place in ("bases", "verify"):
            name = {"bases": "_renew_bases", "verify": "_verify"}[place]
            patched.setattr(erasing_together, name, _fails)
        else:
            patched.setattr(failpoints, "reach", lambda name, *_: _fails() if name == place else None)
        with pytest.raises(ConnectionError):
            deleted.night()
    deleted.night()
    assert [each.status for each in deleted.all()] == ["verified"] * 3
    assert deleted.left() == [deleted.ids[1], deleted.ids[4]]
    assert len(deleted.entries("erasure_verified")) == 3


def _fails(*_: object) -> None:
    raise ConnectionError


def test_a_hold_that_is_placed_meanwhile_keeps_its_memory(deleted: Deleted, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted.delete(0, 2, 3)
    plan = erasing_together._plan

    def placed(*given: Any) -> Any:
        planned = plan(*given)
        holds.place(deleted.tenant_id, Meant(subject="s2"), "a lawsuit", "key")
        return planned

    monkeypatch.setattr(erasing_together, "_plan", placed)
    deleted.night()
    assert [each.status for each in deleted.all()] == ["verified", "held", "verified"]
    assert deleted.left() == [deleted.ids[1], deleted.ids[2], deleted.ids[4]]


def test_what_has_a_job_of_its_own_or_more_than_one_memory_is_left_alone(deleted: Deleted, together: list[int]) -> None:
    for scope in (Meant(memory_ids=[deleted.ids[0]]), Meant(memory_ids=deleted.ids[1:3]), Meant(subject="s3")):
        erasures.request(deleted.tenant_id, Asked(scope, "user", 0), "key")
    deleted.night()
    assert not sum(together)
    asked = erasures.page(deleted.tenant_id, None, None, 10)
    assert {each.status for each in asked} == {"grace"}, "left to their own jobs"


def test_what_still_waits_to_be_stored_leaves_them_to_the_night_after(
    deleted: Deleted, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted.delete(0, 2)
    monkeypatch.setattr(erasing_together, "is_waiting", lambda *_: True)
    deleted.night()
    assert not sum(together)
    assert [each.status for each in deleted.all()] == ["verified"] * 2, "processed individually as usual"
