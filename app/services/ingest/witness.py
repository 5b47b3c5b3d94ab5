"""Notice that Redis lost accepted requests: verify its identity, and follow each accepted request until it is stored.

Redis and PostgreSQL hold the same mark (`app.domain.ingest.redis_identity`); a connection to a Redis without it is
refused, so that requests get a 503 until an operator decides. Each API process also writes what it accepted to
PostgreSQL, about once a second. A row is deleted when all of its requests are stored, waiting ones are looked at again,
and those that are neither are recorded as a gap. Requests that an API process accepted in its last second, if it was
killed together with Redis, aren't witnessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from threading import Lock
from typing import Final, cast
from uuid import UUID

import structlog

from app.clients.redis.connection import QUEUE, RedisError, connect
from app.clients.redis.connection_check import QUEUE_FIELDS, QueueReplaced, verify_connections
from app.clients.redis.stream import backlog
from app.domain.ingest.ids import parse_entry_id
from app.domain.ingest.redis_identity import Mark, diagnose
from app.services.security import audit
from app.services.transient_errors import is_transient
from app.store.core import database
from app.store.ingest import witness
from app.store.ingest.witness import Accepted, Gap, Witnessed

EVERY_SECONDS: Final = 1.0
FIRST_LOOK_SECONDS: Final = 3.0
NEXT_LOOK_SECONDS: Final = 10.0
PENDING_MAX: Final = 50_000
"""Maximum number of accepted requests that a process remembers while PostgreSQL is unreachable."""
PAGES_MAX: Final = 20
"""Maximum number of pages of witness rows in one call of `find_gaps`."""
GAPS_SHOWN: Final = 200

log = structlog.get_logger(__name__)


def check_identity(found: Mark) -> str | None:
    """Check the mark of the Redis behind a new connection. Return the epoch to write to a new installation's Redis.

    While PostgreSQL is unreachable, a Redis with a mark is accepted: the next connection compares it.

    Raises:
        QueueReplaced: Redis was emptied, belongs to another installation, or is an older copy.
    """
    try:
        with database.shared() as tx:
            expected = witness.expected(tx)
            wrong = diagnose(found, expected)
            if wrong is None and found.epoch is not None and not expected.is_claimed:
                witness.claim(tx, found.epoch)
    except database.DatabaseError as error:
        if found.epoch is None or not is_transient(error):
            raise QueueReplaced(f"the queue can't be verified without PostgreSQL: {type(error).__name__}") from None
        return None
    if wrong is not None:
        raise QueueReplaced(wrong)
    return expected.mark.epoch if found.epoch is None else None


def guard_connections() -> None:
    """Verify Redis's identity on every new connection of this process."""
    verify_connections(check_identity)


class Witness:
    """Collects the requests that this process accepted, for `write`; safe to use from several threads."""

    def __init__(self) -> None:
        """Begin without any."""
        self._lock = Lock()
        self._pending: list[Accepted] = []

    def remember(self, tenant_id: UUID, base: bytes, memories: int, entry_id: str) -> None:
        """Remember an accepted request."""
        with self._lock:
            self._pending.append(Accepted(tenant_id, UUID(bytes=base), memories, entry_id))

    def write(self) -> None:
        """Write the remembered requests to PostgreSQL, and advance the mark's beat in both stores.

        Failures are logged, and the requests are remembered for the next call.
        """
        with self._lock:
            requests, self._pending = self._pending, []
        if not requests:
            return
        beat = None
        try:
            beat = backlog().beat()
        except RedisError as error:
            log.warning("redis_away", error=type(error).__name__)
        try:
            with database.drain() as tx:
                witness.add(tx, requests)
            if beat is not None:
                with database.shared() as tx:
                    witness.advance_beat(tx, beat)
        except database.DatabaseError as error:
            log.warning("acceptance_not_witnessed", requests=len(requests), error=type(error).__name__)
            with self._lock:
                self._pending = (requests + self._pending)[-PENDING_MAX:]


