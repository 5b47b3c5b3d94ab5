"""Index memories by their words, so that search finds them before any model has run.

The same transaction stores the personal data, reminders and corrections that are detected in the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.domain.policy.policy import Policy
from app.services.enrichment import corrections, pii_scan, texts
from app.store.core import database
from app.store.enrichment import complete_texts, word_index


def index_memories(tenant_id: UUID, ids: Sequence[UUID], policy: Policy | None = None) -> int:
    """Index these memories, and add their words to the context of their neighbours in the thread.

    The call is idempotent. Deleted and inactive memories are skipped.

    Returns:
        The number of memories indexed.
    """
    policy = policy or Policy()
    with database.tenant(tenant_id) as tx:
        read = texts.read(tx, tenant_id, ids)
        scanned = pii_scan.scan(read, policy)
        examined = corrections.examine_memories(ids, read, policy)
        if written := scanned.memory_ids.union(examined.to_mark):
            complete_texts.lock_rows(tx, tenant_id, written)
            pii_scan.store(tx, tenant_id, scanned)
            corrections.mark(tx, tenant_id, examined)
        indexed = word_index.index_words(tx, tenant_id, ids, policy.language, policy.time_zone)
        corrections.link_corrections(tx, tenant_id, examined)
        return indexed
