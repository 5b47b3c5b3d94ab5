"""Index memories by their words, so that search finds them before any model has run.

What is personal in them is found by the way, and what they correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.domain.policy.policy import Policy
from app.services.enrichment import corrections, personal, texts
from app.store.core import database
from app.store.enrichment import words


def index(tenant_id: UUID, ids: Sequence[UUID], policy: Policy | None = None) -> int:
    """Index these memories, and give their neighbours in the thread their words as context.

    Runs as often as one likes; deleted memories are passed over.

    Returns:
        How many of the memories are there.
    """
    policy = policy or Policy()
    with database.tenant(tenant_id) as tx:
        read = texts.read(tx, tenant_id, ids)
        personal.note(tx, tenant_id, read, policy)
        examined = corrections.examine(tx, tenant_id, ids, read, policy)
        done = words.index(tx, tenant_id, ids, policy.language, policy.time_zone)
        corrections.link(tx, tenant_id, examined)
        return done
