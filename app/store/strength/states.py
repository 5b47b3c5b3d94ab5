"""Read and write rows of `memory_state`, the inputs of strength, as arrays in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

from app.domain.dynamics.state import Row, State, take
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.store.core.binary_arrays import (
    Doubles,
    Integers,
    Timestamps,
    Uuids,
    decode_moments,
    decode_uuids,
    driver_connection,
)

# Wire format by column name: PostgreSQL's send expression and the NumPy type of its result.
_FORMS: Final = {
    "kind": ("int2send(kind)", ">i2"),
    "salience": ("float4send(coalesce(salience, 0))", ">f4"),
    "multiplier": ("float4send(multiplier)", ">f4"),
    "pace": ("float4send(pace)", ">f4"),
    "access_count": ("int4send(access_count)", ">i4"),
    "level": ("float8send(level)", ">f8"),
    "retrieval": ("float8send(retrieval)", ">f8"),
    "stability": ("float8send(stability)", ">f8"),
}
_MOMENT: Final = ">i8"
_STATE: Final = {
    field.name: _FORMS.get(field.name, (f"timestamptz_send({field.name})", _MOMENT)) for field in fields(Row)
}
_TIERS: Final = ", ".join(f"'{tier}'" for tier in DECAY_TIERS)
_SENT: Final = {
    "id": ("uuid_send(memory_id)", "V16"),
    "is_scored": ("int2send((salience IS NOT NULL)::int::int2)", ">i2"),
    "version": ("int4send(policy_version)", ">i4"),
    "wanted_tier": (f"int4send(array_position(ARRAY[{_TIERS}], wanted_tier) - 1)", ">i4"),
    "next_due_at": ("timestamptz_send(next_due_at)", _MOMENT),
    **_STATE,
}
_RECORD: Final = np.dtype([(name, form) for name, (_, form) in _SENT.items()])

RECORD: Final = " || ".join(sent for sent, _ in _SENT.values())
"""SQL for a row of `memory_state` as bytes; `decode_states` decodes a concatenation of such records."""


@dataclass(frozen=True, slots=True)
class StoredStates:
    """Memories and their stored state; every array has shape (n,) in the order of `ids`.

    Attributes:
        ids: In the order read: ascending, except for records passed to `decode_states`.
        state: The inputs of strength; a missing salience counts as 0.
        is_scored: The memory has a salience from any source.
        versions: The policy version under which each row is anchored.
        wanted_tiers: The target tier according to the last evaluation, as an index in `DECAY_TIERS`.
        next_due_at: Seconds since 1970; minus infinity if the next sweep must compute it.
    """

    ids: list[UUID]
    state: State
    is_scored: npt.NDArray[np.bool_]
    versions: npt.NDArray[np.int64]
    wanted_tiers: npt.NDArray[np.int8]
    next_due_at: npt.NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of memories."""
        return len(self.ids)

    def only(self, places: npt.NDArray[np.intp]) -> StoredStates:
        """Return the entries at these indexes."""
        return StoredStates(
            [self.ids[place] for place in places],
            take(self.state, places),
            self.is_scored[places],
            self.versions[places],
            self.wanted_tiers[places],
            self.next_due_at[places],
        )


