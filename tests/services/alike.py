"""Memories that belong together, and consolidating them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from app.domain.policy.policy import Policy
from app.services.consolidation import consolidate, rederiving
from app.services.enrichment import enrichment, index
from app.store.enrichment.work import NIL
from tests.service import Service
from tests.services import attic
from tests.waiting import PATIENCE_SECONDS

BOATS = tuple(f"the {colour} boat lies in the harbour and waits for rain" for colour in ("red", "blue", "old", "new"))
LIKE = (*BOATS, "the boat lies in the harbour and waits for the rain", "a boat lies in the harbour, waiting for rain")
STATE = "to_jsonb(s) - 'next_due_at'"


class Alike:
    """A tenant with groups of memories that say nearly the same."""

    def __init__(self, service: Service, policy: Policy | None = None, tenant_id: UUID | None = None) -> None:
        self.service = service
        self.tenant_id = tenant_id or service.tenant(policy).tenant_id

    def remember(self, *texts: str, days: float = 20, salience: float = 0.1, **more: Any) -> list[UUID]:
        """Memories of some days ago, seen through all stages, and swept."""
        ids = attic.remember(self.service, self.tenant_id, *({"text": text, **more} for text in texts), days=days)
        attic.fade(self.service, ids, days)
        self.service.rows(
            "UPDATE memory_state SET salience = %s, accessed_at = now() - interval '1 hour', "
            "anchored_at = now() - interval '1 hour' WHERE memory_id = ANY (%s)",
            salience,
            ids,
        )
        index.index(self.tenant_id, ids)  # their words have dates
        attic.swept(self.tenant_id)
        return sorted(ids)

    def run(self, as_of: datetime | None = None, **more: Any) -> Counter[str]:
        """A whole run by hand. Returns its counts."""
        state: dict[str, Any] = {}
        counts: Counter[str] = Counter()
        while True:
            step = consolidate.carry_on(self.tenant_id, as_of, state, time.monotonic(), by_hand=True, **more)
            counts.update(step.counts)
            state = step.state
            if step.finished:
                self.settle()
                return +counts

    def rederive(self) -> Counter[str]:
        """What is stale is made again."""
        counts, after = rederiving.carry_on(self.tenant_id, None, NIL, time.monotonic() + PATIENCE_SECONDS)
        assert after is None
        self.settle()
        return counts

    def settle(self) -> None:
        """What was queued is indexed and embedded."""
        enrichment.index()
        enrichment.embed()

    def tiers(self, ids: Sequence[UUID]) -> list[str]:
        return attic.tiers(self.service, ids)

    def summaries(self) -> list[UUID]:
        """Ids of the summaries that are there."""
        found = self.service.rows("SELECT memory_id FROM memories WHERE made_by = 'consolidation' ORDER BY memory_id")
        return [memory_id for (memory_id,) in found]

    def merges(self) -> list[tuple[Any, ...]]:
        """Action, status and number of sources."""
        return self.service.rows("SELECT action, status, sources FROM merges ORDER BY created_at, action, status")

    def merge_id(self) -> UUID:
        """Of the only one."""
        found: UUID = self.service.one("SELECT merge_id FROM merges")
        return found

    def again(self) -> None:
        """Let a run look at everything once more."""
        self.service.rows("DELETE FROM consolidation_marks")

    def whole(self, ids: Sequence[UUID]) -> dict[str, list[Any]]:
        """All there is of memories, apart from what happened to them and when they are looked at next."""
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
        """Each memory is in the indexes of its tier alone, words are counted right, and so are the tenant's numbers."""
        found = self.service.rows("SELECT memory_id FROM memories WHERE deleted_at IS NULL")
        attic.check(self.service, [memory_id for (memory_id,) in found])


@pytest.fixture
def alike(service: Service) -> Alike:
    return Alike(service)
