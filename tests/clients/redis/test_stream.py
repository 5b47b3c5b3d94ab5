"""The ingest stream: admission, fair turns, and the state left after a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from uuid import UUID, uuid4

import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from app.clients.redis.accept_arguments import Idempotency
from app.clients.redis.connection import (
    ATTEMPTS,
    BACKLOG,
    HELD,
    RING,
    RING_MEMBERS,
    TURNS,
    check_settings,
    stream_key,
)
from app.clients.redis.stream import AppendResult, StreamWriter, TenantBatch, backlog, stream_reader
from app.domain.ingest.ids import generate_base
from app.errors import BacklogFull, Misconfigured, Unavailable
from tests.examples import draw
from tests.service import Service, at_door
from tests.waiting import until

ONE = b'{"text":"x"}'


def take(*, first: bool = True) -> TenantBatch:
    turn = stream_reader().claim(first=first)
    assert turn is not None
    return turn


def lapse(service: Service) -> None:
    """Expire every lease, as if the workers had died a while ago."""
    held = cast("list[bytes]", service.redis.zrange(HELD, 0, -1))
    for tenant in held:
        service.redis.zadd(HELD, {tenant: 0})


def counted(service: Service, tenant_id: UUID) -> tuple[int, ...]:
    """Return the total entries and bytes, and the tenant's bytes and memories."""
    held = service.backlog()
    return tuple(held[name] for name in ("entries", "bytes", f"{tenant_id}:bytes", f"{tenant_id}:memories"))


@pytest.fixture
def tenant_id() -> UUID:
    return uuid4()


# --- Admission ---


def test_what_is_accepted_comes_out_as_it_went_in(service: Service, tenant_id: UUID) -> None:
    base = generate_base(1_760_000_000_000, bytes(8))
    assert service.post(tenant_id, ONE, base=base).nudge
    turn = take()
    assert (turn.tenant_id, turn.suspects) == (tenant_id, [])
    [entry] = turn.fresh
    assert (entry.memories, entry.body) == (1, ONE)
    assert entry.header == b"1j" + base + b" "


def test_64_requests_with_one_key_at_once_are_one_entry(service: Service, tenant_id: UUID) -> None:
    async def knock(door: StreamWriter) -> list[AppendResult]:
        def once(n: int) -> asyncio.Future[AppendResult]:
            return asyncio.ensure_future(
                door.append(
                    tenant_id,
                    base=generate_base(n, bytes(8)),
                    memories=1,
                    form="json",
                    trace="",
                    body=ONE,
                    idempotency=Idempotency("digest", (), f"outcome {n}"),
                )
            )

        return list(await asyncio.gather(*map(once, range(64))))

    answers = at_door(knock)
    first = [answer for answer in answers if answer.earlier is None]
    assert len(first) == 1
    assert service.redis.xlen(stream_key(tenant_id)) == 1
    assert service.backlog()["entries"] == 1
    winner = answers.index(first[0])
    assert {answer.earlier for answer in answers} == {None, f"outcome {winner}"}


def test_an_idempotency_key_belongs_to_its_tenant(service: Service, tenant_id: UUID) -> None:
    other = uuid4()
    for tenant in (tenant_id, other):
        assert service.post(tenant, ONE, idempotency=Idempotency("digest", (), str(tenant))).earlier is None
    assert service.post(tenant_id, ONE, idempotency=Idempotency("digest", (), "again")).earlier == str(tenant_id)
    assert service.post(other, ONE, idempotency=Idempotency("digest", (), "again")).earlier == str(other)


def test_an_idempotency_key_is_forgotten_after_its_time(service: Service, tenant_id: UUID) -> None:
    service.configure(idempotency_hours=2)
    service.post(tenant_id, ONE, idempotency=Idempotency("digest", (), "outcome"))
    [key] = service.redis.keys("*idempotency*")
    assert 7190 < service.redis.ttl(key) <= 7200


def test_a_refused_request_leaves_nothing_under_its_key(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_entries=1)
    service.post(tenant_id, ONE)
    with pytest.raises(BacklogFull):
        service.post(tenant_id, ONE, idempotency=Idempotency("digest", (), "outcome"))
    assert service.redis.keys("*idempotency*") == []
    assert service.redis.xlen(stream_key(tenant_id)) == 1


def test_a_tenant_with_too_many_requests_waiting_is_refused_and_others_are_not(
    service: Service, tenant_id: UUID
) -> None:
    service.configure(tenant_backlog_entries=3)
    for _ in range(3):
        service.post(tenant_id, ONE)
    with pytest.raises(BacklogFull, match="3 requests are pending for this tenant; the limit is 3") as raised:
        service.post(tenant_id, ONE)
    assert raised.value.retry_after_seconds
    service.post(uuid4(), ONE)


