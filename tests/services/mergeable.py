"""A tenant with groups of near-duplicate memories, and helpers that consolidate them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from app.domain.policy.policy import Policy
from app.services.consolidation import consolidation_run, summary_refresh
from app.services.enrichment import index, stage_runner
from app.store.enrichment.work_queue import NIL
from tests.service import Service
from tests.services import archived_memories
from tests.waiting import PATIENCE_SECONDS

BOATS = tuple(f"the {colour} boat lies in the harbour and waits for rain" for colour in ("red", "blue", "old", "new"))
LIKE = (*BOATS, "the boat lies in the harbour and waits for the rain", "a boat lies in the harbour, waiting for rain")
STATE = "to_jsonb(s) - 'next_due_at'"


class Alike:
    """A tenant with groups of memories that say nearly the same thing."""

    def __init__(self, service: Service, policy: Policy | None = None, tenant_id: UUID | None = None) -> None:
        self.service = service
        self.tenant_id = tenant_id or service.tenant(policy).tenant_id

    def remember(self, *texts: str, days: float = 20, salience: float = 0.1, **more: Any) -> list[UUID]:
        """Store backdated memories, run every enrichment stage and sweep them."""
        ids = archived_memories.remember(
            self.service, self.tenant_id, *({"text": text, **more} for text in texts), days=days
        )
        archived_memories.fade(self.service, ids, days)
        self.service.rows(
            "UPDATE memory_state SET salience = %s, accessed_at = now() - interval '1 hour', "
            "anchored_at = now() - interval '1 hour' WHERE memory_id = ANY (%s)",
            salience,
            ids,
        )
        index.index_memories(self.tenant_id, ids)  # the indexed words include the date
        archived_memories.swept(self.tenant_id)
        return sorted(ids)

    def run(self, as_of: datetime | None = None, **more: Any) -> Counter[str]:
        """Complete a manually started consolidation run, and return its counts."""
        state: dict[str, Any] = {}
        counts: Counter[str] = Counter()
        while True:
            step = consolidation_run.run_slice(self.tenant_id, as_of, state, time.monotonic(), by_hand=True, **more)
            counts.update(step.counts)
            state = step.state
            if step.finished:
                self.settle()
                return +counts

    def rederive(self) -> Counter[str]:
        """Regenerate stale summaries."""
        counts, after = summary_refresh.run_slice(self.tenant_id, None, NIL, time.monotonic() + PATIENCE_SECONDS)
        assert after is None
        self.settle()
        return counts

    def settle(self) -> None:
        """Index and embed the queued memories."""
        stage_runner.run_index_stage()
        stage_runner.embed()

    def tiers(self, ids: Sequence[UUID]) -> list[str]:
        return archived_memories.tiers(self.service, ids)

    def summaries(self) -> list[UUID]:
        """Return the ids of the existing summaries."""
        found = self.service.rows("SELECT memory_id FROM memories WHERE made_by = 'consolidation' ORDER BY memory_id")
        return [memory_id for (memory_id,) in found]

    def merges(self) -> list[tuple[Any, ...]]:
        """Return action, status and number of sources of each merge."""
        return self.service.rows("SELECT action, status, sources FROM merges ORDER BY created_at, action, status")

    def merge_id(self) -> UUID:
        """Return the id of the only merge."""
        found: UUID = self.service.one("SELECT merge_id FROM merges")
        return found

    def again(self) -> None:
        """Reset the consolidation marks, so that the next run considers every memory."""
        self.service.rows("DELETE FROM consolidation_marks")

    def whole(self, ids: Sequence[UUID]) -> dict[str, list[Any]]:
        """Return all rows about these memories, except their history and next due date."""
        tables = {
            "memories": "*",
            "memory_words": "*",
            "archived_memories": "memory_id, vector",
            "embeddings": "memory_id, text_version, by_caller, embedding",
            "links": "*",
        }
        found = {
            table: self.service.rows(
                f"SELECT {columns} FROM {table} WHERE memory_id = ANY (%s) ORDER BY memory_id",  # noqa: S608 - constants
                list(ids),
            )
            for table, columns in tables.items()
        }
        statement = f"SELECT {STATE} FROM memory_state AS s WHERE memory_id = ANY (%s) ORDER BY memory_id"  # noqa: S608
        return found | {"state": self.service.rows(statement, list(ids))}

    def check(self) -> None:
        """Assert that each memory is in its tier's indexes only, and that word and tenant counts are correct."""
        found = self.service.rows("SELECT memory_id FROM memories WHERE deleted_at IS NULL")
        archived_memories.check(self.service, [memory_id for (memory_id,) in found])


@pytest.fixture
def alike(service: Service) -> Alike:
    return Alike(service)
