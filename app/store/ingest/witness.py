"""Store the queue's identity, the requests accepted lately, and the gaps: requests that were accepted and then lost."""

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
"""Maximum number of witness rows read at once; each has the requests of one process in about a second."""


class Accepted(NamedTuple):
    """An accepted request: its stream entry is `<milliseconds>-<sequence>`, with the same time as its acceptance."""

    tenant_id: UUID
    base: UUID
    memories: int
    entry_id: str


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A witness row; `missed` is True if a former look didn't find all of its requests."""

    witness_id: int
    missed: bool
    requests: list[Accepted]


@dataclass(frozen=True, slots=True)
class Gap:
    """Requests of a tenant that were accepted between two times and lost."""

    tenant_id: UUID
    tenant: str
    found_at: datetime
    requests: int
    memories: int
    first_at: datetime
    last_at: datetime


def expected(tx: Connection) -> Expected:
    """Return the mark that Redis should have; a new installation gets an epoch that isn't claimed yet."""
    found = read_expected(tx)
    if found.mark.epoch is None:
        tx.execute(_BEGIN, {"epoch": uuid4()})
        found = read_expected(tx)
    return found


def read_expected(tx: Connection) -> Expected:
    """Return the mark that Redis should have, without an epoch in a new installation."""
    found = tx.execute(_EXPECTED).one_or_none()
    if found is None:
        return Expected(Mark(None, 0), is_claimed=False)
    return Expected(Mark(str(found.epoch), found.beat), found.is_claimed)


_EXPECTED = text("SELECT epoch, beat, claimed_at IS NOT NULL AS is_claimed FROM queue_identity")
_BEGIN = text("INSERT INTO queue_identity (epoch) VALUES (:epoch) ON CONFLICT DO NOTHING")


def claim(tx: Connection, epoch: str) -> None:
    """Record that Redis has the epoch."""
    tx.execute(text("UPDATE queue_identity SET claimed_at = now() WHERE epoch = :epoch"), {"epoch": UUID(epoch)})


def begin_epoch(tx: Connection) -> str:
    """Replace the epoch, as yet unclaimed, and forget the beat. Return the new epoch."""
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
    """Advance the time of the last witnessed acceptance."""
    tx.execute(text("UPDATE queue_identity SET beat = greatest(beat, :beat)"), {"beat": beat})


def add(tx: Connection, requests: Sequence[Accepted], *, looked: bool = False, missed: bool = False) -> None:
    """Insert one witness row; `tx` is a transaction of `ebbing_drain`, as for all functions below.

    Args:
        looked: The requests have just been looked at.
        missed: They weren't found.
    """
    values = {
        "looked": looked,
        "missed": missed,
        "tenant_ids": Uuids([each.tenant_id for each in requests]),
        "bases": Uuids([each.base for each in requests]),
        "memories": Integers([each.memories for each in requests]),
        "entry_ids": [each.entry_id for each in requests],
    }
    driver_connection(tx).execute(_ADD, values)


_ADD: Final = """
INSERT INTO accepted_requests (missed, looked_at, tenant_ids, bases, memories, entry_ids)
VALUES (%(missed)s, CASE WHEN %(looked)s THEN now() END, %(tenant_ids)s, %(bases)s, %(memories)s, %(entry_ids)s)
"""


def due(tx: Connection, after_seconds: float, again_seconds: float) -> list[Witnessed]:
    """Return the oldest witness rows to look at.

    Args:
        after_seconds: Age of a row before the first look.
        again_seconds: Time between two looks.
    """
    values = {"after": after_seconds, "again": again_seconds, "most": ROWS_MOST}
    return [
        Witnessed(
            row.witness_id,
            row.missed,
            list(map(Accepted, row.tenant_ids, row.bases, row.memories, row.entry_ids)),
        )
        for row in tx.execute(_DUE, values)
    ]


_DUE = text("""
SELECT witness_id, missed, tenant_ids, bases, memories, entry_ids FROM accepted_requests
WHERE coalesce(looked_at + make_interval(secs => :again), accepted_at + make_interval(secs => :after)) <= now()
ORDER BY witness_id LIMIT :most
""")


def take(tx: Connection, witness_ids: Sequence[int]) -> set[int]:
    """Delete witness rows. Return those that were there: another process may have taken the others."""
    rows = tx.execute(
        text("DELETE FROM accepted_requests WHERE witness_id = ANY (:ids) RETURNING witness_id"),
        {"ids": list(witness_ids)},
    )
    return set(rows.scalars())


def settled(tx: Connection, requests: Sequence[Accepted]) -> set[UUID]:
    """Return the bases of requests that are stored, are dead letters, or whose tenant no longer exists."""
    values = {"tenant_ids": [each.tenant_id for each in requests], "bases": [each.base for each in requests]}
    return set(tx.execute(_SETTLED, values).scalars())


_SETTLED = text("""
SELECT given.base
FROM unnest(CAST(:tenant_ids AS uuid[]), CAST(:bases AS uuid[])) AS given (tenant_id, base)
WHERE EXISTS (SELECT FROM envelopes AS known WHERE known.tenant_id = given.tenant_id AND known.base = given.base)
  OR EXISTS (SELECT FROM dead_letters AS letter WHERE letter.tenant_id = given.tenant_id AND letter.stage = 'drain'
    AND substring(letter.header FROM 3 FOR 16) = uuid_send(given.base))
  OR NOT EXISTS (SELECT FROM tenants WHERE tenants.tenant_id = given.tenant_id)
""")


def record_gaps(tx: Connection, lost: Mapping[UUID, Sequence[Accepted]]) -> None:
    """Insert a gap per tenant."""
    tx.execute(
        _GAPS,
        [
            {
                "tenant": tenant_id,
                "requests": len(requests),
                "memories": sum(each.memories for each in requests),
                "first": min(_accepted_ms(each) for each in requests) / 1000,
                "last": max(_accepted_ms(each) for each in requests) / 1000,
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
