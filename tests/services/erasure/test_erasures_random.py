"""Erasures, cancellations, edits, holds and summaries in random order: matching memories stay hidden."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app.domain.ingest.ids import last_seq
from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.sources import Writer
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict, Invalid, NotFound
from app.services.consolidation import supersession
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories
from app.services.privacy import legal_holds
from app.store.core import database
from app.store.erasure.requests import Erasure, open_scopes
from app.store.memories import tenant_counts
from app.store.privacy.holds import scope_sql
from tests.service import Service
from tests.services.due_deletions import UNFINISHED, erased, worked
from tests.services.mergeable import BOATS, Alike
from tests.variants import variants

STEPS = 30
PEOPLE, THREADS = ("ann", "bob"), ("harbour", "quay")
SEEN = "SELECT memory_id FROM memories WHERE deleted_at IS NULL ORDER BY memory_id"
SUPERSEDING_UNSEEN = """
SELECT s.memory_id, s.superseded_id FROM supersessions AS s WHERE status = 'active' AND EXISTS (
  SELECT FROM memories AS m WHERE m.memory_id IN (s.memory_id, s.superseded_id) AND deleted_at IS NOT NULL)
"""
SAYING_UNSEEN = """
SELECT summary_id, hidden.memory_id FROM merges JOIN lineage USING (tenant_id, merge_id)
JOIN hidden_memories AS hidden USING (tenant_id, memory_id)
JOIN memories AS summary ON summary.memory_id = summary_id
WHERE part = 'source' AND summary.deleted_at IS NULL AND NOT is_stale
"""


class Harbour(Alike):
    """Memories of two people, some of them summarised, and random operations on them."""

    def __init__(self, service: Service, chance: random.Random) -> None:
        super().__init__(service)
        self.chance = chance
        self.holds: list[UUID] = []
        for whom in PEOPLE:
            texts = (f"{boat} with {whom}" for boat in BOATS)
            self.remember(*texts, days=40, subject=whom, thread=chance.choice(THREADS))
        self.run()
        self.ways: tuple[Callable[[], object], ...] = (
            *(
                self.erase,
                self.erase,
                self.cancel,
                self.cancel,
                self.send,
                self.send,
                self.edit,
                self.delete,
            ),
            *(self.place, self.release, self.supersede, self.supersede, self.rederive, lambda: worked(service)),
        )

    def some(self, most: int = 1) -> list[UUID]:
        seen = [memory_id for (memory_id,) in self.service.rows(SEEN)]
        if len(seen) < most:
            raise NotFound("none is left")
        return self.chance.sample(seen, most)

    def scope(self) -> Scope:
        kind = self.chance.randrange(4)
        if kind == 0:
            return Scope(memory_ids=self.some(2))
        whom = self.chance.choice(PEOPLE) if kind != 1 else None
        return Scope(subject=whom, thread=self.chance.choice(THREADS) if kind != 2 else None)

    def erase(self) -> None:
        asked = ErasureOptions(self.scope(), "gdpr", self.chance.choice((0, 7, 7)))
        requests.request(self.tenant_id, asked, "key")

    def open(self) -> list[Erasure]:
        with database.tenant(self.tenant_id) as tx:
            return open_scopes(tx, self.tenant_id)

    def cancel(self) -> None:
        waiting = [each for each in self.open() if each.status == "grace"]
        if waiting:
            requests.cancel(self.tenant_id, self.chance.choice(waiting).erasure_id, "key")

    def send(self) -> None:
        reported: dict[str, Any] = {"text": f"{self.chance.choice(BOATS)} again", "subject": self.chance.choice(PEOPLE)}
        reported |= {"thread": self.chance.choice(THREADS), "supersedes": list(map(str, self.some()))}
        if self.chance.random() < 0.4:
            reported |= {"external_id": self.chance.choice(("one", "two"))}
        self.service.send(self.tenant_id, reported)
        self.service.work()

    def edit(self) -> None:
        patches = (MemoryPatch(subject=self.chance.choice(PEOPLE)), MemoryPatch(thread=self.chance.choice(THREADS)))
        patch = self.chance.choice((*patches, MemoryPatch(text="a boat has left")))
        memories.edit_memory(self.tenant_id, self.some()[0], patch)

    def delete(self) -> None:
        memories.delete(self.tenant_id, self.some()[0])

    def place(self) -> None:
        if len(self.holds) < 2:
            self.holds.append(legal_holds.place_hold(self.tenant_id, self.scope(), "court", "key").hold_id)

    def release(self) -> None:
        if self.holds:
            legal_holds.release_hold(self.tenant_id, self.holds.pop(), "key")

    def supersede(self) -> None:
        newer, older = self.some(2)
        supersession.make_supersession(self.tenant_id, str(newer), str(older), Writer("key", "unknown"))

    def check(self) -> None:
        """Assert that no visible memory matches an open erasure or derives from a hidden one."""
        for each in self.open():
            statement = text(f"""
SELECT memory_id FROM memories AS memory
WHERE tenant_id = :tenant AND deleted_at IS NULL AND seq <= :last_seq AND {scope_sql(each.scope)}
""")  # noqa: S608 - constants alone
            values = {"tenant": self.tenant_id, "last_seq": last_seq(each.cut) if each.cut else 2**62}
            with database.tenant(self.tenant_id) as tx:
                assert tx.execute(statement, values | each.scope.conditions()).scalars().all() == []
        assert self.service.rows(SUPERSEDING_UNSEEN) == []
        assert self.service.rows(SAYING_UNSEEN) == []
        with database.tenant(self.tenant_id) as tx:
            assert tenant_counts.measure_drift(tx, self.tenant_id) == tenant_counts.NONE


@pytest.mark.parametrize("seed", variants({str(seed): seed for seed in range(3)}, {"0"}))
def test_in_any_order_nothing_hidden_is_seen_and_all_comes_to_an_end(service: Service, seed: int) -> None:
    harbour = Harbour(service, random.Random(seed))
    for _ in range(STEPS):
        with suppress(Conflict, Invalid, NotFound):
            harbour.chance.choice(harbour.ways)()
        harbour.check()
    while harbour.holds:
        harbour.release()
    worked(service, UNFINISHED)
    erased(harbour.tenant_id)
    worked(service, UNFINISHED)
    harbour.rederive()
    harbour.check()
    assert harbour.open() == []
    assert service.one("SELECT count(*) FROM hidden_memories") == 0
    assert service.one("SELECT count(*) FROM hidden_supersessions") == 0
    assert service.rows("SELECT kind, error FROM jobs WHERE status = 'failed'") == []
