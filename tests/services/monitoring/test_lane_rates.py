"""Fill and drain rates of lanes: one sample per minute, retained for a day, across restarts."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from sqlalchemy import Connection

from app import metrics
from app.clients.redis import stream
from app.clients.redis.connection import LANE_SAMPLES
from app.queues import LANES
from app.services.ingest import drain
from app.services.monitoring import lane_rates, stats
from app.services.monitoring.stats import Lane
from app.store.enrichment import work_queue
from app.store.enrichment.work_queue import StageBacklog
from tests.service import Service

START = 1_800_000_000_000
Tick = Callable[..., bool]


@pytest.fixture
def tick(service: Service, monkeypatch: pytest.MonkeyPatch) -> Tick:
    """A function that passes a minute: `left` entries leave the ingest lane, and `depth` are pending afterwards."""
    at = {"ms": START, "depth": 0}
    monkeypatch.setattr("app.clients.redis.stream.Backlog.now_ms", lambda _: at["ms"])
    monkeypatch.setattr("app.services.monitoring.stats.lane_backlogs", lambda: lanes(at["depth"]))

    def pass_by(left: int = 0, depth: int = 0, seconds: float = 60, *, kept: bool = True) -> bool:
        at["ms"] += int(seconds * 1000)
        at["depth"] = depth
        metrics.count("indexed_memories", left)
        return lane_rates.take_sample() if kept else False

    return pass_by


def lanes(depth: int) -> dict[str, Lane]:
    return {lane: Lane(depth if lane == "ingest" else 0, 0.0) for lane in LANES}


def test_before_the_first_sample_nothing_is_known(service: Service) -> None:
    found = lane_rates.lane_rates()
    assert found.keys() == LANES.keys()
    assert all((each.in_per_second, each.out_per_second, each.history) == (0, 0, []) for each in found.values())
    assert {each.drain_seconds for each in found.values()} == {0}


def test_what_waits_and_no_pace_has_no_end(service: Service) -> None:
    service.send(service.tenant().tenant_id, "a")
    assert lane_rates.lane_rates()["ingest"].drain_seconds is None


def test_what_came_is_what_left_and_what_more_waits(tick: Tick) -> None:
    tick()
    tick(left=600, depth=300)
    tick(left=300, depth=0)
    found = lane_rates.lane_rates()["ingest"]
    assert [(each.in_per_second, each.out_per_second, each.depth) for each in found.history] == [
        (15, 10, 300),
        (0, 5, 0),
    ]
    assert (found.in_per_second, found.out_per_second) == (7.5, 7.5)
    assert found.drain_seconds == 0
    assert found.history[-1].ended_at == START / 1000 + 180


def test_the_time_to_drain_follows_the_pace_at_which_it_falls(tick: Tick) -> None:
    tick(depth=1200)
    tick(left=600, depth=600)
    assert lane_rates.lane_rates()["ingest"].drain_seconds == 60
    tick(left=0, depth=6000)
    assert lane_rates.lane_rates()["ingest"].drain_seconds is None


def test_rates_of_now_need_no_sample_of_now(tick: Tick) -> None:
    """A stopped maintenance lane therefore hides nothing."""
    tick()
    tick(left=120, seconds=30, kept=False)
    found = lane_rates.lane_rates()["ingest"]
    assert (found.out_per_second, found.history) == (4, [])


def test_rates_are_of_the_last_minutes(tick: Tick) -> None:
    tick(left=60_000)
    for _ in range(lane_rates.WINDOW_MINUTES + 1):
        tick(left=60)
    assert lane_rates.lane_rates()["ingest"].out_per_second == 1
    assert [len(lane_rates.lane_rates(minutes=n)["ingest"].history) for n in (1, 2, 5)] == [1, 2, 5]


def test_a_minute_is_sampled_once_however_many_ticks_there_are(tick: Tick, service: Service) -> None:
    assert tick()
    assert not tick(seconds=1)
    assert tick()
    assert service.redis.zcard(LANE_SAMPLES) == 2


def test_a_day_is_kept_and_no_more(tick: Tick, service: Service) -> None:
    for _ in range(4):
        tick(left=60, seconds=12 * 3600)
    assert service.redis.zcard(LANE_SAMPLES) == 3
    assert [each.out_per_second for each in lane_rates.lane_rates()["ingest"].history] == [60 / 43_200] * 2


def test_a_restart_changes_nothing(tick: Tick) -> None:
    tick()
    tick(left=60)
    before = lane_rates.lane_rates()
    stream.close()
    assert lane_rates.lane_rates() == before


def test_an_emptied_redis_gives_no_negative_rate(tick: Tick, service: Service) -> None:
    tick(left=600, depth=100)
    service.redis.delete("ebbing:{s0}:counters")
    tick(depth=0)
    [last] = lane_rates.lane_rates()["ingest"].history
    assert (last.in_per_second, last.out_per_second) == (0, 0)


def test_real_work_is_seen(service: Service) -> None:
    service.send(service.tenant().tenant_id, "a", "b")
    assert lane_rates.take_sample()
    service.work()
    found = lane_rates.lane_rates()
    assert found["ingest"].out_per_second > 0
    assert found["ingest"].in_per_second == 0
    assert found["embed"].in_per_second == found["embed"].out_per_second > 0


def test_what_is_stored_while_it_is_counted_is_counted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant_id = service.tenant().tenant_id
    waiting = work_queue.read_backlog

    def and_then_store(tx: Connection, tenant_id: UUID | None = None) -> dict[str, StageBacklog]:
        found = waiting(tx, tenant_id)
        drain.drain_streams()
        return found

    monkeypatch.setattr("app.store.enrichment.work_queue.read_backlog", and_then_store)
    depths: tuple[Callable[[], int], ...] = (
        lambda: sum(stats.tenant_stats(tenant_id).pending.values()),
        lambda: stats.lane_backlogs(tenant_id)["ingest"].depth,
        lambda: stats.lane_backlogs()["ingest"].depth,
    )
    for depth in depths:
        service.send(tenant_id, "on its way")
        before = len(service.texts(tenant_id))
        assert depth() > 0
        assert len(service.texts(tenant_id)) == before + 1
        service.work()
