"""Dead letters that come back: how often their work was replayed, and counters that stay at 0 or above."""

from __future__ import annotations

import pytest

from app.clients.redis import stream
from app.clients.redis.connection import BACKLOG, stream_key
from app.errors import NotFound
from app.services.ingest import dead_letter_replay, drain
from app.services.monitoring import stats
from app.store.enrichment import work_queue
from tests.service import Service, Tenant
from tests.services.ingest.test_dead_letter_replay import letters, set_aside_at


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


@pytest.mark.parametrize("header", [b"nonsense", None], ids=["not an envelope", "an envelope"])
def test_an_entry_that_fails_again_knows_how_often_it_was_replayed(
    service: Service, tenant: Tenant, header: bytes | None
) -> None:
    if header is None:
        service.post(tenant.tenant_id, b"no JSON")
    else:
        service.push(tenant.tenant_id, {b"n": b"x", b"h": header, b"e": b"y"})
    for replays in range(3):
        drain.drain_streams()
        [letter] = letters(tenant)
        assert letter.replays == replays
        done = dead_letter_replay.replay_many(tenant.tenant_id, None, letter.reason)
        assert (done.letters, done.came_back) == (1, int(replays > 0))


def test_a_letter_has_no_request_id_of_an_entry_by_an_earlier_version(service: Service, tenant: Tenant) -> None:
    """Its API processes may run beside the new workers during an upgrade."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    header = b"1j" + bytes(range(16)) + f"request-of-orla {trace}".encode()
    service.push(tenant.tenant_id, {b"n": b"1", b"h": header, b"e": b"no JSON"})
    drain.drain_streams()
    stored = bytes(service.one("SELECT header FROM dead_letters"))
    assert stored == header.replace(b"request-of-orla", b"")


def test_a_client_cannot_claim_replays(service: Service, tenant: Tenant) -> None:
    service.push(tenant.tenant_id, {b"n": b"x", b"h": b"h", b"e": b"y", b"r": b"many"})
    drain.drain_streams()
    [letter] = letters(tenant)
    assert letter.replays == 0


def test_entries_that_were_never_counted_leave_no_counter_below_zero(service: Service, tenant: Tenant) -> None:
    for _ in range(13):
        service.push(tenant.tenant_id, {b"n": b"99", b"h": b"nonsense", b"e": b"y"})
    service.redis.hset(BACKLOG, mapping={"entries": 0, "memories": 0, "bytes": 0})
    drain.drain_streams()
    assert service.redis.hmget(BACKLOG, "entries", "memories", "bytes") == [b"0", b"0", b"0"]
    found = stats.tenant_stats(tenant.tenant_id)
    assert (found.pending["ingest"], found.lanes["ingest"].depth) == (0, 0)
    service.send(tenant.tenant_id, "counted")
    service.redis.delete(stream_key(tenant.tenant_id))
    assert stream.backlog().unaccounted() == 1, "a lost request isn't hidden by entries that were never counted"


def test_a_memory_that_fails_again_at_its_stage_knows_how_often_it_was_replayed(
    service: Service, tenant: Tenant
) -> None:
    [memory_id, other_id] = service.send(tenant.tenant_id, "x", "y")
    service.work()
    for replays in range(3):
        letter_id = set_aside_at(service, tenant, work_queue.EMBED, [memory_id])
        [letter] = letters(tenant)
        assert letter.replays == replays
        done = dead_letter_replay.replay_many(tenant.tenant_id, None, letter.reason)
        assert (done.letters, done.came_back) == (1, int(replays > 0))
        assert letters(tenant) == letters(tenant, discarded=True) == []
        with pytest.raises(NotFound):
            dead_letter_replay.get(tenant.tenant_id, letter_id)
    set_aside_at(service, tenant, work_queue.EMBED, [other_id])
    set_aside_at(service, tenant, work_queue.INDEX, [memory_id])
    assert [letter.replays for letter in letters(tenant)] == [0, 0], "another memory, and another stage"
