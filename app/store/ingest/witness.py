"""Store the queue's identity, recently accepted requests (witness rows), and gaps (requests accepted and then lost)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from sqlalchemy import Connection, text

from app.domain.ingest.ids import parse_entry_id
from app.domain.ingest.redis_identity import Expected, Mark
from app.store.core.binary_arrays import Integers, Uuids, driver_connection

ROWS_MOST: Final = 100
"""Maximum number of witness rows read at once; a row contains the requests that a process accepts in about 1 second."""


class Accepted(NamedTuple):
    """An accepted request; its stream id, `<milliseconds>-<sequence>`, begins with the time of acceptance."""

    tenant_id: UUID
    base: bytes
    memories: int
    entry_id: str


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A witness row; `missed` is True if an earlier check found its requests neither in the stream nor stored."""

    witness_id: int
    missed: bool
    requests: list[Accepted]


@dataclass(frozen=True, slots=True)
class Gap:
    """Requests of a tenant that were accepted between `first_at` and `last_at` and then lost."""

    tenant_id: UUID
    tenant: str
    found_at: datetime
    requests: int
    memories: int
    first_at: datetime
    last_at: datetime


def expected(tx: Connection) -> Expected:
    """Return the mark that Redis should have; in a new installation, create an unclaimed epoch."""
    identity = read_expected(tx)
    if identity.mark.epoch is None:
        tx.execute(_BEGIN, {"epoch": uuid4()})
        identity = read_expected(tx)
    return identity


def read_expected(tx: Connection) -> Expected:
    """Return the mark that Redis should have; its epoch is None in a new installation."""
    row = tx.execute(_EXPECTED).one_or_none()
    if row is None:
        return Expected(Mark(None, 0), is_claimed=False)
    return Expected(Mark(str(row.epoch), row.beat), row.is_claimed)


_EXPECTED = text("SELECT epoch, beat, claimed_at IS NOT NULL AS is_claimed FROM queue_identity")
_BEGIN = text("INSERT INTO queue_identity (epoch) VALUES (:epoch) ON CONFLICT DO NOTHING")


def claim(tx: Connection, epoch: str) -> None:
    """Record that Redis contains this epoch."""
    tx.execute(text("UPDATE queue_identity SET claimed_at = now() WHERE epoch = :epoch"), {"epoch": UUID(epoch)})


def begin_epoch(tx: Connection) -> str:
    """Replace the epoch with a new, unclaimed epoch and reset the beat to 0. Return the new epoch."""
    epoch = uuid4()
    values = {"epoch": epoch}
    tx.execute(
        text("""
        INSERT INTO queue_identity (epoch) VALUES (:epoch)
        ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch, beat = 0, claimed_at = NULL
        """),
        values,
    )
    return str(epoch)


def advance_beat(tx: Connection, beat: int) -> None:
    """Advance the beat (time of the last witnessed acceptance, in milliseconds since 1970) to at least this value."""
    tx.execute(text("UPDATE queue_identity SET beat = greatest(beat, :beat)"), {"beat": beat})


def add(tx: Connection, requests: Sequence[Accepted], *, looked: bool = False, missed: bool = False) -> None:
    """Insert one witness row with these requests.

    Args:
        tx: A transaction of the role `ebbing_drain`, as for all functions below.
        looked: The requests have just been checked.
        missed: The check found the requests neither in the stream nor stored.
    """
    values = {
        "looked": looked,
        "missed": missed,
        "tenant_ids": Uuids([request.tenant_id for request in requests]),
        "bases": Uuids(b"".join(request.base for request in requests)),
        "memories": Integers([request.memories for request in requests]),
        "entry_ids": ",".join(request.entry_id for request in requests),  # packing 4,000 strings takes 3 ms
    }
    driver_connection(tx).execute(_ADD, values)


_ADD: Final = """
INSERT INTO accepted_requests (missed, looked_at, tenant_ids, bases, memories, entry_ids)
VALUES (%(missed)s, CASE WHEN %(looked)s THEN now() END, %(tenant_ids)s, %(bases)s, %(memories)s,
  string_to_array(%(entry_ids)s, ','))
"""


