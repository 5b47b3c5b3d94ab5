"""The backlog limit in memories, and when a refused tenant may come back."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from app.clients.redis.connection import BACKLOG, HELD, TURNS
from app.clients.redis.stream import (
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    TenantBatch,
    append_again,
    backlog,
    stream_reader,
)
from app.errors import BacklogFull
from tests.service import Service

ONE = b'{"text":"x"}'


def take() -> TenantBatch:
    turn = stream_reader().claim(first=True)
    assert turn is not None
    return turn


@pytest.fixture
def tenant_id() -> UUID:
    return uuid4()


def test_a_tenant_with_too_many_memories_waiting_is_refused(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_memories=100)
    service.post(tenant_id, ONE, memories=90)
    with pytest.raises(BacklogFull, match="90 memories are pending for this tenant; the limit is 100"):
        service.post(tenant_id, ONE, memories=11)
    service.post(tenant_id, ONE, memories=10)
    service.post(tenant_id, ONE, memories=0)  # uses have no memories
    service.post(uuid4(), ONE, memories=11)
    turn = take()
    stream_reader().acknowledge(tenant_id, turn.fresh[:1], free=True)
    service.post(tenant_id, ONE, memories=90)


def test_a_request_over_the_limit_of_memories_is_accepted_alone(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_memories=100)
    service.post(tenant_id, ONE, memories=1000)
    with pytest.raises(BacklogFull, match="1000 memories are pending"):
        service.post(tenant_id, ONE, memories=1)
    stream_reader().acknowledge(tenant_id, take().fresh, free=True)
    service.post(tenant_id, ONE, memories=1000)


def test_the_memories_of_a_lost_counter_dont_shut_a_tenant_out(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_memories=100)
    service.redis.hset(BACKLOG, f"{tenant_id}:memories", 5000)
    service.post(tenant_id, ONE, memories=10)
    stream_reader().acknowledge(tenant_id, take().fresh, free=True)
    assert not service.redis.hexists(BACKLOG, f"{tenant_id}:memories")


def waits_seconds(service: Service, tenant_id: UUID, memories: int) -> int:
    """Return the `Retry-After` of a refused request with this many memories."""
    with pytest.raises(BacklogFull) as raised:
        service.post(tenant_id, b"x" * memories, memories=memories)
    assert raised.value.retry_after_seconds is not None
    return raised.value.retry_after_seconds


def test_a_refused_tenant_comes_back_when_the_drain_will_have_made_room(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_memories=1000, drain_entries=1)
    for _ in range(10):
        service.post(tenant_id, b"x" * 100, memories=100)
    assert waits_seconds(service, tenant_id, 100) == RETRY_SECONDS, "nothing was drained yet"
    turn = take()
    stream_reader().acknowledge(tenant_id, turn.fresh, free=True)
    service.post(tenant_id, b"x" * 100, memories=100)
    since = backlog().now_ms() - 5000  # as if that turn of 100 memories had taken five seconds
    service.redis.hset(TURNS, f"{tenant_id}:since", since)
    assert 5 <= waits_seconds(service, tenant_id, 100) <= 20
    assert waits_seconds(service, tenant_id, 300) >= 2 * waits_seconds(service, tenant_id, 100)
    service.redis.hset(TURNS, f"{tenant_id}:since", since - 10_000_000)
    assert waits_seconds(service, tenant_id, 1000) == RETRY_SECONDS_MAX


def test_the_drains_speed_is_forgotten_with_the_last_entry(service: Service, tenant_id: UUID) -> None:
    for _ in range(2):
        service.post(tenant_id, ONE)
    stream_reader().acknowledge(tenant_id, take().fresh[:1], free=True)
    assert service.redis.hexists(TURNS, f"{tenant_id}:since")
    stream_reader().acknowledge(tenant_id, take().fresh, free=True)
    assert service.redis.hgetall(TURNS) == {}


def test_old_turns_fade_from_the_drains_speed(service: Service, tenant_id: UUID) -> None:
    for _ in range(2):
        service.post(tenant_id, b"x" * 1000)
    turn = take()
    since = backlog().now_ms() - 60_000
    service.redis.hset(TURNS, mapping={f"{tenant_id}:since": since, f"{tenant_id}:settled": 1000})
    stream_reader().acknowledge(tenant_id, turn.fresh[:1], free=True)
    assert int(service.redis.hget(TURNS, f"{tenant_id}:settled") or 0) == 1000
    assert int(service.redis.hget(TURNS, f"{tenant_id}:since") or 0) >= since + 30_000


# --- Crashes and replays ---


def pending(service: Service, tenant_id: UUID) -> int:
    return service.backlog().get(f"{tenant_id}:memories", 0)


def test_what_two_workers_settle_is_subtracted_once(service: Service, tenant_id: UUID) -> None:
    for _ in range(4):
        service.post(tenant_id, ONE, memories=10)
    late = take().fresh
    service.redis.zadd(HELD, {str(tenant_id): 0})  # as if its worker had died
    suspects = take().suspects
    assert pending(service, tenant_id) == 40
    stream_reader().acknowledge(tenant_id, suspects[:1], free=False)
    assert pending(service, tenant_id) == 30
    stream_reader().acknowledge(tenant_id, late[:2], free=False)
    assert pending(service, tenant_id) == 20, "one of both was left"
    stream_reader().acknowledge(tenant_id, suspects, free=True)
    assert pending(service, tenant_id) == 0


def test_a_replayed_entry_counts_like_any_request(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_memories=100)
    service.post(tenant_id, ONE, memories=60)
    [dead] = take().fresh
    stream_reader().acknowledge(tenant_id, [dead], free=True)
    service.post(tenant_id, ONE, memories=60)
    with pytest.raises(BacklogFull, match="60 memories are pending"):
        append_again(tenant_id, dead, 1)
    stream_reader().acknowledge(tenant_id, take().fresh, free=True)
    append_again(tenant_id, dead, 1)
    assert pending(service, tenant_id) == 60


# --- Beside workers of the version before, whose scripts know neither field ---


def test_a_turn_of_the_version_before_leaves_the_speed_unknown(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_memories=2)
    for _ in range(2):
        service.post(tenant_id, ONE)
    turn = take()
    service.redis.hdel(TURNS, f"{tenant_id}:since", f"{tenant_id}:settled")
    stream_reader().acknowledge(tenant_id, turn.fresh[:1], free=True)
    service.post(tenant_id, ONE)
    assert waits_seconds(service, tenant_id, 1) == RETRY_SECONDS


def test_what_the_version_before_left_of_an_emptied_stream_is_replaced(service: Service, tenant_id: UUID) -> None:
    service.redis.hset(TURNS, mapping={f"{tenant_id}:since": 1, f"{tenant_id}:settled": 1})
    service.post(tenant_id, ONE)
    before = backlog().now_ms()
    turn = take()
    assert int(service.redis.hget(TURNS, f"{tenant_id}:since") or 0) >= before
    stream_reader().acknowledge(tenant_id, turn.fresh, free=True)
    assert service.redis.hgetall(TURNS) == {}
