"""Clocks that jump, and hosts with fast clocks: decay depends only on stored times and the database's clock."""

from __future__ import annotations

import time
from datetime import timedelta

import msgspec
import numpy as np
import pytest

from app.domain.ingest.ids import generate_base
from app.domain.ingest.uses import Use
from app.services.memories import explanation
from app.services.tiers import sweep
from tests.lifecycle.year import Lived, Year, policy
from tests.service import Service
from tests.services.aged import Aged, days
from tests.services.used_memories import Shop, shop
from tests.variants import variants

__all__ = ["shop"]

HOURS = 2 / 24
NOON = 100.5
TEN_MINUTES_MS = 600_000
PROFILES = ("spec", "mnemex", "cmm")


def tenant(service: Service, monkeypatch: pytest.MonkeyPatch, profile: str) -> tuple[Aged, Lived]:
    """Create memories of all ages whose nights have run until yesterday."""
    year = Year(300, profile, last=100)
    aged = Aged(service, monkeypatch, policy(year.numbers))
    lived = Lived(aged, year)
    lived.through(lambda day: int(day > 97), 100)
    return aged, lived


def tiers_after_night(aged: Aged, lived: Lived, day: float) -> list[int]:
    """Run a night at a time and return each memory's tier afterwards."""
    aged.now = days(day)
    lived.night()
    return [int(tier) for tier in lived.tiers()]


@pytest.mark.parametrize("profile", variants(PROFILES, {"spec"}))
def test_a_clock_that_jumps_forth_and_back_moves_only_what_those_hours_move(
    service: Service, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    aged, lived = tenant(service, monkeypatch, profile)
    before = tiers_after_night(aged, lived, NOON)
    due = sweep.preview_sweep(aged.tenant_id, days(NOON + HOURS), None, 1000).moves
    jumped = tiers_after_night(aged, lived, NOON + HOURS)
    moved = {lived.ids[place] for place in np.flatnonzero(np.array(before) != jumped)}
    assert moved == {move.memory_id for move in due}, "exactly the moves due within two hours"
    assert len(moved) < 10
    anchors = aged.anchors()
    for day in (NOON, NOON - HOURS, NOON + 1 / 24, NOON + HOURS):
        assert tiers_after_night(aged, lived, day) == jumped, "no move is undone or repeated"
    assert aged.anchors() == anchors, "no anchor was moved to the past"


@pytest.mark.parametrize("profile", variants(PROFILES, {"spec"}))
def test_what_was_used_while_the_clock_was_ahead_has_no_negative_age(
    service: Service, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    aged, lived = tenant(service, monkeypatch, profile)
    here = [
        memory_id
        for memory_id, memory in zip(lived.ids, lived.year.lived, strict=True)
        if memory.accepted < NOON - HOURS and memory.tier == "active"
    ]
    used, others = here[:8], here[8:16]
    aged.now = days(NOON + HOURS)
    aged.use(used)
    ahead = aged.strengths(*used)
    aged.now = days(NOON - HOURS)
    assert aged.strengths(*used).tolist() == ahead.tolist(), "unchanged until the clock reaches the time of the use"
    aged.use(others)
    aged.use(used)
    again = aged.strengths(*used)
    assert ((again >= ahead) & (again <= 1)).all()
    for memory_id in used:
        found = explanation.explain_tier(aged.tenant_id, memory_id)
        assert found.as_of == days(NOON + HOURS), "never earlier than the last change"
        assert found.case.age_days >= 0
    before = lived.tiers()
    assert (before != tiers_after_night(aged, lived, NOON - HOURS)).sum() < 10


@pytest.mark.long
def test_a_night_of_a_clock_that_is_hours_ahead_lets_nothing_go_that_days_would_not(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tenants end in the same state, although only one had a clock that jumped."""
    ends = []
    for jumps in ([0.0], [0.0, HOURS, -HOURS, HOURS, 0.0]):
        service.rows("TRUNCATE memories, memory_state, memory_events, holds, archived_memories, cold_memories CASCADE")
        aged, lived = tenant(service, monkeypatch, "spec")
        for day in (101, 102, 103):
            for jump in jumps:
                tiers_after_night(aged, lived, day + jump)
        ends.append(tiers_after_night(aged, lived, 104))
    assert ends[0] == ends[1]


# --- An API host whose clock is ten minutes fast or slow ---


@pytest.mark.parametrize("ahead_ms", [TEN_MINUTES_MS, -TEN_MINUTES_MS])
def test_a_memory_is_accepted_when_the_servers_say(service: Service, ahead_ms: int) -> None:
    tenant = service.tenant()
    base = generate_base(time.time_ns() // 1_000_000 + ahead_ms, bytes(8))
    begin = service.one("SELECT now()")
    service.post(tenant.tenant_id, msgspec.json.encode([{"text": "from a fast host"}]), base=base)
    service.work()
    [row] = service.rows(
        "SELECT memory.created_at, state.created_at, accessed_at, anchored_at FROM memory_state AS state "
        "JOIN memories AS memory USING (tenant_id, memory_id)"
    )
    assert all(begin - timedelta(seconds=1) <= moment <= service.one("SELECT now()") for moment in row)


def test_no_clock_but_the_database_s_decides(service: Service, monkeypatch: pytest.MonkeyPatch, shop: Shop) -> None:
    """The host's clock is two hours fast; a use dated in the future counts as of now."""
    [used, other] = shop.stored("used", "other", age_days=20)
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + 7200)
    told_at = shop.now()
    shop.used(Use(used, at=told_at + 600))
    assert told_at <= shop.row(used).accessed_at <= shop.now()
    found = explanation.explain_tier(shop.tenant_id, other)
    assert 0 <= found.case.age_days < 0.01, "age counts from acceptance by the database's clock, not the host's"
    assert sweep.sweep(shop.tenant_id)[0] == 2