def test_a_tenant_with_too_many_bytes_waiting_is_refused(service: Service, tenant_id: UUID) -> None:
    service.configure(tenant_backlog_bytes=1024)
    service.post(tenant_id, b"x" * 1000)
    with pytest.raises(BacklogFull, match="1000 bytes of requests are pending for this tenant; the limit is 1024"):
        service.post(tenant_id, b"x" * 25)
    service.post(tenant_id, b"x" * 24)
    service.post(uuid4(), b"x" * 25)


@pytest.mark.parametrize(
    ("limit", "what"), [({"backlog_entries": 2}, "requests"), ({"backlog_bytes": 2050}, "bytes of requests")]
)
def test_when_too_much_of_all_waits_the_door_is_shut(service: Service, limit: dict[str, int], what: str) -> None:
    service.configure(**limit)
    service.post(uuid4(), b"x" * 1025)
    service.post(uuid4(), b"x" * 1025)
    with pytest.raises(Unavailable, match=f"{what} are pending") as raised:
        service.post(uuid4(), b"x")
    assert raised.value.retry_after_seconds


@contextmanager
def full_redis(service: Service) -> Iterator[None]:
    before = str(service.redis.config_get("maxmemory")["maxmemory"])
    service.redis.config_set("maxmemory", 1024)
    try:
        yield
    finally:
        service.redis.config_set("maxmemory", before)


def test_a_full_redis_takes_nothing_and_loses_nothing(service: Service, tenant_id: UUID) -> None:
    service.post(tenant_id, ONE, idempotency=Idempotency("kept", (), "outcome"))
    before = service.backlog()
    with full_redis(service), pytest.raises(Unavailable, match="memory is full") as raised:
        service.post(tenant_id, ONE, idempotency=Idempotency("digest", (), "outcome"))
    assert raised.value.retry_after_seconds
    assert service.backlog() == before
    assert service.redis.xlen(stream_key(tenant_id)) == 1
    assert service.post(tenant_id, ONE, idempotency=Idempotency("digest", (), "outcome")).earlier is None


def test_a_redis_that_is_away_is_unavailable(service: Service, tenant_id: UUID) -> None:
    service.configure(redis_url="redis://127.0.0.1:1/0")
    with pytest.raises(Unavailable, match="can't be reached"):
        service.post(tenant_id, ONE)


def test_nudges_are_sent_once_until_one_is_answered(service: Service, tenant_id: UUID) -> None:
    assert [service.post(tenant_id, ONE).nudge for _ in range(3)] == [True, False, False]
    take()
    assert service.post(tenant_id, ONE).nudge


