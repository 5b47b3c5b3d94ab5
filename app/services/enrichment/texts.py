"""Read memories' texts once for all scans, and select the texts that each scan needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain.text.screening import ScreenedTexts, screen_texts
from app.store.core import database
from app.store.enrichment import complete_texts
from app.store.enrichment.complete_texts import CompleteText


@dataclass(frozen=True, slots=True)
class Texts:
    """Memories and the scans that their texts need; element i of each array in `screened` refers to `memories[i]`."""

    memories: list[CompleteText]
    screened: ScreenedTexts


def read(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Texts:
    """Return the screened texts of these memories, without deleted and cold ones."""
    memories = complete_texts.read(tx, tenant_id, memory_ids)
    return Texts(memories, screen_texts([memory.text for memory in memories]))