def find_gaps() -> int:
    """Look at the requests accepted lately, and record those that are lost. Return their number.

    A request is lost if, in two looks, its entry isn't in the stream and it is neither stored nor a dead letter.

    Raises:
        RedisError: Redis is unreachable or refused.
    """
    lost = 0
    for _ in range(PAGES_MAX):
        with database.drain() as tx:
            due = witness.due(tx, FIRST_LOOK_SECONDS, NEXT_LOOK_SECONDS)
        lost += _look(due) if due else 0
        if len(due) < witness.ROWS_MOST:
            break
    return lost


def _look(due: Sequence[Witnessed]) -> int:
    requests = [request for row in due for request in row.requests]
    edges = backlog().edges(sorted({request.tenant_id for request in requests}))
    waiting = {request.base for request in requests if _is_waiting(request, edges.get(request.tenant_id))}
    # After the streams: an entry is deleted from its stream once its memories are committed.
    with database.drain() as tx:
        settled = witness.settled(tx, [request for request in requests if request.base not in waiting])
        there = witness.take(tx, [row.witness_id for row in due])
        return _settle(tx, [row for row in due if row.witness_id in there], waiting, settled)


def _settle(tx: database.Transaction, due: Sequence[Witnessed], waiting: set[UUID], settled: set[UUID]) -> int:
    lost: dict[UUID, list[Accepted]] = defaultdict(list)
    again: list[Accepted] = []
    missed: list[Accepted] = []
    for row in due:
        for request in row.requests:
            if request.base in settled:
                continue
            if request.base in waiting:
                again.append(request)
            elif row.missed:
                lost[request.tenant_id].append(request)
            else:
                missed.append(request)
    if again:
        witness.add(tx, again, looked=True)
    if missed:
        witness.add(tx, missed, looked=True, missed=True)
    if lost:
        witness.record_gaps(tx, lost)
    for tenant_id, requests in lost.items():
        log.error("accepted_requests_lost", tenant=str(tenant_id), requests=len(requests))
    return sum(map(len, lost.values()))


def _is_waiting(request: Accepted, edges: tuple[str, str] | None) -> bool:
    """Return True unless the entry's id is outside of its stream: streams lose their ends, not entries in between."""
    if edges is None:
        return False
    first, last = map(parse_entry_id, edges)
    return first <= parse_entry_id(request.entry_id) <= last


def diagnose_queue() -> str | None:
    """Return why Redis's mark refuses it, or None if it is accepted. Marks nothing, and doesn't need to be accepted.

    Raises:
        RedisError: Redis is unreachable.
        DatabaseError: PostgreSQL is unreachable, so the expected mark is unknown.
    """
    with connect(retries=0, is_verified=False) as client:
        found = Mark.read(cast("list[bytes | None]", client.hmget(QUEUE, *QUEUE_FIELDS)))
    with database.shared() as tx:
        return diagnose(found, witness.read_expected(tx))


def list_gaps() -> list[Gap]:
    """Return the newest gaps that no operator has accepted."""
    with database.drain() as tx:
        return witness.gaps(tx, GAPS_SHOWN)


def count_lost() -> int:
    """Return the number of lost requests that no operator has accepted."""
    with database.drain() as tx:
        return witness.count_lost(tx)


def accept_queue(tenant_id: UUID, actor: str) -> None:
    """Go on with the present Redis under a new epoch, and accept the gaps found so far.

    What the former Redis hadn't drained is lost; `find_gaps` counts it from the witness.

    Args:
        tenant_id: The tenant whose audit log gets the entry.
        actor: Id of the key.
    """
    with database.tenant(tenant_id) as tx:
        audit.append(tx, tenant_id, "operator_acted", actor, details={"act": "accept_queue"})
    with database.shared() as tx:
        epoch = witness.begin_epoch(tx)
    with connect(is_verified=False) as client:
        client.hset(QUEUE, mapping={"epoch": epoch, "beat": 0})
    with database.shared() as tx:
        witness.claim(tx, epoch)
    with database.drain() as tx:
        witness.accept_gaps(tx)
