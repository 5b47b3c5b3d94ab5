"""Detect accepted requests that Redis lost: verify Redis's identity, and track each request until it is stored.

Redis and PostgreSQL store the same mark (`app.domain.ingest.redis_identity`). A new installation writes the mark
into a Redis without a mark; afterwards, connections to a Redis without this mark are refused, so requests get a 503
until the right Redis is back, or an operator accepts the current one. Each API process also writes its accepted
requests to PostgreSQL about once a second, as witness rows. Each row is checked later: stored requests need no further
check, requests still in the stream are checked again, and requests that two checks find in neither place are recorded
as a gap. If a loss of power ends an API process and Redis together, requests accepted in the last second have no
witness row, so these checks can't detect their loss.

The mark contains a random identifier, `epoch`, and a time, `beat`. Accepted requests advance `beat` in both stores;
while no requests arrive, each API process advances it in Redis only. Without these idle beats, Redis could be refused
as an older copy after it lost its last second of data: if that second contained the first request after an hour
without requests, Redis's `beat` would be an hour older than PostgreSQL's. An API process never advances the `beat` of
an older copy, not even if it connected to this copy while PostgreSQL was unreachable.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
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
IDLE_BEAT_SECONDS: Final = 5.0
"""Interval of beats without requests.

The sum of this interval and the seconds of data lost in a power failure stays below `redis_identity.TAIL_MS`.
"""
FIRST_LOOK_SECONDS: Final = 3.0
NEXT_LOOK_SECONDS: Final = 10.0
PENDING_MAX: Final = 50_000
"""Maximum number of accepted requests that a process remembers while PostgreSQL is unreachable."""
PAGES_MAX: Final = 20
"""Maximum number of pages of witness rows in one call of `find_gaps`."""
GAPS_SHOWN: Final = 200

log = structlog.get_logger(__name__)


def check_identity(found: Mark) -> str | None:
    """Check the mark of a newly connected Redis; return the epoch to write, or None if Redis already has a mark.

    While PostgreSQL is unreachable, a Redis with any mark is accepted; the next connection compares the mark.

    Raises:
        QueueReplaced: Redis was emptied, belongs to another installation, or is an older copy; or PostgreSQL failed,
            and Redis has no mark or the error isn't transient.
    """
    try:
        with database.shared() as tx:
            expected = witness.expected(tx)
            reason = diagnose(found, expected)
            if reason is None and found.epoch is not None and not expected.is_claimed:
                witness.claim(tx, found.epoch)
    except database.DatabaseError as error:
        if found.epoch is None or not is_transient(error):
            raise QueueReplaced(f"the queue can't be verified without PostgreSQL: {type(error).__name__}") from None
        return None
    if reason is not None:
        raise QueueReplaced(reason)
    return expected.mark.epoch if found.epoch is None else None


def guard_connections() -> None:
    """Verify Redis's identity on every new connection of this process."""
    verify_connections(check_identity)


class Witness:
    """Collects the requests that this process accepts, until `write` stores them; safe to use from several threads."""

    def __init__(self) -> None:
        """Start without any requests."""
        self._pending: deque[Accepted] = deque()
        self._beat_due = 0.0

    def remember(self, tenant_id: UUID, base: bytes, memories: int, entry_id: str) -> None:
        """Remember an accepted request; part of every ingest request, so it does as little as possible."""
        self._pending.append(Accepted(tenant_id, base, memories, entry_id))

    def write(self) -> None:
        """Write the remembered requests to PostgreSQL, and advance the mark's beat in both stores.

        Without requests, advance only Redis's beat, every `IDLE_BEAT_SECONDS`; after a failure, the next call retries.
        Failures are logged if there are requests. Up to `PENDING_MAX` unwritten requests remain remembered for the next
        call.
        """
        requests = [self._pending.popleft() for _ in range(len(self._pending))]
        if not requests:
            if time.monotonic() >= self._beat_due:
                with suppress(RedisError, database.DatabaseError):  # the probes report an unreachable store
                    self._beat()
            return
        try:
            with database.drain() as tx:
                witness.add(tx, requests)
        except database.DatabaseError as error:
            log.warning("acceptance_not_witnessed", requests=len(requests), error=type(error).__name__)
            self._pending.extendleft(reversed(requests))
            for _ in range(len(self._pending) - PENDING_MAX):
                self._pending.popleft()
            return
        try:
            if (beat := self._beat()) is not None:
                with database.shared() as tx:
                    witness.advance_beat(tx, beat)
        except (RedisError, database.DatabaseError) as error:
            log.warning("beat_failed", error=type(error).__name__)

    def _beat(self) -> int | None:
        """Advance Redis's beat and return it; return None if `diagnose` would refuse this Redis."""
        with database.shared() as tx:
            expected = witness.read_expected(tx)
        beat = backlog().beat(expected.mark)
        if beat is not None:
            self._beat_due = time.monotonic() + IDLE_BEAT_SECONDS
        return beat


