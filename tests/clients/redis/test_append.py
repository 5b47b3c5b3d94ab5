"""Best-effort appends use a short timeout or fail immediately."""

from __future__ import annotations

import os
from uuid import UUID, uuid4

import pytest
import redis

from app.clients.redis import stream
from app.clients.redis.stream import stream_reader
from app.domain.ingest.ids import generate_base
from app.errors import BacklogFull, Unavailable
from tests.service import Service


@pytest.fixture
def tenant_id() -> UUID:
    return uuid4()


def append(tenant_id: UUID) -> None:
    stream.append(tenant_id, generate_base(1_760_000_000_000, os.urandom(8)), "touches", b"{}")


def test_what_is_appended_is_counted_as_an_entry_without_memories(service: Service, tenant_id: UUID) -> None:
    append(tenant_id)
    append(tenant_id)
    assert not service.redis.exists("ebbing:{s0}:nudge:ingest.drain"), "an append sends no nudge"
    held = service.backlog()
    assert (held["entries"], held["bytes"], held["memories"]) == (2, 4, 0)
    turn = stream_reader().claim(first=True)
    assert turn is not None
    assert [(entry.memories, entry.header[:2], entry.body) for entry in turn.fresh] == [(0, b"1t", b"{}")] * 2
    assert stream_reader().acknowledge(tenant_id, turn.fresh, free=True) == 0
    assert service.is_idle()


def test_the_doors_limits_hold(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_entries=1)
    append(tenant_id)
    with pytest.raises(BacklogFull):
        append(tenant_id)
    append(uuid4())


def test_it_waits_while_redis_is_full(service: Service, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [1000.0]
    monkeypatch.setattr("app.clients.redis.memory_guard.time.monotonic", lambda: moment[0])
    with monkeypatch.context() as patched:
        patched.setattr("redis.Redis.info", lambda *_: {"maxmemory": 100, "used_memory": 81})
        with pytest.raises(Unavailable, match="memory is full"):
            append(tenant_id)
    with pytest.raises(Unavailable):
        append(tenant_id)
    assert service.is_idle()
    moment[0] += stream.APPEND_PAUSE_SECONDS
    append(tenant_id)
    assert service.backlog()["entries"] == 1


def test_after_a_failure_nothing_is_tried_for_a_while(
    service: Service, tenant_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each search would wait while Redis doesn't answer."""
    asked: list[float] = []
    moment = [1000.0]

    def away(*_: object, **__: object) -> None:
        asked.append(moment[0])
        raise redis.ConnectionError

    monkeypatch.setattr("app.clients.redis.memory_guard.time.monotonic", lambda: moment[0])
    with monkeypatch.context() as patched:
        patched.setattr("redis.Redis.execute_command", away)
        for _ in range(12):
            with pytest.raises(Unavailable):
                append(tenant_id)
            moment[0] += 1
    assert asked == [1000.0, 1005.0, 1010.0]
    moment[0] += stream.APPEND_PAUSE_SECONDS
    append(tenant_id)
    assert service.backlog()["entries"] == 1
