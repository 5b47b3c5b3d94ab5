"""Set reminder flags (bridges, days, months), by which a recall finds memories that share no word with the messages."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.domain.recall.bridges import read_flags
from app.services.enrichment.texts import Texts, read
from app.store.core import database
from app.store.enrichment import reminders
from app.store.enrichment.reminders import ReminderFlags


def refresh_flags(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Set the flags of these memories from their stored texts; memories in cold storage are skipped."""
    write(tx, tenant_id, list_flags(read(tx, tenant_id, memory_ids)))


def list_flags(texts: Texts) -> list[ReminderFlags]:
    """Return the flags of memories whose text or row has any, so that flags that no longer apply are cleared."""
    return [
        ReminderFlags(memory.memory_id, memory.text_version, flags)
        for memory, is_read in zip(texts.memories, texts.screened.reminders, strict=True)
        if ((flags := read_flags(memory.text) if is_read else 0) or memory.has_reminders)
    ]


def write(tx: database.Transaction, tenant_id: UUID, flags: Sequence[ReminderFlags]) -> None:
    """Set these flags; may be none."""
    if flags:
        reminders.write(tx, tenant_id, flags)
