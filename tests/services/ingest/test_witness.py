"""A Redis that lost accepted requests is noticed: by its mark, and by requests that were accepted and then vanished."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import pytest

from app.clients.redis.connection import BACKLOG, QUEUE, connect, stream_key
from app.clients.redis.connection_check import QueueReplaced, verify_connections
from app.domain.ingest.ids import RANDOM_BYTES, generate_base
from app.errors import Unavailable
from app.services.ingest import drain, witness
from app.services.ingest.witness import Witness
from tests.service import Service


@pytest.fixture
def guarded(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service with verified connections, and looks at accepted requests without a delay between them."""
    monkeypatch.setattr(witness, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(witness, "NEXT_LOOK_SECONDS", 0.0)
    witness.guard_connections()
    yield service
    verify_connections(None)


def ping() -> None:
    with connect() as client:
        client.ping()


def accept(service: Service, accepted: Witness, tenant_id: UUID, count: int = 1) -> list[str]:
    """Accept this many requests of two memories, as the API does, and return the ids of their entries."""
    entry_ids = []
    for _ in range(count):
        base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
        done = service.post(tenant_id, b'[{"text":"one"},{"text":"two"}]', memories=2, base=base)
        accepted.remember(tenant_id, base, 2, done.entry_id)
        entry_ids.append(done.entry_id)
    accepted.write()
    return entry_ids


def lose(service: Service, tenant_id: UUID, *entry_ids: str) -> None:
    """Delete entries from Redis as a cut of its append-only file would: with their counts."""
    for entry_id in entry_ids:
        [(_, fields)] = cast("list[Any]", service.redis.xrange(stream_key(tenant_id), entry_id, entry_id))
        service.redis.xdel(stream_key(tenant_id), entry_id)
        for name, less in {"entries": 1, "bytes": len(fields[b"e"]), "memories": 2}.items():
            service.redis.hincrby(BACKLOG, name, -less)


def test_a_new_installation_marks_its_redis_once(guarded: Service) -> None:
    ping()
    epoch = cast("bytes", guarded.redis.hget(QUEUE, "epoch"))
    ping()
    ping()
    assert epoch
    assert guarded.redis.hget(QUEUE, "epoch") == epoch
    assert guarded.rows("SELECT epoch::text, claimed_at IS NOT NULL FROM queue_identity") == [(epoch.decode(), True)]


def test_an_emptied_redis_is_refused_until_an_operator_accepts_it(guarded: Service) -> None:
    tenant = guarded.tenant()
    ping()
    ping()
    guarded.redis.flushdb()
    with pytest.raises(QueueReplaced, match="emptied"):
        ping()
    with pytest.raises(Unavailable, match="Redis was emptied or replaced"):
        guarded.send(tenant.tenant_id, "Ann likes tea")
    assert "emptied" in (witness.diagnose_queue() or "")

    witness.accept_queue(tenant.tenant_id, "key")
    assert witness.diagnose_queue() is None
    guarded.send(tenant.tenant_id, "Ann likes tea")
    drain.drain_streams()
    assert guarded.texts(tenant.tenant_id) == ["Ann likes tea"]


def test_another_installations_redis_is_refused(guarded: Service) -> None:
    guarded.redis.hset(QUEUE, "epoch", "another")
    with pytest.raises(QueueReplaced, match="another installation"):
        ping()


def test_an_older_copy_is_refused_and_a_cut_tail_is_not(guarded: Service) -> None:
    tenant = guarded.tenant()
    accept(guarded, Witness(), tenant.tenant_id)
    beat = int(guarded.redis.hget(QUEUE, "beat") or 0)
    assert guarded.one("SELECT beat FROM queue_identity") == beat
    guarded.redis.hset(QUEUE, "beat", beat - 9_000)
    ping()
    guarded.redis.hset(QUEUE, "beat", beat - 60_000)
    with pytest.raises(QueueReplaced, match="older copy, 60 s behind"):
        ping()


def test_a_redis_is_accepted_by_its_mark_while_postgresql_is_away(
    guarded: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    ping()
    guarded.configure(database_url="postgresql://nobody@127.0.0.1:1/none")
    from app.store.core import database  # noqa: PLC0415

    database.close()
    monkeypatch.setattr("tests.service.PATIENCE_SECONDS", 1)
    ping()
    guarded.redis.hdel(QUEUE, "epoch")
    with pytest.raises(QueueReplaced, match="can't be verified"):
        ping()


def test_requests_that_vanish_are_counted_by_tenant_and_stored_or_waiting_ones_are_not(guarded: Service) -> None:
    ann, bob, accepted = guarded.tenant(), guarded.tenant(), Witness()
    accept(guarded, accepted, ann.tenant_id, 5)
    drain.drain_streams()  # all of these are stored
    kept = accept(guarded, accepted, bob.tenant_id, 3)
    lose(guarded, bob.tenant_id, *kept[1:])  # the tail is cut; the first one waits
    assert (witness.find_gaps(), witness.count_lost()) == (0, 0), "one look isn't enough"
    assert (witness.find_gaps(), witness.count_lost()) == (2, 2)
    assert (witness.find_gaps(), witness.count_lost()) == (0, 2), "a lost request is counted once"

    [gap] = witness.list_gaps()
    assert (gap.tenant_id, gap.requests, gap.memories) == (bob.tenant_id, 2, 4)
    assert gap.first_at.timestamp() * 1000 == pytest.approx(int(kept[1].partition("-")[0]), abs=1)
    assert gap.first_at <= gap.last_at

    drain.drain_streams()
    assert witness.find_gaps() == 0
    assert guarded.one("SELECT count(*) FROM accepted_requests") == 0, "what is accounted for isn't witnessed any more"

    witness.accept_queue(ann.tenant_id, "key")
    assert (witness.count_lost(), witness.list_gaps()) == (0, [])


def test_what_an_emptied_redis_held_is_counted_once_it_is_accepted(guarded: Service) -> None:
    tenant, accepted = guarded.tenant(), Witness()
    accept(guarded, accepted, tenant.tenant_id, 20)
    guarded.redis.flushdb()
    witness.accept_queue(tenant.tenant_id, "key")
    witness.find_gaps()
    assert witness.find_gaps() == 20
    assert witness.count_lost() == 20


def test_dead_letters_and_requests_of_deleted_tenants_are_not_lost(guarded: Service) -> None:
    tenant, accepted = guarded.tenant(), Witness()
    base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
    done = guarded.post(tenant.tenant_id, b"not json", memories=1, base=base)
    accepted.remember(tenant.tenant_id, base, 1, done.entry_id)
    accepted.remember(UUID(int=7), bytes(16), 1, done.entry_id)
    accepted.write()
    while guarded.redis.exists(stream_key(tenant.tenant_id)) and guarded.redis.xlen(stream_key(tenant.tenant_id)):
        drain.drain_streams()
    assert [letter[0] for letter in guarded.letters(tenant.tenant_id)] == ["drain"]
    assert [witness.find_gaps() for _ in range(3)] == [0, 0, 0]
    assert guarded.one("SELECT count(*) FROM accepted_requests") == 0