def find_gaps() -> int:
    """Check recently accepted requests, record lost ones as gaps, and return the number of lost requests.

    A request is lost if, in two checks, its entry isn't in the stream and the request is neither stored nor a dead
    letter.

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
    edge_ids = backlog().edges(sorted({request.tenant_id for request in requests}))
    waiting = {request.base for request in requests if _is_waiting(request, edge_ids.get(request.tenant_id))}
    # PostgreSQL is read after the streams: an entry is deleted from its stream only once its memories are committed.
    with database.drain() as tx:
        settled = witness.settled(tx, [request for request in requests if request.base not in waiting])
        taken = witness.take(tx, [row.witness_id for row in due])
        return _settle(tx, [row for row in due if row.witness_id in taken], waiting, settled)


def _settle(tx: database.Transaction, due: Sequence[Witnessed], waiting: set[bytes], settled: set[bytes]) -> int:
    lost: dict[UUID, list[Accepted]] = defaultdict(list)
    still_waiting: list[Accepted] = []
    missed_once: list[Accepted] = []
    for row in due:
        for request in row.requests:
            if request.base in settled:
                continue
            if request.base in waiting:
                still_waiting.append(request)
            elif row.missed:
                lost[request.tenant_id].append(request)
            else:
                missed_once.append(request)
    if still_waiting:
        witness.add(tx, still_waiting, looked=True)
    if missed_once:
        witness.add(tx, missed_once, looked=True, missed=True)
    if lost:
        witness.record_gaps(tx, lost)
    for tenant_id, requests in lost.items():
        log.error("accepted_requests_lost", tenant=str(tenant_id), requests=len(requests))
    return sum(map(len, lost.values()))


def _is_waiting(request: Accepted, edges: tuple[str, str] | None) -> bool:
    """Return True if the entry's id is in its stream's range.

    The range suffices: workers delete entries from a stream's start, and a loss of data removes entries at its end.
    """
    if edges is None:
        return False
    first, last = map(parse_entry_id, edges)
    return first <= parse_entry_id(request.entry_id) <= last


def diagnose_queue() -> str | None:
    """Return the reason for which this Redis is refused, or None if it is accepted; write no mark.

    Raises:
        RedisError: Redis is unreachable.
        DatabaseError: PostgreSQL is unreachable, so the expected mark is unknown.
    """
    with connect(retries=0, is_verified=False) as client:
        found = Mark.read(cast("list[bytes | None]", client.hmget(QUEUE, *QUEUE_FIELDS)))
    with database.shared() as tx:
        return diagnose(found, witness.read_expected(tx))


def list_gaps() -> list[Gap]:
    """Return the newest gaps that no operator has marked as known."""
    with database.drain() as tx:
        return witness.gaps(tx, GAPS_SHOWN)


def count_lost() -> int:
    """Return the number of lost requests in gaps that no operator has marked as known."""
    with database.drain() as tx:
        return witness.count_lost(tx)


def accept_queue(tenant_id: UUID, actor: str) -> None:
    """Accept the current Redis as the queue under a new epoch, and mark the gaps found so far as known.

    Requests that were accepted but are neither in this Redis nor in PostgreSQL are lost; `find_gaps` counts them from
    the witness rows.

    Args:
        tenant_id: The tenant whose audit log gets the entry.
        actor: Id of the operator's API key.
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
