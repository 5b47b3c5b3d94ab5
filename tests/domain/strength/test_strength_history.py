"""A memory's strength curve equals its strength at each past and future moment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, Event, State, new
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.policy.policy import Policy
from app.domain.strength.strength_history import (
    TICKS_MAX,
    HistoryEntry,
    KnownHistory,
    StrengthHistory,
    compute_history,
)
from tests.domain.dynamics.batches import START
from tests.examples import draw

PROFILES = ("spec", "mnemex", "cmm", "memory_decay")
HAPPENINGS = ("use", "associate", "test", "salience", "kind", "pace", "restored", "thawed", "policy")
STEPS = st.lists(
    st.tuples(
        st.floats(0.01, 40),
        st.sampled_from(HAPPENINGS),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.sampled_from(PROFILES),
    ),
    max_size=8,
)


def policy(profile: str) -> Policy:
    return Policy.model_validate({"forgetting": {"profile": profile}})


class Life:
    """A memory whose events are recorded in its history as the services do."""

    def __init__(self, profile: str, salience: float = 0.5) -> None:
        self.eras = [Era(1, START - DAY_SECONDS, policy(profile))]
        self.now = START
        self.state: State = new(np.array([START]), salience=salience)
        self.version = 1
        self.entries = [HistoryEntry(START, 0, "accepted", None, None, None)]
        self.was: list[tuple[float, float]] = []

    @property
    def dynamics(self) -> Dynamics:
        return self.times.at(self.now).dynamics

    @property
    def times(self) -> Timeline:
        return Timeline(self.eras)

    @property
    def strength(self) -> float:
        state = self.times.advance_to(self.state, np.array([self.version]), self.now)
        return float(self.dynamics.strength(state, self.now)[0])

    def wait(self, days: float) -> None:
        """Let days pass, and record the strength three times on the way."""
        for _ in range(3):
            self.now = round(self.now + days * DAY_SECONDS / 3, 3)
            self.was.append((self.now, self.strength))

    def meet(self, happening: str, share: float, profile: str) -> None:
        if happening == "policy":
            self.eras.append(Era(len(self.eras) + 1, self.now, policy(profile)))
            return
        dynamics, now = self.dynamics, self.now
        state = self.times.advance_to(self.state, np.array([self.version]), now)
        self.state, self.version = state, len(self.eras)
        before = float(dynamics.strength(state, now)[0])
        match happening:
            case "use":
                self.state = dynamics.reinforce(state, Event(at=now, now=now))
                self._enter("use", before)
            case "late_use" if state.access_count[0]:
                self.state = dynamics.reinforce(state, Event(at=float(state.accessed_at[0]) - 1, now=now))
                self._enter("late_use", before, at=float(state.accessed_at[0]) - 1)
            case "associate" | "test":
                self.state = dynamics.reinforce(state, Event(at=now, now=now, source=happening))
                self._enter(happening, before)
            case "salience" | "kind" | "pace":
                value = {"salience": share, "kind": float(round(4 * share)), "pace": 0.5 + share}[happening]
                former = float(getattr(state, happening)[0])
                if value != former:
                    inputs = replace(state, **{happening: np.array([value])})
                    self.state = rebased(dynamics, state, now, inputs)
                    self._enter(happening, former, after=value)
            case "restored" | "thawed":
                source = 1 if happening == "restored" else 2
                self._enter("tier", 0.0, after=float(source))
                used = dynamics.reinforce(state, Event(at=now, now=now))
                raised = dynamics.at_strength(used, now, np.maximum(dynamics.strength(used, now), 0.45))
                self.state = raised if dynamics.strength(used, now)[0] < 0.45 else used
                self._enter("restored", float(source), after=0.0)
            case _:
                pass

    def _enter(self, kind: str, before: float, *, at: float | None = None, after: float | None = None) -> None:
        strength = float(self.dynamics.strength(self.state, self.now)[0])
        reported = strength if after is None else after
        self.entries.append(HistoryEntry(at or self.now, 2**32 + len(self.entries), kind, before, reported, strength))

    def drawn(self, days: float = 90) -> StrengthHistory:
        known = KnownHistory(self.state, self.version, START, self.entries)
        return compute_history(known, self.times, self.now, self.now + days * DAY_SECONDS)


def rebased(dynamics: Dynamics, state: State, now: float, inputs: State) -> State:
    return rebase(state, now, dynamics, dynamics, inputs)


def at(found: StrengthHistory, moment: float) -> tuple[float, float]:
    """Return the curve's strength right before and after a moment; between two points, theirs."""
    points = [*found.past, *found.ahead]
    moments = np.array([point.at for point in points])
    first, last = np.searchsorted(moments, moment - 1e-3), np.searchsorted(moments, moment + 1e-3)
    if first == last:  # strength only falls from one point to the next
        return points[first - 1].strength, points[first].strength
    return points[first].strength, points[last - 1].strength


