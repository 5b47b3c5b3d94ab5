"""Read the texts of memories once for all that looks through them, and screen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain.text.screening import Screened, screen
from app.store.core import database
from app.store.enrichment import reading
from app.store.enrichment.reading import Readable


@dataclass(frozen=True, slots=True)
class Texts:
    """Memories with their texts, and which of these to read for what; row i of each array is `memories[i]`."""

    memories: list[Readable]
    screened: Screened


def read(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Texts:
    """Return these memories, except for deleted ones and those in cold storage."""
    memories = reading.read(tx, tenant_id, memory_ids)
    return Texts(memories, screen([each.text for each in memories]))
