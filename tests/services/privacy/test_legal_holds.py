"""Legal holds: which memories they cover, until when, and which operations they block."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import text

from app.domain.ingest.memory import MemoryPatch
from app.domain.jobs import Job
from app.domain.privacy.legal_hold import HoldCorrection, NewHold, Scope, parse_scope
from app.errors import Conflict, Invalid, NotFound, Unavailable
from app.services.memories import explanation, memories
from app.services.privacy import legal_holds
from app.services.storage import lookup
from app.services.storage.memory_write import memory_write
from app.services.tiers import transitions
from app.store.core import database
from app.store.privacy import holds
from app.store.privacy.holds import HoldCounts
from app.store.strength import states
from tests.service import Service
from tests.services import due_deletions, nights
from tests.services.aged import START, Aged, days
from tests.waiting import PATIENCE_SECONDS, until

OLD = {
    "subject": "ann",
    "thread": "t",
    "tags": ["a", "b"],
    "categories": ["work"],
    "kind": "semantic",
    "occurred_at": days(-30),
}


@pytest.fixture
def aged(service: Service, monkeypatch: pytest.MonkeyPatch) -> Aged:
    return Aged(service, monkeypatch)


def mark(aged: Aged, memory_id: UUID, **columns: object) -> None:
    for name, value in columns.items():
        aged.service.rows(f"UPDATE memories SET {name} = %s WHERE memory_id = %s", value, memory_id)  # noqa: S608


def place(tenant_id: UUID, **conditions: Any) -> UUID:
    return legal_holds.place_hold(tenant_id, Scope(**conditions), "court", "key").hold_id


def placed(aged: Aged, **conditions: Any) -> UUID:
    return place(aged.tenant_id, **conditions)


@pytest.mark.parametrize(
    ("conditions", "is_held"),
    [
        ({"subject": "ann"}, True),
        ({"subject": "bob"}, False),
        ({"thread": "t"}, True),
        ({"thread": "u"}, False),
        ({"tags": ["b"]}, True),
        ({"tags": ["a", "c"]}, False),
        ({"categories": ["x", "work"]}, True),
        ({"categories": ["x"]}, False),
        ({"kinds": ["semantic", "system"]}, True),
        ({"kinds": ["system"]}, False),
        ({"after": days(-30)}, True),
        ({"after": days(-29)}, False),
        ({"before": days(-29)}, True),
        ({"before": days(-30)}, False),
        ({"subject": "ann", "thread": "t", "after": days(-31), "before": days(-29)}, True),
        ({"subject": "ann", "thread": "u"}, False),
    ],
    ids=str,
)
def test_all_conditions_of_a_hold_must_be_met(aged: Aged, conditions: dict[str, Any], is_held: bool) -> None:
    [memory_id] = aged.remember(-25)
    mark(aged, memory_id, **OLD)
    hold_id = placed(aged, **conditions)
    assert (explanation.explain_tier(aged.tenant_id, memory_id).verdict.rule == "hold") == is_held
    assert legal_holds.get(aged.tenant_id, hold_id)[1] == (int(is_held), 0)


def test_a_held_memory_stays_until_the_hold_is_released(aged: Aged) -> None:
    held, _ = aged.remember(-25, -25)
    hold_id = placed(aged, memory_ids=[held])
    nights.swept(aged.tenant_id)
    assert aged.tiers() == ["active", "archived"]
    nights.swept(aged.tenant_id)
    legal_holds.release_hold(aged.tenant_id, hold_id, "another")
    assert legal_holds.get(aged.tenant_id, hold_id)[1] == (0, 0)
    assert nights.swept(aged.tenant_id) == 1
    assert aged.tiers() == ["archived", "archived"]
    with pytest.raises(Conflict, match="already released"):
        legal_holds.release_hold(aged.tenant_id, hold_id, "another")


def test_a_hold_counts_for_what_was_to_be_moved_already(aged: Aged) -> None:
    held, other = aged.remember(-25, -25)
    nights.swept(aged.tenant_id)
    assert aged.tiers() == ["archived", "archived"]
    placed(aged, memory_ids=[held])
    with memory_write(aged.tenant_id, "tier") as write:
        assert transitions.claim_due(write, "active", 10).held.ids == [other]


def test_of_two_holds_the_second_still_holds(aged: Aged) -> None:
    [memory_id] = aged.remember(-25)
    first, second = placed(aged, memory_ids=[memory_id]), placed(aged, before=days(1))
    assert [holder.hold_id for holder in explanation.explain_tier(aged.tenant_id, memory_id).holders] == [first, second]
    legal_holds.release_hold(aged.tenant_id, first, "k")
    assert [holder.hold_id for holder in explanation.explain_tier(aged.tenant_id, memory_id).holders] == [second]
    assert explanation.explain_tier(aged.tenant_id, memory_id).verdict.rule == "hold"


def test_what_much_is_released_is_seen_to_by_a_job(aged: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legal_holds, "ROWS", 2)
    aged.remember(*[-1] * 5)
    hold_id = placed(aged, before=days(1))
    nights.swept(aged.tenant_id)
    aged.now = START + timedelta(seconds=1)
    legal_holds.release_hold(aged.tenant_id, hold_id, "k")
    job_id, parameters = aged.service.rows("SELECT job_id, parameters FROM jobs WHERE kind = 'release'")[0]
    step = legal_holds.run_job_slice(Job(job_id, aged.tenant_id, legal_holds.KIND, parameters, {}, None, 0))
    assert (step.finished, step.done) == (True, 3)
    assert nights.swept(aged.tenant_id) == 5


def test_ids_that_are_nobodys_are_named(service: Service) -> None:
    tenant, other = service.tenant(), service.tenant()
    [mine], [theirs] = service.send(tenant.tenant_id, "x"), service.send(other.tenant_id, "y")
    with pytest.raises(Unavailable, match="queue"):
        place(tenant.tenant_id, memory_ids=[mine])
    service.work()
    with pytest.raises(Invalid) as refused:
        place(tenant.tenant_id, memory_ids=[mine, theirs])
    assert [(error.field, error.value) for error in refused.value.errors] == [("ids[1]", str(theirs))]
    assert legal_holds.list_holds(tenant.tenant_id, None, 10, released=True) == []
    with pytest.raises(NotFound):
        legal_holds.get(other.tenant_id, place(tenant.tenant_id, memory_ids=[mine]))


def test_one_that_was_deleted_can_be_held_while_it_is_there(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    [memory_id] = service.send(tenant_id, {"text": "what the court wants to see"})
    service.work()
    memories.delete(tenant_id, memory_id)
    hold_id = place(tenant_id, memory_ids=[memory_id])
    assert legal_holds.get(tenant_id, hold_id)[1] == HoldCounts(0, 1)
    due_deletions.erased(tenant_id)
    assert service.texts(tenant_id) == ["what the court wants to see"]
    legal_holds.release_hold(tenant_id, hold_id, "key")
    due_deletions.worked(service)
    assert service.texts(tenant_id) == []


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "ids"),
        ({"memory_ids": (UUID("0198a7c2-5e4b-7d31-9c06-3f2b8e1a4d57"),), "subject": "ann"}, "ids"),
        ({"filter": {"after": days(1), "before": days(0)}}, "filter.before"),
    ],
    ids=str,
)
def test_a_hold_on_nothing_or_on_everything_at_once_is_refused(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_scope(msgspec.convert({"reason": "x", **given}, NewHold))
    assert refused.value.errors[0].field == field


# --- Blocked operations ---


def test_a_held_memory_is_neither_deleted_nor_rewritten_but_weighed(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    [memory_id] = service.send(tenant_id, {"text": "x", "subject": "ann"})
    service.work()
    hold_id = place(tenant_id, subject="ann")
    for patch in (MemoryPatch(text="y"), MemoryPatch(subject="bob"), MemoryPatch(tags=())):
        with pytest.raises(Conflict, match=str(hold_id)):
            memories.edit_memory(tenant_id, memory_id, patch)
    with pytest.raises(Conflict, match=str(hold_id)):
        memories.delete(tenant_id, memory_id)
    assert memories.edit_memory(tenant_id, memory_id, MemoryPatch(multiplier=1.5)).multiplier == 1.5
    legal_holds.release_hold(tenant_id, hold_id, "k")
    memories.delete(tenant_id, memory_id)


def test_what_comes_for_a_held_memory_becomes_one_of_its_own(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    [first] = service.send(tenant_id, {"text": "old", "external_id": "k"})
    [free] = service.send(tenant_id, {"text": "free", "external_id": "f"})
    service.work()
    place(tenant_id, memory_ids=[first])
    [same] = service.send(tenant_id, {"text": "old", "external_id": "k"})
    service.work()
    assert lookup.get(tenant_id, same).memory_id == first
    second, other = service.send(tenant_id, {"text": "new", "external_id": "k"}, {"text": "freed", "external_id": "f"})
    service.work()
    assert lookup.get(tenant_id, first).text == "old"  # type: ignore[union-attr]
    found = lookup.get(tenant_id, second)
    assert (found.memory_id, found.text, found.external_id) == (second, "new", "k")  # type: ignore[union-attr]
    assert lookup.get(tenant_id, other).memory_id == free
    [third] = service.send(tenant_id, {"text": "newer", "external_id": "k"})
    service.work()
    assert lookup.get(tenant_id, third).memory_id == second


def test_a_hold_waits_for_what_is_being_removed(service: Service) -> None:
    """Otherwise a memory that was held when the request was answered could still be removed."""
    tenant_id = service.tenant().tenant_id
    [memory_id] = service.send(tenant_id, "x")
    service.work()
    with ThreadPoolExecutor(1) as pool:
        with database.tenant(tenant_id) as tx:
            holds.lock_shared(tx, tenant_id)
            placing = pool.submit(place, tenant_id, memory_ids=[memory_id])
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            until(lambda: service.one(waiting), "the hold waits for a lock")
            assert not placing.done()
        placed = placing.result(timeout=PATIENCE_SECONDS)
        assert placed in [hold.hold_id for hold in legal_holds.list_holds(tenant_id, None, 1, released=False)]


def test_who_is_being_edited_is_passed_over_by_movers(aged: Aged) -> None:
    edited, other = aged.remember(-25, -25)
    nights.swept(aged.tenant_id)
    with database.tenant(aged.tenant_id) as editor:
        editor.execute(text("SELECT FROM memories WHERE memory_id = :id FOR UPDATE"), {"id": edited})
        with memory_write(aged.tenant_id, "tier") as write:
            assert transitions.claim_due(write, "active", 10).held.ids == [other]
            assert states.lock(editor, aged.tenant_id, [edited]).ids == [edited], "the mover took no lock on it"


# --- Withdrawn protection ---


@pytest.mark.parametrize("way", ["patch", "external id"])
def test_what_loses_its_protection_is_looked_at_again(service: Service, way: str) -> None:
    tenant_id = service.tenant().tenant_id
    [memory_id] = service.send(tenant_id, {"text": "x", "tags": ["promise"], "external_id": "k", "salience": 0.1})
    service.work()
    service.rows("UPDATE memories SET created_at = now() - interval '60 days'")
    service.rows(
        "UPDATE memory_state SET (created_at, accessed_at, anchored_at) = "
        "(SELECT past, past, past FROM (SELECT now() - interval '60 days') AS long (past))"
    )
    service.rows("UPDATE policies SET effective_at = now() - interval '90 days'")
    nights.swept(tenant_id)
    assert explanation.explain_tier(tenant_id, memory_id).verdict.rule == "never_forget"
    assert nights.swept(tenant_id) == 0
    if way == "patch":
        memories.edit_memory(tenant_id, memory_id, MemoryPatch(tags=()))
    else:
        service.send(tenant_id, {"text": "x", "external_id": "k"})
        service.work()
    assert nights.swept(tenant_id) == 1
    assert service.one("SELECT wanted_tier FROM memory_state") != "active"


def test_a_ground_is_added_later_and_the_values_before_are_kept(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    placed = legal_holds.place_hold(tenant_id, Scope(subject="ann"), "case 17", "key")
    added = legal_holds.correct_hold(tenant_id, placed.hold_id, HoldCorrection(ground="legal_claims"), "other")
    assert (added.ground, added.reason, added.placed_by) == ("legal_claims", "case 17", "key")
    again = legal_holds.correct_hold(tenant_id, placed.hold_id, HoldCorrection(ground="legal_claims"), "other")
    assert again == added
    legal_holds.release_hold(tenant_id, placed.hold_id, "key")
    corrected = legal_holds.correct_hold(tenant_id, placed.hold_id, HoldCorrection(None, "case 18"), "key")
    assert (corrected.ground, corrected.reason) == (None, "case 18")
    changes = legal_holds.list_changes(tenant_id, [placed.hold_id])
    assert [(each.changed_by, each.ground, each.reason) for each in changes] == [
        ("other", None, "case 17"),
        ("key", "legal_claims", "case 17"),
    ]
    audited = service.rows("SELECT actor FROM audit WHERE action = 'hold_corrected' ORDER BY seq")
    assert audited == [("other",), ("key",)]


def test_a_correction_must_say_something_and_name_nobody(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    placed = legal_holds.place_hold(tenant_id, Scope(subject="ann chen"), "case 17", "key")
    for given, field in ((HoldCorrection(), "ground"), (HoldCorrection(reason="the case of Ann Chen"), "reason")):
        with pytest.raises(Invalid) as refused:
            legal_holds.correct_hold(tenant_id, placed.hold_id, given, "key")
        assert [error.field for error in refused.value.errors] == [field]
    with pytest.raises(NotFound):
        legal_holds.correct_hold(tenant_id, tenant_id, HoldCorrection(ground="archiving"), "key")
    assert legal_holds.list_changes(tenant_id, [placed.hold_id]) == []


def test_a_corrected_hold_is_corrected_in_its_backup(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    placed = legal_holds.place_hold(tenant_id, Scope(subject="ann"), "case 17", "key")
    legal_holds.correct_hold(tenant_id, placed.hold_id, HoldCorrection("legal_claims", "case 18"), "key")
    backup = "SELECT placed->>'ground', placed->>'reason' FROM ebbing_keys.kept_holds"
    assert service.rows(backup) == [("legal_claims", "case 18")]