@pytest.mark.parametrize("profile", PROFILES)
@draw(20)
@given(steps=STEPS, last=st.floats(0.01, 60))
def test_the_past_is_what_it_was_and_now_is_what_it_is(
    profile: str, steps: list[tuple[float, str, float, str]], last: float
) -> None:
    life = Life(profile)
    for days, happening, share, other in steps:
        life.wait(days)
        life.meet(happening, share, other)
    life.wait(last)
    found = life.drawn()
    assert found.is_whole
    assert found.past[0].at == START
    assert found.past[-1].at == life.now
    assert found.past[-1].strength == pytest.approx(life.strength, abs=1e-9)
    assert [point.at for point in found.past] == sorted(point.at for point in found.past)
    for moment, strength in life.was:
        before, after = at(found, moment)
        is_drawn = any(abs(point.at - moment) < 1e-3 for point in found.past)
        assert strength <= before + 1e-5
        assert strength == pytest.approx(before, abs=1e-5) if is_drawn else strength >= after - 1e-5
    for entry, strength in found.marks:
        if entry.kind in ("use", "test", "restored"):
            assert strength == entry.strength
            assert at(found, entry.at)[1] == pytest.approx(strength, abs=1e-5)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_use_that_is_told_late_counts_and_now_is_still_right(profile: str) -> None:
    life = Life(profile)
    for happening in ("use", "late_use", "use"):
        life.wait(10)
        life.meet(happening, 0, profile)
    life.wait(20)
    found = life.drawn()
    assert found.is_whole
    assert [entry.kind for entry, _ in found.marks] == ["accepted", "late_use", "use", "use"]
    assert found.past[-1].strength == pytest.approx(life.strength, abs=1e-9)
    assert [strength for entry, strength in found.marks if entry.kind == "use"] == [
        entry.strength for entry in life.entries if entry.kind == "use"
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_future_goes_on_by_the_policies_that_are_to_come(profile: str) -> None:
    life = Life(profile)
    life.wait(12)
    other = "spec" if profile != "spec" else "mnemex"
    life.eras.append(Era(2, life.now + 10 * DAY_SECONDS, policy(other)))
    found = life.drawn()
    assert found.ahead[0] == found.past[-1]
    assert found.ahead[-1].at == life.now + 90 * DAY_SECONDS
    for point in found.ahead[1::15]:
        state = life.times.advance_to(life.state, np.array([life.version]), point.at)
        expected = life.times.at(point.at).dynamics.strength(state, point.at)[0]
        assert point.strength == pytest.approx(expected, abs=1e-6)


def test_a_model_in_short_ticks_is_drawn_only_as_far_as_that_is_quick() -> None:
    life = Life("memory_decay")
    body = {"forgetting": {"profile": "memory_decay", "parameters": {"tick_seconds": 600}}}
    life.eras = [Era(1, START - DAY_SECONDS, Policy.model_validate(body))]
    life.wait(300)
    life.meet("use", 0, "")
    life.wait(30)
    found = life.drawn(3_000)
    reach = TICKS_MAX * 600
    assert not found.is_whole
    assert found.past[0].at >= life.now - reach
    assert found.ahead[-1].at == life.now + reach
    assert found.past[-1].strength == pytest.approx(life.strength, abs=1e-9)
