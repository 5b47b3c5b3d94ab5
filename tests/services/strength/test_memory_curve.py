"""A memory's strength curve agrees with the service about the past, the present and the future."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest

from app.domain.dynamics.state import DAY_SECONDS
from app.domain.ingest.uses import Touches, Use
from app.domain.policy.policy import Policy
from app.domain.strength.strength_history import StrengthHistory
from app.services.memories import live_numbers, manual_restore
from app.services.storage import lookup
from app.services.strength import memory_curve
from app.services.tiers import sweep
from app.services.uses import reinforcement, reviews
from app.store.core import database
from app.store.memories import history
from app.store.memories.memories import StoredMemory
from tests.service import Service
from tests.services.aged import START, Aged, days

PROFILES = ("spec", "mnemex", "cmm", "memory_decay")


class Life:
    """A memory whose strength is recorded over time, and its clock."""

    def __init__(self, aged: Aged, memory_id: UUID) -> None:
        self._aged = aged
        self.memory_id = memory_id
        self.tenant_id = aged.tenant_id
        self.was: list[tuple[float, float]] = []

    def until(self, day: float) -> None:
        """Advance the clock to this day; record the strength on the way and at the end."""
        passed = (self._aged.now - START).total_seconds() / DAY_SECONDS
        for share in (0.3, 0.8, 1.0):
            self._aged.now = days(passed + share * (day - passed))
            self.was.append((self._aged.now.timestamp(), float(self._aged.strengths(self.memory_id)[0])))

    def use(self, *, boost: bool = False) -> None:
        reinforcement.touch_memory(
            self._aged.tenant_id, self.memory_id, Touches([Use(self.memory_id)], session=len(self.was), boost=boost)
        )

    def drawn(self) -> StrengthHistory:
        return memory_curve.draw_curve(self._aged.tenant_id, self.stored).course

    @property
    def stored(self) -> StoredMemory:
        found = lookup.get(self._aged.tenant_id, self.memory_id)
        assert isinstance(found, StoredMemory)
        return found


@pytest.fixture(params=PROFILES)
def lived(request: pytest.FixtureRequest, service: Service, monkeypatch: pytest.MonkeyPatch) -> Life:
    """A memory that was used, reviewed, edited, swept and restored under one model of forgetting and then another."""
    profile = request.param
    aged = Aged(service, monkeypatch, policy(profile))
    [memory_id] = aged.remember(0, salience=0.4)
    life = Life(aged, memory_id)
    tenant_id = aged.tenant_id
    life.until(3)
    life.use()
    life.until(9)
    life.use(boost=True)
    life.until(20)
    aged.change([memory_id], salience=0.7)
    life.until(26)
    sweep.sweep(tenant_id)
    life.until(31)
    reviews.record_review(tenant_id, memory_id, "passed")
    life.until(70)
    service.rows("UPDATE memory_state SET tier = 'archived', wanted_tier = 'archived'")
    with database.tenant(tenant_id) as tx:
        now = aged.now.timestamp()
        history.add(tx, tenant_id, "tier", [memory_id], history.EventChange(now, 0, 1, aged.strengths(memory_id)))
    life.until(80)
    manual_restore.restore(tenant_id, memory_id, "tester")
    life.until(90)
    aged.decide(policy("spec" if profile != "spec" else "mnemex"), 92)
    life.until(95)
    life.use()
    life.until(110)
    return life


def policy(profile: str) -> Policy:
    return Policy.model_validate({"forgetting": {"profile": profile}})


def around(found: StrengthHistory, moment: float) -> tuple[float, float, bool]:
    """Return the curve's strength right before and after a moment, and whether it has a point there.

    Without a point, the strengths are those of the adjacent points.
    """
    points = [*found.past, *found.ahead]
    moments = np.array([point.at for point in points])
    first, last = np.searchsorted(moments, moment - 1e-3), np.searchsorted(moments, moment + 1e-3)
    if first == last:
        return points[first - 1].strength, points[first].strength, False
    return points[first].strength, points[last - 1].strength, True


def test_the_past_is_what_the_service_said_then(lived: Life) -> None:
    found = lived.drawn()
    assert found.is_whole
    for moment, strength in lived.was:
        before, after, is_drawn = around(found, moment)
        assert strength <= before + 1e-5
        assert strength == pytest.approx(before, abs=1e-5) if is_drawn else strength >= after - 1e-5


def test_each_event_leaves_the_strength_that_its_history_tells(lived: Life) -> None:
    found = lived.drawn()
    reported = [(entry, strength) for entry, strength in found.marks if entry.kind in ("use", "restored", "salience")]
    assert len(reported) == 5
    for entry, strength in reported:
        before, after, is_drawn = around(found, entry.at)
        assert is_drawn
        assert strength == entry.strength == pytest.approx(after, abs=1e-5)
        assert entry.kind != "use" or entry.before == pytest.approx(before, abs=1e-5)


def test_now_is_what_the_service_says_and_the_future_what_it_will(lived: Life) -> None:
    found = lived.drawn()
    tenant_id, stored = lived.tenant_id, lived.stored
    numbers = live_numbers.live_numbers(tenant_id, [stored])[stored.memory_id].numbers
    assert found.past[-1] == found.ahead[0]
    assert found.past[-1].strength == pytest.approx(numbers.strength, abs=1e-12)
    for point in found.ahead[::20]:
        later = live_numbers.live_numbers(tenant_id, [stored], datetime.fromtimestamp(point.at, UTC))
        assert later[stored.memory_id].numbers.strength == pytest.approx(point.strength, abs=1e-6)


def test_what_is_no_longer_in_its_history_isn_t_made_up(lived: Life, service: Service) -> None:
    service.rows("DELETE FROM memory_events WHERE at < %s", days(25))
    found = lived.drawn()
    assert not found.is_whole
    assert found.past[0].at > days(25).timestamp()
    assert found.past[-1].strength == pytest.approx(lived.was[-1][1], abs=1e-9)
