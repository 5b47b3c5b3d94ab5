"""A healthy Redis is never refused: after restarts, fail-overs, upgrades and restores of the normal kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast
from unittest.mock import Mock

import pytest
from sqlalchemy.exc import OperationalError

from app.clients.redis import stream
from app.clients.redis.connection import QUEUE, connect
from app.clients.redis.connection_check import QueueReplaced, verify_connections
from app.services.ingest import drain, witness
from app.services.ingest.witness import Witness
from app.store.core import database
from tests.service import Service
from tests.services.ingest.test_witness import accept

SERVERS_DATABASE = 15
"""Redis database that takes the part of another server."""


@pytest.fixture
def guarded(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service with verified connections, and looks at accepted requests without a delay between them."""
    monkeypatch.setattr(witness, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(witness, "NEXT_LOOK_SECONDS", 0.0)
    witness.guard_connections()
    yield service
    verify_connections(None)
    stream.close()


def reconnect() -> None:
    """Close all connections, as a server that ends does, and open new ones: the second finds the first one's mark."""
    stream.close()
    for _ in range(2):
        with connect() as client:
            client.ping()
    assert witness.diagnose_queue() is None


def beats(service: Service) -> tuple[int, int]:
    """Return the time of the last witnessed acceptance according to PostgreSQL and to Redis."""
    return service.one("SELECT beat FROM queue_identity"), int(service.redis.hget(QUEUE, "beat") or 0)


def check_stored(service: Service, memories: int) -> None:
    """Store what waits, and check that nothing was lost."""
    drain.drain_streams()
    assert service.one("SELECT count(*) FROM memories") == memories
    assert (witness.find_gaps(), witness.find_gaps(), witness.count_lost()) == (0, 0, 0)


def fail_over(service: Service) -> None:
    """Let another server with all keys of this one, as a replica has them, answer under the service's URL."""
    for key in cast("list[bytes]", service.redis.keys()):
        service.redis.copy(key.decode(), key.decode(), destination_db=str(SERVERS_DATABASE), replace=True)
    service.configure(redis_url=f"{service.redis_url.rpartition('/')[0]}/{SERVERS_DATABASE}")


@pytest.fixture
def replica(guarded: Service) -> Iterator[Service]:
    yield guarded
    stream.close()
    with connect(is_verified=False) as other:
        assert other.connection_pool.connection_kwargs["db"] == SERVERS_DATABASE
        other.flushdb()
    guarded.configure(redis_url=guarded.redis_url)


def test_a_restart_with_its_files_is_accepted(guarded: Service) -> None:
    reconnect()
    tenant = guarded.tenant()
    accept(guarded, Witness(), tenant.tenant_id, 3)
    reconnect()
    check_stored(guarded, 6)


@pytest.mark.parametrize("behind_ms", [0, 1_000])
def test_a_fail_over_to_a_replica_is_accepted(replica: Service, behind_ms: int) -> None:
    """A replica that is up to date, and one that lacks the last second's mark."""
    reconnect()
    tenant = replica.tenant()
    accept(replica, Witness(), tenant.tenant_id, 3)
    expected, found = beats(replica)
    assert expected == found > 0
    replica.redis.hset(QUEUE, "beat", found - behind_ms)
    fail_over(replica)
    reconnect()
    check_stored(replica, 6)


def test_a_cut_after_an_hour_without_requests_is_accepted(guarded: Service) -> None:
    """Redis loses the last request's mark. The mark before is an hour old, but for the beats while it was idle."""
    reconnect()
    tenant, accepted = guarded.tenant(), Witness()
    accept(guarded, accepted, tenant.tenant_id)
    guarded.redis.hincrby(QUEUE, "beat", -3_600_000)
    guarded.rows("UPDATE queue_identity SET beat = beat - 3600000")
    hour_ago, _ = beats(guarded)
    Witness().write()
    expected, idle = beats(guarded)
    assert expected == hour_ago < idle
    accept(guarded, accepted, tenant.tenant_id)
    guarded.redis.hset(QUEUE, "beat", idle)
    reconnect()
    check_stored(guarded, 4)


def test_beats_without_requests_are_rare(guarded: Service) -> None:
    reconnect()
    accepted = Witness()
    accepted.write()
    _, first = beats(guarded)
    guarded.redis.hset(QUEUE, "beat", first - 60_000)
    accepted.write()
    assert beats(guarded) == (0, first - 60_000)


@pytest.mark.parametrize("requests", [0, 1])
def test_no_beat_makes_an_older_copy_look_current(guarded: Service, requests: int) -> None:
    """The older copy was connected while PostgreSQL was unreachable, so its mark hasn't been compared yet."""
    reconnect()
    tenant = guarded.tenant()
    accept(guarded, Witness(), tenant.tenant_id)
    expected, found = beats(guarded)
    guarded.redis.hset(QUEUE, "beat", found - 3_600_000)
    idle_or_busy = Witness()
    for _ in range(requests):
        idle_or_busy.remember(tenant.tenant_id, bytes(16), 2, "1-1")
    idle_or_busy.write()
    assert beats(guarded) == (expected, found - 3_600_000)
    stream.close()
    with pytest.raises(QueueReplaced, match="older copy"):
        stream.client().ping()


def test_an_idle_beat_that_failed_is_repeated_by_the_next_call(
    guarded: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconnect()
    accepted = Witness()
    with monkeypatch.context() as patched:
        patched.setattr(database, "shared", Mock(side_effect=OperationalError("SELECT 1", None, Exception())))
        accepted.write()
    assert beats(guarded) == (0, 0)
    accepted.write()
    assert beats(guarded)[1] > 0


def test_a_database_restored_from_a_backup_accepts_the_redis_that_went_on(guarded: Service) -> None:
    reconnect()
    tenant, accepted = guarded.tenant(), Witness()
    accept(guarded, accepted, tenant.tenant_id)
    backup, _ = beats(guarded)
    guarded.redis.hset(QUEUE, "beat", backup + 86_400_000)
    reconnect()
    check_stored(guarded, 2)


@pytest.mark.parametrize("redis", ["emptied", "older copy", "another installation"])
def test_a_restore_of_both_stores_goes_on_by_the_operators_command(guarded: Service, redis: str) -> None:
    """A restored database expects the mark of its backup; "another installation" had `ebbing queue accept` since."""
    reconnect()
    tenant = guarded.tenant()
    accept(guarded, Witness(), tenant.tenant_id)
    drain.drain_streams()
    if redis == "emptied":
        guarded.redis.flushdb()
    elif redis == "older copy":
        guarded.redis.hincrby(QUEUE, "beat", -3_600_000)
    else:
        guarded.rows("UPDATE queue_identity SET epoch = gen_random_uuid()")
    stream.close()
    with pytest.raises(QueueReplaced, match=redis):
        stream.client().ping()
    assert redis in (witness.diagnose_queue() or "")
    witness.accept_queue(tenant.tenant_id, "key")
    reconnect()
    accept(guarded, Witness(), tenant.tenant_id)
    check_stored(guarded, 4)


def test_a_new_installation_is_accepted_and_keeps_its_mark(guarded: Service) -> None:
    assert guarded.redis.hget(QUEUE, "epoch") is None
    assert guarded.one("SELECT count(*) FROM queue_identity WHERE claimed_at IS NOT NULL") == 0
    reconnect()
    epoch = guarded.redis.hget(QUEUE, "epoch")
    reconnect()
    assert epoch is not None
    assert guarded.redis.hget(QUEUE, "epoch") == epoch


def test_an_upgrade_marks_the_redis_of_the_previous_version_with_its_waiting_entries(guarded: Service) -> None:
    verify_connections(None)
    tenant = guarded.tenant()
    guarded.send(tenant.tenant_id, "accepted before the upgrade")
    guarded.rows("DELETE FROM queue_identity")
    assert guarded.redis.hget(QUEUE, "epoch") is None

    witness.guard_connections()
    reconnect()
    drain.drain_streams()
    assert guarded.texts(tenant.tenant_id) == ["accepted before the upgrade"]
    assert guarded.one("SELECT count(*) FROM queue_identity WHERE claimed_at IS NOT NULL") == 1