@pytest.mark.parametrize(("name", "value"), [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")])
def test_a_redis_that_would_lose_what_was_accepted_is_refused(service: Service, name: str, value: str) -> None:
    assert check_settings(service.redis) == []
    before = str(service.redis.config_get(name)[name])
    service.redis.config_set(name, value)
    try:
        with pytest.raises(Misconfigured, match=before):
            check_settings(service.redis)
    finally:
        service.redis.config_set(name, before)


def test_a_redis_that_doesnt_tell_its_settings_is_remarked_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise redis.ResponseError("NOPERM")

    monkeypatch.setattr(service.redis, "info", refuse)
    [remark] = check_settings(service.redis)
    assert "noeviction" in remark
    assert "appendonly" in remark


# --- Turns ---


def test_nobody_waiting_means_no_turn(service: Service) -> None:
    assert stream_reader().claim(first=True) is None


def test_settled_entries_are_gone_and_the_counters_exact(service: Service, tenant_id: UUID) -> None:
    for n in range(5):
        service.post(tenant_id, b"x" * (n + 1), memories=n + 1)
    assert service.backlog() == {
        "entries": 5,
        "bytes": 15,
        "memories": 15,
        f"{tenant_id}:bytes": 15,
        f"{tenant_id}:memories": 15,
    }
    turn = take()
    assert stream_reader().acknowledge(tenant_id, turn.fresh[:2], free=False) == 3
    assert service.backlog() == {
        "entries": 3,
        "bytes": 12,
        "memories": 12,
        f"{tenant_id}:bytes": 12,
        f"{tenant_id}:memories": 12,
    }
    assert (backlog().memories(tenant_id), backlog().entries(tenant_id), backlog().entries()) == (12, 3, 3)
    assert stream_reader().acknowledge(tenant_id, turn.fresh[2:], free=True) == 0
    assert service.backlog() == {"entries": 0, "bytes": 0, "memories": 0}
    for key in (RING, RING_MEMBERS, HELD, TURNS, ATTEMPTS):
        assert not service.redis.exists(key), key


def test_to_settle_twice_counts_once(service: Service, tenant_id: UUID) -> None:
    for _ in range(4):
        service.post(tenant_id, b"xxxx", memories=2)
    entries = take().fresh
    stream_reader().acknowledge(tenant_id, entries[:2], free=False)
    stream_reader().acknowledge(tenant_id, entries[:2], free=False)
    stream_reader().acknowledge(tenant_id, entries[1:3], free=False)
    assert service.backlog() == {
        "entries": 1,
        "bytes": 4,
        "memories": 2,
        f"{tenant_id}:bytes": 4,
        f"{tenant_id}:memories": 2,
    }
    stream_reader().acknowledge(tenant_id, entries, free=True)
    stream_reader().acknowledge(tenant_id, entries, free=True)
    assert service.backlog() == {"entries": 0, "bytes": 0, "memories": 0}


def test_more_entries_than_lua_can_unpack_are_settled_at_once(service: Service, tenant_id: UUID) -> None:
    service.configure(drain_entries=5000, drain_rows=5000)
    with service.redis.pipeline() as pipe:
        for _ in range(2500):
            pipe.xadd(stream_key(tenant_id), {"n": 1, "h": "", "e": ""})
        pipe.hincrby(BACKLOG, "entries", 2500)
        pipe.sadd(RING_MEMBERS, str(tenant_id))
        pipe.rpush(RING, str(tenant_id))
        pipe.execute()
    entries = take().fresh
    assert len(entries) == 2500
    assert stream_reader().acknowledge(tenant_id, entries, free=True) == 0
    assert service.backlog()["entries"] == 0


def test_a_turn_has_at_most_a_quantum(service: Service, tenant_id: UUID) -> None:
    for _ in range(30):
        service.post(tenant_id, b"x" * 100, memories=10)
    for quantum, most in ({"drain_rows": 100}, 10), ({"drain_entries": 7}, 7), ({"drain_bytes": 1024}, 11):
        service.configure(**{"drain_rows": 5000, "drain_entries": 1000, "drain_bytes": 2**24} | quantum)
        turn = take()
        stream_reader().acknowledge(turn.tenant_id, free=True)
        assert 1 <= len(turn.fresh) <= most + most // 4 + 1, quantum


def test_one_entry_over_the_quantum_still_has_its_turn(service: Service, tenant_id: UUID) -> None:
    service.configure(drain_rows=10, drain_bytes=1024)
    service.post(tenant_id, b"x" * 5000, memories=100)
    assert len(take().fresh) == 1


def test_a_flood_of_one_tenant_costs_the_other_one_turn(service: Service) -> None:
    service.configure(drain_entries=50)
    flood, quiet = uuid4(), uuid4()

    async def knock(door: StreamWriter) -> None:
        for _ in range(1000):
            await door.append(flood, base=bytes(16), memories=1, form="json", trace="", body=ONE, idempotency=None)

    at_door(knock)
    service.post(quiet, ONE)
    served = []
    while (turn := stream_reader().claim(first=False)) is not None:
        served.append(turn.tenant_id)
        stream_reader().acknowledge(turn.tenant_id, turn.fresh, free=True)
    assert served[:3] == [flood, quiet, flood]
    assert served.count(quiet) == 1
    assert len(served) >= 20
    assert service.backlog() == {"entries": 0, "bytes": 0, "memories": 0}


def test_a_tenant_is_in_one_pair_of_hands(service: Service, tenant_id: UUID) -> None:
    service.post(tenant_id, ONE)
    take()
    assert stream_reader().claim(first=False) is None


def test_what_comes_while_a_tenant_is_held_is_next(service: Service, tenant_id: UUID) -> None:
    service.post(tenant_id, b"one")
    turn = take()
    service.post(tenant_id, b"two")
    assert stream_reader().claim(first=False) is None
    assert stream_reader().acknowledge(tenant_id, turn.fresh, free=True) == 1
    assert [entry.body for entry in take().fresh] == [b"two"]


def test_a_lapsed_lease_makes_suspects_of_what_was_in_hand_alone(service: Service, tenant_id: UUID) -> None:
    service.configure(drain_entries=2)
    for n in range(4):
        service.post(tenant_id, f"{n}".encode())
    in_hand = take().fresh
    lapse(service)
    turn = take()
    assert (turn.suspects, turn.fresh) == (in_hand, [])
    stream_reader().acknowledge(tenant_id, turn.suspects, free=True)
    after = take()
    assert after.suspects == []
    assert after.fresh[0].body == str(len(in_hand)).encode()


def test_a_lease_from_before_the_clock_was_set_back_has_lapsed(service: Service, tenant_id: UUID) -> None:
    service.post(tenant_id, ONE)
    in_hand = take().fresh
    assert stream_reader().claim(first=False) is None
    service.redis.zincrby(HELD, 7_200_000, str(tenant_id))
    assert take().suspects == in_hand


def test_a_lease_lapses_by_itself(service: Service, tenant_id: UUID) -> None:
    service.configure(claim_idle_seconds=0.05)
    service.post(tenant_id, ONE)
    take()
    until(lambda: (turn := stream_reader().claim(first=False)) is not None and turn.suspects, "the lease lapses")


def test_suspects_come_a_few_at_a_time_and_nothing_fresh_among_them(service: Service, tenant_id: UUID) -> None:
    for n in range(120):
        service.post(tenant_id, f"{n}".encode())
    everything = take().fresh
    assert len(everything) == 120
    lapse(service)
    service.post(tenant_id, b"fresh")
    bodies = []
    for _ in range(4):
        turn = take()
        assert not (turn.suspects and turn.fresh)
        assert len(turn.suspects) <= 50
        bodies += [entry.body for entry in (*turn.suspects, *turn.fresh)]
        stream_reader().acknowledge(tenant_id, [*turn.suspects, *turn.fresh], free=True)
    assert bodies == [*(f"{n}".encode() for n in range(120)), b"fresh"]


def test_attempts_are_counted_forgiven_and_forgotten(service: Service, tenant_id: UUID) -> None:
    service.post(tenant_id, ONE)
    service.post(tenant_id, ONE)
    one, other = take().fresh
    assert [stream_reader().count_attempt(tenant_id, one) for _ in range(2)] == [1, 2]
    assert stream_reader().count_attempt(tenant_id, other) == 1
    stream_reader().uncount_attempt(tenant_id, one)
    assert stream_reader().count_attempt(tenant_id, one) == 2
    stream_reader().acknowledge(tenant_id, [one, other], free=True)
    assert not service.redis.exists(ATTEMPTS)


# --- The view ---


def test_a_waiting_envelope_is_found_by_its_id_among_many(service: Service, tenant_id: UUID) -> None:
    now = backlog().now_ms()
    bases = [generate_base(now + n, bytes([n % 256]) * 8) for n in range(450)]

    async def knock(door: StreamWriter) -> None:
        for base in bases:
            await door.append(tenant_id, base=base, memories=1, form="json", trace="", body=ONE, idempotency=None)

    at_door(knock)
    unknown = UUID(bytes=generate_base(now, b"no base!"))
    for base in (bases[0], bases[250], bases[-1]):
        found = backlog().find(tenant_id, unknown, UUID(bytes=base))
        assert found is not None
        assert found.base == base
    assert backlog().find(tenant_id, unknown) is None
    assert backlog().find(tenant_id) is None
    assert backlog().find(uuid4(), UUID(bytes=bases[0])) is None


def test_the_oldest_of_all_is_told_held_or_not(service: Service) -> None:
    assert backlog().oldest_ms() is None
    first, second = uuid4(), uuid4()
    service.post(first, ONE)
    oldest = backlog().oldest_ms()
    assert oldest is not None
    service.post(second, ONE)
    assert take().tenant_id == first
    assert backlog().oldest_ms() == oldest == backlog().oldest_ms([first])
    assert backlog().oldest_ms([uuid4()]) is None
    assert 0 <= backlog().now_ms() - oldest < 60_000


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.integers(0, 2), st.integers(1, 9)),
        st.tuples(st.just("turn"), st.booleans(), st.integers(0, 9)),
        st.tuples(st.just("die"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@draw(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_whatever_happens_nothing_is_lost_and_the_counters_are_exact(
    service: Service, steps: list[tuple[str, int, int]]
) -> None:
    """Posts, turns that settle some or all entries, and deaths, in any order; then the rest is drained."""
    service.redis.flushdb()
    tenants = [UUID(int=n + 1) for n in range(3)]
    posted, settled = 0, 0

    def turn(*, end: bool, most: int) -> int:
        taken = stream_reader().claim(first=False)
        if taken is None:
            return 0
        done = [*taken.suspects, *taken.fresh][:most]
        stream_reader().acknowledge(taken.tenant_id, done, free=end)
        return len(done)

    for step, one, other in steps:
        if step == "post":
            service.post(tenants[one], b"x" * other, memories=other)
            posted += 1
        elif step == "turn":
            settled += turn(end=bool(one), most=other)
        else:
            lapse(service)
        waiting = sum(backlog().entries(tenant) for tenant in tenants)
        assert waiting == backlog().entries() == posted - settled
    lapse(service)
    while service.redis.llen(RING) or service.redis.zcard(HELD):
        settled += turn(end=True, most=1000)
    assert settled == posted
    assert service.backlog() in ({}, {"entries": 0, "bytes": 0, "memories": 0})