def due(tx: Connection, after_seconds: float, again_seconds: float) -> list[Witnessed]:
    """Return the oldest witness rows that are due for a check, at most `ROWS_MOST`.

    Args:
        after_seconds: Minimum age of a row for the first check.
        again_seconds: Minimum time between two checks.
    """
    values = {"after": after_seconds, "again": again_seconds, "most": ROWS_MOST}
    return [
        Witnessed(
            row.witness_id,
            row.missed,
            list(map(Accepted, row.tenant_ids, [base.bytes for base in row.bases], row.memories, row.entry_ids)),
        )
        for row in tx.execute(_DUE, values)
    ]


_DUE = text("""
SELECT witness_id, missed, tenant_ids, bases, memories, entry_ids FROM accepted_requests
WHERE coalesce(looked_at + make_interval(secs => :again), accepted_at + make_interval(secs => :after)) <= now()
ORDER BY witness_id LIMIT :most
""")


def take(tx: Connection, witness_ids: Sequence[int]) -> set[int]:
    """Delete witness rows. Return the ids that still existed; another process may have deleted the others."""
    rows = tx.execute(
        text("DELETE FROM accepted_requests WHERE witness_id = ANY (:ids) RETURNING witness_id"),
        {"ids": list(witness_ids)},
    )
    return set(rows.scalars())


def settled(tx: Connection, requests: Sequence[Accepted]) -> set[bytes]:
    """Return the bases of requests that are stored, are dead letters, or belong to a tenant that no longer exists."""
    values = {
        "tenant_ids": Uuids([request.tenant_id for request in requests]),
        "bases": Uuids(b"".join(request.base for request in requests)),
    }
    return {base.bytes for (base,) in driver_connection(tx).execute(_SETTLED, values)}


_SETTLED: Final = """
SELECT given.base
FROM unnest(%(tenant_ids)s::uuid[], %(bases)s::uuid[]) AS given (tenant_id, base)
WHERE EXISTS (SELECT FROM envelopes AS known WHERE known.tenant_id = given.tenant_id AND known.base = given.base)
  OR EXISTS (SELECT FROM dead_letters AS letter WHERE letter.tenant_id = given.tenant_id AND letter.stage = 'drain'
    AND substring(letter.header FROM 3 FOR 16) = uuid_send(given.base))
  OR NOT EXISTS (SELECT FROM tenants WHERE tenants.tenant_id = given.tenant_id)
"""


def record_gaps(tx: Connection, lost: Mapping[UUID, Sequence[Accepted]]) -> None:
    """Insert a gap per tenant.

    Args:
        lost: The lost requests by tenant, at least one each.
    """
    tx.execute(
        _GAPS,
        [
            {
                "tenant": tenant_id,
                "requests": len(requests),
                "memories": sum(request.memories for request in requests),
                "first": min(_accepted_ms(request) for request in requests) / 1000,
                "last": max(_accepted_ms(request) for request in requests) / 1000,
            }
            for tenant_id, requests in lost.items()
        ],
    )


_GAPS = text("""
INSERT INTO queue_gaps (tenant_id, found_at, requests, memories, first_at, last_at)
VALUES (:tenant, clock_timestamp(), :requests, :memories, to_timestamp(:first), to_timestamp(:last))
""")


def _accepted_ms(request: Accepted) -> int:
    return parse_entry_id(request.entry_id)[0]


def gaps(tx: Connection, limit: int) -> list[Gap]:
    """Return the gaps that no operator has accepted, newest first."""
    return [Gap(*row) for row in tx.execute(_LIST, {"limit": limit})]


_LIST = text("""
SELECT tenant_id, tenants.name, found_at, requests, memories, first_at, last_at
FROM queue_gaps JOIN tenants USING (tenant_id)
WHERE noticed_at IS NULL ORDER BY found_at DESC, tenant_id LIMIT :limit
""")


def count_lost(tx: Connection) -> int:
    """Return the number of lost requests in gaps that no operator has accepted."""
    return int(
        tx.execute(text("SELECT coalesce(sum(requests), 0) FROM queue_gaps WHERE noticed_at IS NULL")).scalar_one()
    )


def accept_gaps(tx: Connection) -> None:
    """Mark all gaps as accepted by an operator."""
    tx.execute(text("UPDATE queue_gaps SET noticed_at = now() WHERE noticed_at IS NULL"))
