"""Find the legal holds on memories in an erasure's scope, and on memories that open erasures hide."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.legal_hold import HoldGround, Scope
from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.privacy.holds import HOLDS, scope_sql


class HoldInScope(NamedTuple):
    """A legal hold, and the number of memories in an erasure's scope that it covers."""

    hold_id: UUID
    placed_at: datetime
    memories: int
    ground: HoldGround | None = None


def holds_in(tx: Connection, tenant_id: UUID, scope: Scope) -> list[HoldInScope]:
    """Return the legal holds on memories in a scope, in order of placement."""
    statement = text(f"""
SELECT hold.hold_id, hold.placed_at, count(*), hold.ground
FROM memories AS memory JOIN holds AS hold ON hold.tenant_id = :tenant AND {HOLDS}
WHERE memory.tenant_id = :tenant AND {scope_sql(scope)}
GROUP BY hold.hold_id, hold.placed_at, hold.ground ORDER BY hold.placed_at, hold.hold_id
""")  # noqa: S608 - constants only
    return [HoldInScope(*row) for row in tx.execute(statement, {"tenant": tenant_id} | scope.conditions())]


class HeldErasure(NamedTuple):
    """Number of an erasure's hidden memories under legal hold, and the holds in order of placement."""

    memories: int
    holds: list[HoldInScope]


def find_held(tx: Connection, tenant_id: UUID, erasure_ids: Sequence[UUID]) -> dict[UUID, HeldErasure]:
    """Return the legal holds on the hidden memories of these erasures, by erasure; erasures without any are omitted."""
    held: dict[UUID, HeldErasure] = {}
    values = {"tenant": tenant_id, "ids": Uuids(erasure_ids)}
    for erasure_id, memories, *columns in driver_connection(tx).execute(_HELD, values).fetchall():
        held.setdefault(erasure_id, HeldErasure(memories, [])).holds.append(HoldInScope(*columns))
    return held


_HELD: Final = f"""
WITH pairs AS MATERIALIZED (
  SELECT hidden.erasure_id, memory.memory_id, hold.hold_id, hold.placed_at, hold.ground
  FROM hidden_memories AS hidden
  JOIN memories AS memory ON memory.tenant_id = %(tenant)s AND memory.memory_id = hidden.memory_id
  JOIN holds AS hold ON hold.tenant_id = %(tenant)s AND {HOLDS}
  WHERE hidden.tenant_id = %(tenant)s AND hidden.erasure_id = ANY (%(ids)s) AND EXISTS (
    SELECT FROM holds AS any_hold WHERE any_hold.tenant_id = %(tenant)s AND any_hold.released_at IS NULL)
)
SELECT erasure_id, (SELECT count(DISTINCT memory_id) FROM pairs AS own WHERE own.erasure_id = pairs.erasure_id),
  hold_id, placed_at, count(*), ground
FROM pairs GROUP BY erasure_id, hold_id, placed_at, ground ORDER BY erasure_id, placed_at, hold_id
"""  # noqa: S608 - constants only
