"""Remove hidden memories from the indexes, and from the context of their neighbours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from app import queues
from app.domain.jobs import Job, Step
from app.store.core import database
from app.store.embedding import embeddings
from app.store.enrichment import word_index, work_queue
from app.store.enrichment.work_queue import NIL
from app.store.erasure import hidden_memories

ROWS: Final = 500
STEP_SECONDS: Final = 2.0


def run_hide_slice(job: Job) -> Step:
    """Remove hidden memories from the indexes and from their neighbours' context, for a few seconds."""
    erasure_id, after = UUID(job.parameters["erasure_id"]), UUID(job.state.get("after", str(NIL)))
    until, processed = time.monotonic() + STEP_SECONDS, 0
    while True:
        with database.tenant(job.tenant_id) as tx:
            ids = hidden_memories.page_hidden(tx, job.tenant_id, erasure_id, after, ROWS)
            if ids:
                take_out(tx, job.tenant_id, ids)
        processed += len(ids)
        if not ids:
            queues.nudge(queues.EMBED_MEMORIES)
            return Step(processed, {}, finished=True)
        after = ids[-1]
        if time.monotonic() >= until:
            return Step(processed, {"after": str(after)}, finished=False)


def take_out(tx: database.Transaction, tenant_id: UUID, ids: Sequence[UUID]) -> None:
    """Remove hidden memories from the indexes, and queue neighbours with these memories in context for embedding."""
    hidden_memories.save_vectors(tx, tenant_id, ids)
    neighbours = embeddings.remove(tx, tenant_id, ids)
    word_index.remove(tx, tenant_id, ids)
    work_queue.add(tx, [work_queue.EMBED], tenant_id, sorted(neighbours.difference(ids)))
