"""Where memories are kept, and what speaks for or against them: holds, labels, grace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from app.domain.lifecycle import Standing
from app.domain.memory import KINDS
from app.domain.protection import Protection
from app.domain.tiers import DECAY_TIERS
from app.store.holds import HOLDS
from app.store.packed import Uuids, driver, moments, numbers

# Looked up row by row: without statistics of a tenant, a join would loop over all pairs.
_READ: Final = f"""
SELECT
  string_agg(int2send((array_position(%(tiers)s::text[], coalesce(state.tier, 'deleted')) - 1)::int2), ''),
  string_agg(int2send((coalesce(array_position(%(kinds)s::text[], memory.kind), 0) - 1)::int2), ''),
  string_agg(timestamptz_send(coalesce(memory.created_at, 'infinity')), ''),
  string_agg(timestamptz_send(coalesce(state.restored_at, '-infinity')), ''),
  string_agg(int2send(is_held::int::int2), ''),
  string_agg(int2send(is_marked::int::int2), '')
FROM (SELECT id FROM unnest(%(ids)s) AS id ORDER BY id) AS wanted
LEFT JOIN LATERAL (
  SELECT tier, restored_at FROM memory_state WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0
) AS state ON true
LEFT JOIN LATERAL (
  SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0
) AS memory ON true
CROSS JOIN LATERAL (
  SELECT EXISTS (
    SELECT FROM holds AS hold
    WHERE hold.tenant_id = %(tenant)s AND {HOLDS}
  ) AS is_held
) AS hold
CROSS JOIN LATERAL (
  SELECT (memory.tags && %(marks)s::text[] OR memory.categories && %(marked_as)s::text[]) IS TRUE AS is_marked
) AS mark
"""  # noqa: S608 - constants alone


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], protection: Protection) -> Standing:
    """The standing of memories, given in ascending order of their ids, and answered in it; gone ones are `deleted`."""
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "tiers": list(DECAY_TIERS),
        "kinds": list(KINDS),
        "marks": list(protection.never_forget_tags),
        "marked_as": list(protection.never_forget_categories),
    }
    row = driver(tx).execute(_READ, values, binary=True).fetchone()
    tiers, kinds, accepted, restored, held, marked = row or (None,) * 6
    count = len(memory_ids)
    return Standing(
        tiers=numbers(tiers, ">i2").astype(np.int8),
        kinds=numbers(kinds, ">i2").astype(np.int8),
        accepted_at=moments(accepted),
        restored_at=moments(restored),
        expires_at=np.full(count, np.inf),
        erase_at=np.full(count, np.inf),
        is_held=numbers(held, ">i2") > 0,
        is_marked=numbers(marked, ">i2") > 0,
    )
