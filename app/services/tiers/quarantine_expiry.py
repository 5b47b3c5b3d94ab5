"""Delete memories in quarantine whose retention period has ended.

They are in no tier, so sweeps don't mark them for deletion: the night examines them page by page.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

import numpy as np

from app import metrics
from app.domain.privacy.retention import CONVERSATION
from app.services.storage.memory_write import memory_write, refresh_summaries
from app.services.strength import memory_strength
from app.store.consolidation import merges
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.erasure import requests
from app.store.privacy import quarantines
from app.store.tiers import protections

ROWS: Final = 500
PAGES_MAX: Final = 10_000
"""Maximum number of pages in a call; the next night examines the rest."""


def expire_quarantined(tenant_id: UUID, as_of: datetime) -> int:
    """Delete the expired memories in quarantine that no legal hold covers; return their number.

    A summary in quarantine is deleted with its sources if all of them have expired; other summaries are rewritten.
    """
    deleted, after = 0, NIL
    for _ in range(PAGES_MAX):
        with database.tenant(tenant_id) as tx:
            ids = quarantines.page_all_hidden(tx, tenant_id, after, ROWS)
        if not ids:
            break
        deleted += _expire_page(tenant_id, ids, as_of)
        after = ids[-1]
    metrics.count("expired_memories", deleted)
    return deleted


def _expire_page(tenant_id: UUID, ids: list[UUID], as_of: datetime) -> int:
    with memory_write(tenant_id, "tier", "expire.before_commit") as write:
        tx = write.tx
        locked = requests.lock_rows(tx, tenant_id, ids)
        hidden = quarantines.filter_hidden(tx, tenant_id, locked)
        still = [memory_id for memory_id in locked if memory_id in hidden]
        rules = memory_strength.load_timeline(tx, tenant_id).at(as_of.timestamp()).policy.rules
        facts = protections.read(tx, tenant_id, still, rules)
        is_due = (facts.expiry.at <= as_of.timestamp()) & (facts.expiry.category != CONVERSATION) & ~facts.is_held
        expired = [still[place] for place in np.flatnonzero(is_due)]
        if not expired:
            return 0
        summaries = _list_bare_summaries(tx, tenant_id, expired)
        refresh_summaries(tx, tenant_id, expired)
        requests.lock_rows(tx, tenant_id, summaries)
        gone = sorted({*expired, *summaries})
        write.delete(gone, {("expired", "category"): len(expired), ("expired", "source_expired"): len(summaries)})
        write.audit("memories_expired", ids=gone, details={"rule": "expiry", "summaries": len(summaries)})
    return len(gone)


def _list_bare_summaries(tx: database.Transaction, tenant_id: UUID, expired: list[UUID]) -> list[UUID]:
    """Return the summaries in quarantine all of whose sources have expired."""
    summaries = merges.list_summaries(tx, tenant_id, expired)
    in_quarantine = quarantines.filter_hidden(tx, tenant_id, summaries)
    sources = merges.list_sources(tx, tenant_id, sorted(in_quarantine))
    return [summary for summary in sorted(in_quarantine) if set(sources.get(summary, ())) <= set(expired)]
