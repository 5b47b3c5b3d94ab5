"""Anonymise memories retained on a legal ground before their subject is erased.

A memory under a legal hold can't be anonymised until the hold is released. A memory that isn't anonymised is erased
with the subject's other memories.
"""

from __future__ import annotations

import os
from typing import Final
from uuid import UUID

from app.domain.ingest.memory import COLUMNS
from app.domain.ingest.roles import infer_role, speaker_name
from app.domain.privacy.anonymisation import AnonymisedMemory, RedactedSpan, anonymise_text
from app.domain.privacy.case_details import check_nameless
from app.domain.privacy.erasure import Named, digest
from app.domain.privacy.pii_detection import detect_pii
from app.errors import Unavailable
from app.services.memories import memories
from app.services.notes import note_erasure
from app.services.security import audit
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.store.core import database
from app.store.erasure import tombstones
from app.store.notes import notes
from app.store.privacy import anonymisation

NO_GROUND: Final = "none was given"
_RETAINED: Final = frozenset({"text", "kind", "categories", "occurred_at", "role", "source"})
"""Fields that are preserved: the text, which is redacted, and fields that identify nobody. Others are cleared."""


def anonymise(tenant_id: UUID, memory_id: UUID, actor: str, ground: str | None = None) -> AnonymisedMemory:
    """Clear a memory's identifying fields, and redact detected personal data and the memory's names from its text.

    The names are the subject, the speaker and the entities. The speaker's role is preserved because it identifies
    nobody. Anonymisation can't be undone. Summaries derived from the memory aren't changed: they are erased with the
    subject.

    Args:
        memory_id: A stored memory that isn't in cold storage.
        actor: Id of the caller's key.
        ground: Legal ground for retaining the memory, shown in the report when its subject or thread is erased.

    Returns:
        The anonymised text and the number of redactions by kind.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the queue.
        Conflict: The memory is under a legal hold or in cold storage.
        Invalid: The ground names the person.
    """
    memory = lookup.get(tenant_id, memory_id)
    if isinstance(memory, Pending):
        raise Unavailable("this memory is still in the queue", retry_after_seconds=1)
    check_nameless([name for name in (memory.subject, speaker_name(memory.speaker)) if name], ground=ground)
    inferred_entities = (memory.inferred or {}).get("entities") or ()
    names = [
        name for name in (memory.subject, speaker_name(memory.speaker), *memory.entities, *inferred_entities) if name
    ]
    spans = [RedactedSpan(finding.start, finding.end, finding.kind) for finding in detect_pii(memory.text)]
    anonymised = anonymise_text(memory.text, spans, names)
    cleared = {field.name: field.default for field in COLUMNS if field.name not in _RETAINED}
    role = infer_role(memory.role, memory.speaker)
    memories.edit_memory(tenant_id, memory.memory_id, cleared | {"text": anonymised.text, "role": role}, None)
    with database.tenant(tenant_id) as tx:
        anonymisation.forget(tx, tenant_id, memory.memory_id)
        has_note = notes.expire(tx, tenant_id, [memory.memory_id])
        labels: dict[Named, str | None] = {"subject": memory.subject, "thread": memory.thread}
        key = tombstones.digest_key(tx, tenant_id, os.urandom(32))
        for label, name in labels.items():
            if name is not None:
                anonymisation.count_anonymised(tx, tenant_id, digest(key, label, name), ground or NO_GROUND)
        details = {f"removed_{kind}": times for kind, times in sorted(anonymised.removed.items())}
        audit.append(tx, tenant_id, "memory_anonymised", actor, ids=[memory.memory_id], details=details)
    if has_note:
        note_erasure.replace_note(tenant_id, memory.memory_id)
    return anonymised