class StateColumns(NamedTuple):
    """The inputs of strength without a UUID object per id, for passes over very many memories.

    Attributes:
        ids: 16 bytes each, in ascending order.
        state: As in `StoredStates`.
        versions: As in `StoredStates`.
    """

    ids: bytes
    state: State
    versions: npt.NDArray[np.int64]


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> StoredStates:
    """Return the states of these memories; deleted and unknown memories are omitted."""
    return fetch_states(tx, _READ, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


def read_unnamed(tx: Connection, tenant_id: UUID, memory_ids: bytes) -> StateColumns:
    """Return the states of memories like `read`; ids are passed and returned as 16 bytes each."""
    rows = _records(_sent(tx, _READ, {"tenant": tenant_id, "ids": Uuids(memory_ids)}))
    return StateColumns(rows["id"].tobytes(), _state(rows), rows["version"].astype(np.int64))


def lock(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> StoredStates:
    """Return the states of memories like `read`, and lock their rows in id order until the transaction ends."""
    return fetch_states(tx, _LOCK, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


def lock_due(tx: Connection, tenant_id: UUID, as_of: float, version: int, limit: int) -> StoredStates:
    """Lock and return the `limit` longest overdue memories: those whose `next_due_at` has passed, in id order.

    Rows locked by another transaction are skipped. Rows that were used after `as_of`, or are anchored under a later
    policy version, are skipped too, so that a later state isn't overwritten.

    Args:
        as_of: Seconds since 1970.
        version: The policy version in force at that time.
    """
    return fetch_states(tx, _LOCK_DUE, {"tenant": tenant_id, "as_of": as_of, "version": version, "limit": limit})


def lock_older(tx: Connection, tenant_id: UUID, version: int, after: UUID, limit: int) -> StoredStates:
    """Lock and return a page of memories anchored under an older policy, by id; deleted ones are omitted."""
    values = {"tenant": tenant_id, "version": version, "after": after, "limit": limit}
    return fetch_states(tx, _LOCK_OLDER, values)


def lock_unmoved(tx: Connection, tenant_id: UUID, tier: str, limit: int) -> StoredStates:
    """Lock memories of this tier whose wanted tier differs, together with their rows in `memories`.

    Rows locked by another transaction are skipped.
    """
    return fetch_states(tx, _LOCK_UNMOVED, {"tenant": tenant_id, "tier": tier, "limit": limit})


def list_page(
    tx: Connection, tenant_id: UUID, after: UUID, limit: int, subject: str | None = None, one_in: int = 1
) -> StoredStates:
    """Return a page of a tenant's memories by id, optionally of one subject; deleted ones are omitted.

    If `one_in` is greater than 1 and no subject is given, take the page from a sample of about 1 / `one_in` of the
    memories. The sample is stable, because it is drawn by a hash of the id.
    """
    values = {"tenant": tenant_id, "after": after, "limit": limit, "subject": subject, "one_in": one_in}
    return fetch_states(
        tx, _PAGE_OF_SUBJECT if subject is not None else _PAGE if one_in == 1 else _PAGE_OF_SOME, values
    )


def decode_states(records: bytes, ids: list[UUID] | None = None) -> StoredStates:
    """Decode the memories of concatenated `RECORD`s, in their order.

    Args:
        records: The bytes received.
        ids: The ids of these memories if the caller has them already, which saves time.
    """
    rows = _records(records)
    return StoredStates(
        decode_uuids(rows["id"].tobytes()) if ids is None else ids,
        _state(rows),
        rows["is_scored"] > 0,
        rows["version"].astype(np.int64),
        rows["wanted_tier"].astype(np.int8),
        decode_moments(rows["next_due_at"].tobytes()),
    )


def fetch_states(tx: Connection, asked: str, values: dict[str, Any]) -> StoredStates:
    """Run a query built by `build_select` and decode its memories."""
    return decode_states(_sent(tx, asked, values))


def _sent(tx: Connection, statement: str, values: dict[str, Any]) -> bytes:
    row = driver_connection(tx).execute(statement, values, binary=True).fetchone()
    return (row and row[0]) or b""


def _records(sent: bytes) -> npt.NDArray[np.void]:
    return np.frombuffer(sent, _RECORD)


def _state(rows: npt.NDArray[np.void]) -> State:
    return Row(
        **{
            name: decode_moments(rows[name].tobytes()) if form == _MOMENT else rows[name].astype(np.float64)
            for name, (_, form) in _STATE.items()
        }
    )


# Skip memories that are being edited: an edit locks the row in `memories` first and then waits for the state's row.
_FREE: Final = """EXISTS (
      SELECT FROM memories AS memory WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = memory_state.memory_id
      FOR UPDATE SKIP LOCKED)"""
# A condition on the row's own column: after waiting for the row's lock, PostgreSQL re-evaluates it on the new version.
ALIVE: Final = "tier <> 'deleted'"


def build_select(where: str, sort: str = "") -> str:
    """Build SQL for the rows that `where` selects (conditions, order, limit, lock); `sort` orders the result."""
    return f"""
SELECT string_agg({RECORD}, '')
FROM (
  SELECT * FROM (SELECT * FROM memory_state WHERE tenant_id = %(tenant)s AND {where}) AS chosen {sort}
) AS found
"""  # noqa: S608 - constants only


_READ: Final = build_select(f"memory_id = ANY (%(ids)s) AND {ALIVE} ORDER BY memory_id")
_LOCK: Final = build_select(f"memory_id = ANY (%(ids)s) AND {ALIVE} ORDER BY memory_id FOR UPDATE")
DUE: Final = "next_due_at <= to_timestamp(%(as_of)s) AND next_due_at < 'infinity'"
NOT_AHEAD: Final = "anchored_at <= to_timestamp(%(as_of)s) AND policy_version <= %(version)s"
# The planner has no statistics for a sum. With statistics it would expect few rows and read the whole table per page.
OLDER: Final = "policy_version + 0 < %(version)s"
_PAGE: Final = build_select(f"memory_id > %(after)s AND {ALIVE} ORDER BY memory_id LIMIT %(limit)s")
_PAGE_OF_SOME: Final = build_select(
    f"memory_id > %(after)s AND {ALIVE} AND mod(uuid_hash_extended(memory_id, 0), %(one_in)s::bigint) = 0 "
    "ORDER BY memory_id LIMIT %(limit)s"
)
_PAGE_OF_SUBJECT: Final = build_select("""memory_id > %(after)s AND EXISTS (
      SELECT FROM memories AS memory WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = memory_state.memory_id
        AND memory.subject = %(subject)s AND memory.deleted_at IS NULL) ORDER BY memory_id LIMIT %(limit)s""")
_LOCK_DUE: Final = build_select(
    f"{ALIVE} AND {DUE} AND {NOT_AHEAD} ORDER BY next_due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED",
    "ORDER BY memory_id",
)
_LOCK_UNMOVED: Final = build_select(
    f"wanted_tier <> tier AND tier = %(tier)s AND {ALIVE} AND {_FREE} "
    "ORDER BY memory_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED"
)
_LOCK_OLDER: Final = build_select(
    f"memory_id > %(after)s AND {ALIVE} AND {OLDER} ORDER BY memory_id LIMIT %(limit)s FOR UPDATE"
)


class EvaluationResults(NamedTuple):
    """Results of evaluating memories, shape (n,).

    Attributes:
        wanted_tiers: Target tiers, as indexes in `DECAY_TIERS`.
        next_due_at: Time of the next evaluation in seconds since 1970; infinity for never.
    """

    wanted_tiers: npt.NDArray[np.integer[Any]]
    next_due_at: npt.NDArray[np.float64]

    def only(self, places: npt.NDArray[np.intp]) -> EvaluationResults:
        """Return the entries at these indexes."""
        return EvaluationResults(self.wanted_tiers[places], self.next_due_at[places])


def write_anchors(
    tx: Connection,
    tenant_id: UUID,
    held: StoredStates,
    version: int,
    next_due_at: npt.NDArray[np.float64] | None = None,
    wanted_tiers: npt.NDArray[np.integer[Any]] | None = None,
) -> None:
    """Write the anchors of locked rows: the state from which decay is computed under this policy version.

    Args:
        held: The rows with their new states; inputs such as salience aren't written.
        version: The policy version.
        next_due_at: Seconds since 1970; None leaves the computation to the next sweep.
        wanted_tiers: Target tiers, as indexes in `DECAY_TIERS`; None leaves them unchanged.
    """
    if not held.ids:
        return
    values = _anchors(tenant_id, held, version) | {
        "tiers": Integers(held.wanted_tiers if wanted_tiers is None else wanted_tiers),
        "due": Timestamps(np.full(len(held), -np.inf) if next_due_at is None else next_due_at),
        "names": list(DECAY_TIERS),
    }
    driver_connection(tx).execute(_WRITE_ANCHORS, values)


_LEVEL_MAX: Final = 1e9
"""Limit of the column `level`. Only decay rates of thousands a day reach it, after years, when strength is about 0."""


def _anchors(tenant_id: UUID, held: StoredStates, version: int) -> dict[str, Any]:
    """Return the parameters common to all writes of anchors."""
    state = held.state
    return {
        "tenant": tenant_id,
        "version": version,
        "ids": Uuids(held.ids),
        "anchored": Timestamps(state.anchored_at),
        "level": Doubles(np.clip(state.level, -_LEVEL_MAX, _LEVEL_MAX)),
        "retrieval": Doubles(state.retrieval),
        "stability": Doubles(state.stability),
    }


_WRITE_ANCHORS: Final = """
UPDATE memory_state AS state SET anchored_at = given.anchored_at, level = given.level, retrieval = given.retrieval,
  stability = given.stability, policy_version = %(version)s,
  wanted_tier = (%(names)s::text[])[given.tier + 1], next_due_at = given.next_due_at
FROM unnest(%(ids)s, %(anchored)s, %(level)s, %(retrieval)s, %(stability)s, %(tiers)s, %(due)s)
  AS given (memory_id, anchored_at, level, retrieval, stability, tier, next_due_at)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = given.memory_id
"""


def write_uses(
    tx: Connection,
    tenant_id: UUID,
    held: StoredStates,
    version: int,
    *,
    look_again: npt.NDArray[np.bool_],
    elsewhere: npt.NDArray[np.integer[Any]] | None = None,
) -> None:
    """Write locked rows after uses: counts, times and multipliers in addition to the anchors.

    A use normally postpones the next event, so `next_due_at` isn't written: the stored time remains a lower bound, and
    its index isn't updated on every use.

    Args:
        held: The rows with their new states.
        version: The policy version under which they are anchored.
        look_again: True for rows to make due for the next sweep; shape (n,).
        elsewhere: Number of cross-domain uses per row, shape (n,); None means 0.
    """
    if not held.ids:
        return
    state = held.state
    values = _anchors(tenant_id, held, version) | {
        "uses": Integers(state.access_count),
        "multiplier": Doubles(state.multiplier),
        "accessed": Timestamps(state.accessed_at),
        "elsewhere": Integers(np.zeros(len(held)) if elsewhere is None else elsewhere),
        "again": Integers(look_again),
    }
    driver_connection(tx).execute(_WRITE_USES, values)


_WRITE_USES: Final = """
UPDATE memory_state AS state SET access_count = given.uses, multiplier = given.multiplier,
  accessed_at = given.accessed_at, anchored_at = given.anchored_at, level = given.level,
  retrieval = given.retrieval, stability = given.stability, policy_version = %(version)s,
  cross_domain_count = state.cross_domain_count + given.elsewhere,
  next_due_at = CASE WHEN given.again = 1 THEN '-infinity' ELSE state.next_due_at END
FROM unnest(%(ids)s, %(uses)s, %(multiplier)s, %(accessed)s, %(anchored)s, %(level)s, %(retrieval)s, %(stability)s,
  %(elsewhere)s, %(again)s)
  AS given (memory_id, uses, multiplier, accessed_at, anchored_at, level, retrieval, stability, elsewhere, again)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = given.memory_id
"""


def write_looks(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], looks: EvaluationResults) -> None:
    """Write the results of evaluating locked rows whose anchors don't change."""
    if not memory_ids:
        return
    values = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "tiers": Integers(looks.wanted_tiers),
        "due": Timestamps(looks.next_due_at),
        "names": list(DECAY_TIERS),
    }
    driver_connection(tx).execute(_WRITE_LOOKS, values)


_WRITE_LOOKS: Final = """
UPDATE memory_state AS state SET wanted_tier = (%(names)s::text[])[given.tier + 1], next_due_at = given.next_due_at
FROM unnest(%(ids)s, %(tiers)s, %(due)s) AS given (memory_id, tier, next_due_at)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = given.memory_id
"""
