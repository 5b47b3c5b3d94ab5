"""Read when memories were accepted and first used, to learn how fast they should fade."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from app.domain.dynamics import state
from app.domain.dynamics.rate_fit import USES_MAX, Observed
from app.store.core.binary_arrays import Integers, Uuids, decode_moments, decode_numbers, driver_connection


class Cohort(NamedTuple):
    """The memories to observe: of these kinds, accepted in a period, and none that could have been deleted since.

    Attributes:
        kinds: Indices in `ingest.memory.KINDS`.
        since: Start of the period of acceptance, inclusive.
        until: Its end, exclusive, which is also the end of observation.
        deletable_before: Earliest acceptance of memories that were too young to be deleted.
        kept_chance: Older memories are included only if their keep chance is at least this: decay doesn't delete those.
        kept_salience: The same for memories without a keep chance, or if `kept_chance` is None.
    """

    kinds: Sequence[int]
    since: datetime
    until: datetime
    deletable_before: datetime
    kept_chance: float | None
    kept_salience: float


def read(tx: Connection, tenant_id: UUID, cohort: Cohort, limit: int) -> Observed:
    """Return about `limit` of a cohort's memories at most, drawn by a hash of the id, with their first uses.

    Observation ends when a memory first leaves the active tier, or another memory supersedes it.
    """
    connection = driver_connection(tx)
    values = {"tenant": tenant_id, **cohort._asdict(), "kinds": Integers(np.asarray(cohort.kinds))}
    [count] = connection.execute(_COUNT, values).fetchone() or (0,)
    values["one_in"] = -(-count // limit) or 1
    sent = connection.execute(_MEMORIES, values, binary=True).fetchone() or (None,) * 9
    ids, kinds, saliences, multipliers, paces, created, accepted, left, superseded = sent
    decoded = [decode_moments(column) for column in (created, accepted, left, superseded)]
    until = np.minimum(np.minimum(decoded[2], decoded[3]), cohort.until.timestamp())
    fresh = state.new(
        decoded[0],
        salience=decode_numbers(saliences, ">f4"),
        kind=decode_numbers(kinds, ">i2").astype(np.int64),
        multiplier=decode_numbers(multipliers, ">f4"),
        pace=decode_numbers(paces, ">f4"),
    )
    values = {"tenant": tenant_id, "ids": _packed(ids), "until": cohort.until, "uses": USES_MAX}
    places, at = connection.execute(_USES, values, binary=True).fetchone() or (None, None)
    rows = decode_numbers(places, ">i8").astype(np.intp) - 1
    return Observed(fresh, decoded[1], until, rows, decode_moments(at))


def _packed(ids: bytes | None) -> Uuids:
    sent = ids or b""
    return Uuids([UUID(bytes=sent[start : start + 16]) for start in range(0, len(sent), 16)])


_COHORT: Final = """
memory_state AS state JOIN memories AS memory ON memory.tenant_id = %(tenant)s AND memory.memory_id = state.memory_id
WHERE state.tenant_id = %(tenant)s AND state.kind = ANY (%(kinds)s)
  AND memory.created_at >= %(since)s AND memory.created_at < %(until)s
  AND memory.deleted_at IS NULL AND memory.made_by = 'caller'
  AND (memory.created_at >= %(deletable_before)s OR coalesce(
    state.keep_chance >= %(kept_chance)s::float8, coalesce(state.salience, 0) >= %(kept_salience)s::float8))
"""
_COUNT: Final = f"SELECT count(*) FROM {_COHORT}"  # noqa: S608 - constants
_SENT: Final = ", ".join(
    f"string_agg({sent}, '' ORDER BY memory_id)"
    for sent in (
        *("uuid_send(memory_id)", "int2send(kind)", "float4send(coalesce(salience, 0))", "float4send(multiplier)"),
        *("float4send(pace)", "timestamptz_send(created_at)", "timestamptz_send(accepted_at)"),
        *("timestamptz_send(left_at)", "timestamptz_send(superseded_at)"),
    )
)
_CHOSEN: Final = f"""
SELECT state.memory_id, state.kind, state.salience, state.multiplier, state.pace, state.created_at,
  memory.created_at AS accepted_at,
  coalesce(
    (SELECT min(event.at) FROM memory_events AS event
      WHERE event.tenant_id = %(tenant)s AND event.memory_id = state.memory_id AND event.kind = 'tier'),
    CASE WHEN state.tier = 'active' THEN 'infinity' ELSE memory.created_at END) AS left_at,
  coalesce(
    (SELECT min(coalesce(later.decided_at, later.made_at)) FROM supersessions AS later
      WHERE later.tenant_id = %(tenant)s AND later.superseded_id = state.memory_id AND later.status = 'active'),
    'infinity') AS superseded_at
FROM {_COHORT} AND mod(uuid_hash_extended(state.memory_id, 0), %(one_in)s::bigint) = 0
"""  # noqa: S608 - constants
_MEMORIES: Final = f"SELECT {_SENT} FROM ({_CHOSEN}) AS chosen"  # noqa: S608 - constants
_USES: Final = """
SELECT string_agg(int8send(place), '' ORDER BY place, at), string_agg(timestamptz_send(at), '' ORDER BY place, at)
FROM unnest(%(ids)s) WITH ORDINALITY AS given (memory_id, place)
CROSS JOIN LATERAL (
  SELECT event.at FROM memory_events AS event
  WHERE event.tenant_id = %(tenant)s AND event.memory_id = given.memory_id
    AND event.kind IN ('use', 'late_use') AND event.at < %(until)s
  ORDER BY event.at LIMIT %(uses)s
) AS used
"""
