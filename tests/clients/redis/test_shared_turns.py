"""Turns of the drain: large for one tenant, short while several have entries."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.clients.redis.connection import LATEST_TURN, SHARED_TURNS, TURNS
from app.clients.redis.stream import stream_reader
from tests.examples import draw
from tests.service import Service

ONE = b'{"text":"x"}'


@pytest.fixture
def tenant_id() -> UUID:
    return uuid4()


def turn_memories(shared: int) -> tuple[UUID, int]:
    """Take and settle a turn; return its tenant and its number of memories."""
    turn = stream_reader().claim(first=False, shared_memories=shared)
    assert turn is not None
    stream_reader().acknowledge(turn.tenant_id, turn.fresh, free=True)
    return turn.tenant_id, sum(entry.memories for entry in turn.fresh)


def test_turns_are_large_for_one_tenant_and_short_beside_others(service: Service, tenant_id: UUID) -> None:
    other = uuid4()
    for _ in range(100):
        service.post(tenant_id, ONE, memories=10)
    service.configure(drain_rows=200)
    assert turn_memories(shared=50)[1] >= 200, "one tenant has large turns"
    service.post(other, ONE)
    assert turn_memories(shared=50) == (tenant_id, 50)
    assert turn_memories(shared=50) == (other, 1)
    assert turn_memories(shared=50) == (tenant_id, 50), "the other one may send again at any moment"
    service.redis.delete(SHARED_TURNS, LATEST_TURN)  # as after a while
    assert turn_memories(shared=50)[1] >= 200


def test_a_turn_beside_a_leased_tenant_is_short(service: Service, tenant_id: UUID) -> None:
    for tenant in (tenant_id, uuid4()):
        for _ in range(20):
            service.post(tenant, ONE, memories=10)
    turn = stream_reader().claim(first=True)
    assert turn is not None
    assert turn.tenant_id == tenant_id
    service.redis.delete(SHARED_TURNS, LATEST_TURN)
    assert turn_memories(shared=50)[1] == 50


def test_the_flags_of_shared_turns_expire(service: Service, tenant_id: UUID) -> None:
    for tenant in (tenant_id, uuid4()):
        service.post(tenant, ONE)
    stream_reader().claim(first=True)
    assert service.redis.pttl(SHARED_TURNS) > 0
    assert service.redis.pttl(LATEST_TURN) > 0


@given(
    backlogs=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=2, max_size=5),
    shared=st.integers(1, 40),
)
@draw(20, [HealthCheck.function_scoped_fixture])
def test_each_tenant_has_its_turn_among_as_many_turns_as_tenants(
    service: Service, backlogs: list[list[int]], shared: int
) -> None:
    service.redis.flushdb()
    left = {uuid4(): sum(requests) for requests in backlogs}
    for tenant, requests in zip(left, backlogs, strict=True):
        for memories in requests:
            service.post(tenant, ONE, memories=memories)
    missed = dict.fromkeys(left, 0)
    while any(left.values()):
        waiting = [tenant for tenant, memories in left.items() if memories]
        tenant, memories = turn_memories(shared)
        assert 0 < memories < shared + 8 * 30
        left[tenant] -= memories
        for other in waiting:
            missed[other] = 0 if other == tenant else missed[other] + 1
            assert missed[other] < len(backlogs)
    assert service.backlog() == {"entries": 0, "bytes": 0, "memories": 0}
    assert service.redis.hgetall(TURNS) == {}
