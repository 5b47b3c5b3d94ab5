"""Set the kinds that callers give to memories; a memory's kind determines how fast it decays."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.ingest.memory import KINDS, Kind


def set_kinds(tx: Connection, tenant_id: UUID, kinds: Mapping[UUID, Kind]) -> None:
    """Set the memory kinds that determine how fast the memories decay."""
    if kinds:
        numbers = [KINDS.index(kind) for kind in kinds.values()]
        tx.execute(_SET_KINDS, {"tenant": tenant_id, "memory_ids": list(kinds), "places": numbers})


_SET_KINDS = text("""
UPDATE memory_state AS state SET kind = given.place
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:places AS smallint[])) AS given (memory_id, place)
WHERE state.tenant_id = :tenant AND state.memory_id = given.memory_id AND state.kind <> given.place
""")
