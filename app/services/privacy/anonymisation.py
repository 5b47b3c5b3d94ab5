"""Anonymise memories retained on a legal ground before their subject is erased.

A memory under a legal hold isn't changed. Once the hold is released, it can be anonymised; otherwise it is erased with
the rest of the subject's memories.
"""

from __future__ import annotations

import os
from typing import Final
from uuid import UUID

from app.domain.ingest.memory import COLUMNS
from app.domain.ingest.roles import infer_role, speaker_name
from app.domain.privacy.anonymisation import AnonymisedMemory, RedactedSpan, anonymise_text
from app.domain.privacy.erasure import Named, digest
from app.domain.privacy.pii_detection import detect_pii
from app.errors import Unavailable
from app.services.memories import memories
from app.services.security import audit
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.store.core import database
from app.store.erasure import tombstones
from app.store.privacy import anonymisation

NO_GROUND: Final = "none was given"
_RETAINED: Final = frozenset({"text", "kind", "categories", "occurred_at", "role"})
"""Fields that identify nobody, except for the text, which is redacted; all others are cleared."""


def anonymise(tenant_id: UUID, memory_id: UUID, actor: str, ground: str | None = None) -> AnonymisedMemory:
    """Remove a memory's identifying labels, and redact detected personal data and its own names from its text.

    The speaker's role is preserved because it identifies nobody. Anonymisation can't be undone. Summaries derived from
    the memory aren't changed: they are erased with the subject.

    Args:
        memory_id: A stored memory that isn't in cold storage.
        actor: Id of the caller's key.
        ground: Legal ground for retention, listed in the report of an erasure of the memory's subject or thread.

    Returns:
        The anonymised text and the number of replacements by kind.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the queue.
        Conflict: The memory is under a legal hold or in cold storage.
    """
    found = lookup.get(tenant_id, memory_id)
    if isinstance(found, Pending):
        raise Unavailable("this memory is still in the queue", retry_after_seconds=1)
    inferred = (found.inferred or {}).get("entities") or ()
    names = [name for name in (found.subject, speaker_name(found.speaker), *found.entities, *inferred) if name]
    spans = [RedactedSpan(each.start, each.end, each.kind) for each in detect_pii(found.text)]
    done = anonymise_text(found.text, spans, names)
    emptied = {field.name: field.default for field in COLUMNS if field.name not in _RETAINED}
    role = infer_role(found.role, found.speaker)
    memories.edit_memory(tenant_id, found.memory_id, emptied | {"text": done.text, "role": role})
    with database.tenant(tenant_id) as tx:
        anonymisation.forget(tx, tenant_id, found.memory_id)
        named: dict[Named, str | None] = {"subject": found.subject, "thread": found.thread}
        key = tombstones.digest_key(tx, tenant_id, os.urandom(32))
        for what, name in named.items():
            if name is not None:
                anonymisation.count_anonymised(tx, tenant_id, digest(key, what, name), ground or NO_GROUND)
        details = {f"removed_{kind}": times for kind, times in sorted(done.removed.items())}
        audit.append(tx, tenant_id, "memory_anonymised", actor, ids=[found.memory_id], details=details)
    return done
