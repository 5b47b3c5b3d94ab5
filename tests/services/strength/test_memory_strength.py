"""Changed inputs of strength: the past stays, and strength follows the new input from then on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest
from psycopg.errors import CheckViolation

from app.domain.ingest.memory import MemoryPatch
from app.domain.policy.policy import Forgetting, Policy
from app.services.memories import memories
from app.services.strength import memory_strength
from app.services.tiers import sweep
from app.store.core import database
from app.store.core.binary_arrays import driver_connection
from tests.service import Service
from tests.services.aged import START, Aged, aged, days

__all__ = ["aged"]

FOUR = [Policy(forgetting=Forgetting(profile=name)) for name in ("spec", "cmm", "memory_decay", "mnemex")]
each = pytest.mark.parametrize("policy", FOUR, ids=lambda policy: policy.forgetting.profile)
INPUTS: list[dict[str, Any]] = [{"salience": 0.9}, {"kind": 1}, {"pace": 2.0}]
DATED = (-70, -30, -10.5, -1, 0)


def filled(
    service: Service, monkeypatch: pytest.MonkeyPatch, policy: Policy, **columns: Any
) -> tuple[Aged, list[UUID]]:
    """Store memories of several ages, half of them used."""
    aged = Aged(service, monkeypatch, policy)
    ids = aged.remember(*DATED, *DATED, access_count=[0] * 5 + [3] * 5, **columns)
    return aged, ids


@each
@pytest.mark.parametrize("change", INPUTS, ids=lambda change: next(iter(change)))
def test_a_change_leaves_the_strength_of_its_moment(
    service: Service, monkeypatch: pytest.MonkeyPatch, policy: Policy, change: dict[str, Any]
) -> None:
    aged, ids = filled(service, monkeypatch, policy)
    before = aged.strengths()
    aged.change(ids, **change)
    np.testing.assert_allclose(aged.strengths(), before, rtol=1e-9, atol=1e-12)
    waiting = service.one("SELECT count(*) FROM memory_state WHERE next_due_at = '-infinity'")
    assert waiting == 10, "the next sweep computes their due dates"


def test_from_then_on_it_fades_by_the_new_input(aged: Aged) -> None:
    changed, other = aged.remember(-10, -10, salience=0.2)
    aged.change([changed], salience=0.9)
    soon, same = aged.strengths(changed, other, at=days(10))
    assert soon > same + 0.05


def test_the_past_is_not_rewritten(aged: Aged) -> None:
    """Ten days by the old salience and ten by the new one, not twenty by either."""
    late, low, high = aged.remember(-10, -10, -10, salience=[0.1, 0.1, 1.0])
    at_change = aged.strengths(late)
    aged.change([late], salience=1.0)
    then = aged.strengths(late, low, high, at=days(10))
    assert then[1] < then[0] < then[2]
    before, after = aged.strengths(high, at=START)[0], then[2]
    assert then[0] == pytest.approx(at_change[0] * after / before, rel=1e-9)


def test_a_change_and_back_is_as_if_nothing_had_been(aged: Aged) -> None:
    """Both changes happen at one moment."""
    changed, other = aged.remember(-20, -20, salience=0.4)
    aged.change([changed], salience=0.9)
    aged.change([changed], salience=float(np.float32(0.4)))
    one, same = aged.strengths(changed, other, at=days(12))
    assert one == pytest.approx(same, rel=1e-9)


def test_two_changes_count_each_from_its_day(aged: Aged) -> None:
    [memory] = aged.remember(-10, salience=0.1)
    found = []
    for day, salience in ((0, 0.9), (5, 0.1), (9, 0.5)):
        aged.now = days(day)
        found.append(aged.strengths(memory)[0])
        aged.change([memory], salience=salience)
        assert aged.strengths(memory)[0] == pytest.approx(found[-1], rel=1e-9)
    slow, fast = np.log(found[1] / found[0]) / 5, np.log(found[2] / found[1]) / 4
    assert fast < slow * 2 < 0, "with the low salience it fell much faster"


@each
def test_under_an_older_policy_the_time_until_the_new_one_counts_by_the_old(
    service: Service, monkeypatch: pytest.MonkeyPatch, policy: Policy
) -> None:
    aged, ids = filled(service, monkeypatch, policy)
    following = Policy(forgetting=Forgetting(parameters={"base_per_day": 0.5}))
    before = aged.strengths(at=days(3))
    version = aged.decide(following, 3)
    aged.now = days(3)
    np.testing.assert_allclose(aged.strengths(), np.maximum(before, 1e-80), rtol=1e-8, atol=1e-12)
    aged.now = days(5)
    between = aged.strengths()
    aged.change(ids, kind=2)
    np.testing.assert_allclose(aged.strengths(), between, rtol=1e-9, atol=1e-12)
    assert {anchor[-1] for anchor in aged.anchors()} == {version}


def test_a_new_multiplier_changes_the_score_at_once_since_that_is_what_it_is_for(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged = Aged(service, monkeypatch, FOUR[3])
    [memory] = aged.remember(-5)
    before = aged.strengths(memory)[0]
    aged.change([memory], multiplier=0.5)
    assert aged.strengths(memory)[0] == pytest.approx(before / 2, rel=1e-9)
    [(_, at, old, new, strength)] = aged.events("multiplier")
    assert (at, old, new, strength) == (START, 1, 0.5, pytest.approx(before / 2, rel=1e-6))


def test_a_change_is_told_in_the_history_and_a_first_score_is_none(aged: Aged) -> None:
    scored, unscored = aged.remember(-10, -10, salience=[0.25, None])
    aged.change([scored, unscored], salience=0.75, kind=3)
    [(memory, at, before, after, strength)] = aged.events("salience")
    assert (memory, at, before, after) == (scored, START, 0.25, 0.75)
    assert strength == pytest.approx(aged.strengths(scored)[0], rel=1e-6)
    assert [row[:4] for row in aged.events("kind")] == [(scored, START, 0, 3)]
    assert aged.strengths(unscored, at=days(10))[0] > 0.2, "the new score counts from then on"


def test_what_stays_as_it_was_is_not_touched(aged: Aged) -> None:
    ids = aged.remember(-10, -20)
    assert sweep.sweep(aged.tenant_id)[0] == 2
    before, due = aged.anchors(), aged.due()
    aged.change(ids, salience=0.5)
    aged.change(ids[:1], access_count=0)
    assert (aged.anchors(), aged.due()) == (before, due)


def test_a_memory_may_be_deleted_inside(aged: Aged) -> None:
    kept, gone = aged.remember(-10, -10)
    before = aged.strengths(kept)
    with database.tenant(aged.tenant_id) as tx, memory_strength.preserve_strength(tx, aged.tenant_id, [kept, gone]):
        driver_connection(tx).execute("UPDATE memory_state SET salience = 0.75")
        driver_connection(tx).execute("UPDATE memory_state SET tier = 'deleted' WHERE memory_id = %s", [gone])
    np.testing.assert_allclose(aged.strengths(kept), before, rtol=1e-9)
    assert [row[0] for row in aged.events("salience")] == [kept]
    assert aged.tiers() == ["active"], "the deleted memory isn't included"


# --- Through the services ---


def test_an_edit_of_kind_or_salience_leaves_strength_as_it_is_and_is_told(aged: Aged) -> None:
    [memory] = aged.remember(-15, salience=0.25)
    aged.service.rows("UPDATE memory_state SET salience_source = 'caller'")
    before = aged.strengths(memory)
    memories.edit_memory(aged.tenant_id, memory, MemoryPatch(kind="semantic", salience=0.75))
    np.testing.assert_allclose(aged.strengths(memory), before, rtol=1e-9)
    assert [row[2:4] for row in aged.events("kind")] == [(0, 1)]
    assert [row[2:4] for row in aged.events("salience")] == [(0.25, 0.75)]
    memories.edit_memory(aged.tenant_id, memory, MemoryPatch(kind=None))
    assert [row[2:4] for row in aged.events("kind")] == [(0, 1), (1, 0)]
    np.testing.assert_allclose(aged.strengths(memory), before, rtol=1e-9)


def test_an_edit_of_the_multiplier_counts_at_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    aged = Aged(service, monkeypatch, FOUR[3])
    [memory] = aged.remember(-2)
    before = aged.strengths(memory)[0]
    memories.edit_memory(aged.tenant_id, memory, MemoryPatch(multiplier=0.5))
    assert aged.strengths(memory)[0] == pytest.approx(before / 2, rel=1e-9)


def test_a_keyed_memory_that_is_sent_again_keeps_its_strength(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged = Aged(service, monkeypatch)
    sent = {"text": "x", "external_id": "k", "salience": 0.25}
    [memory] = service.send(aged.tenant_id, {**sent, "kind": "episodic"})
    service.work()
    shift = "created_at = %s, accessed_at = %s, anchored_at = %s"
    service.rows(f"UPDATE memory_state SET {shift}", *[days(-20)] * 3)  # noqa: S608 - a constant
    before = aged.strengths(memory)
    service.send(aged.tenant_id, {**sent, "kind": "procedural", "salience": 0.75})
    service.work()
    np.testing.assert_allclose(aged.strengths(memory), before, rtol=1e-9)
    assert [row[2:4] for row in aged.events("kind")] == [(0, 2)]
    assert [row[2:4] for row in aged.events("salience")] == [(0.25, 0.75)]
    [(anchored_at, *_)] = aged.anchors()
    assert anchored_at == START


def test_the_table_refuses_what_no_strength_could_be_worked_out_from(aged: Aged) -> None:
    [memory] = aged.remember(-1)
    wrong = ["level = 'NaN'", "level = 'infinity'", "level = 2e9", "retrieval = 'NaN'", "stability = 1.1"]
    wrong += ["pace = 0", "pace = 'NaN'", "multiplier = 'NaN'", "salience = 'NaN'", "kind = 5"]
    wrong += [f"{name} = 'infinity'" for name in ("created_at", "accessed_at", "anchored_at")]
    for assignment in wrong:
        with pytest.raises(CheckViolation):
            aged.service.rows(f"UPDATE memory_state SET {assignment}")  # noqa: S608 - constants
    assert aged.strengths(memory)[0] > 0.5
