"""Faded memories, and helpers that archive them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from app.domain.ingest import uses
from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.uses import Touches
from app.domain.jobs import Step
from app.domain.search.request import SearchRequest, SearchResult, Tier
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.services.enrichment import stage_runner
from app.services.memories import memories
from app.services.search.search import search
from app.services.strength import memory_strength
from app.services.tiers import archive, sweep
from app.services.uses import reinforcement
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.embedding.embedding_spaces import Space
from app.store.strength import states
from tests.service import Service, Tenant
from tests.waiting import PATIENCE_SECONDS

Way = Callable[[Service, Tenant, UUID], None]
"""An action on one memory."""

LONG_AGO_DAYS = 20
"""Long enough to be archived, too short for cold storage."""


def remember(service: Service, tenant_id: UUID, *memories: str | dict[str, Any], days: float = 0) -> list[UUID]:
    """Store memories under ids from this many days ago, and run every enrichment stage."""
    ids = service.send(tenant_id, *memories, days=days)
    service.work()
    return ids


def fade(service: Service, ids: Sequence[UUID], days: float = LONG_AGO_DAYS) -> None:
    """Backdate the acceptance and use of memories."""
    service.rows(
        "UPDATE memory_state SET created_at = created_at - d, accessed_at = accessed_at - d, "
        "anchored_at = anchored_at - d, restored_at = restored_at - d, next_due_at = '-infinity', "
        "salience = 0.1, keep_chance = 0.05, kind = 0 "
        "FROM make_interval(secs => %s) AS d WHERE memory_id = ANY (%s)",
        days * 86_400,
        list(ids),
    )
    service.rows(
        "UPDATE memories SET created_at = created_at - make_interval(secs => %s) WHERE memory_id = ANY (%s)",
        days * 86_400,
        list(ids),
    )


def archive_all(tenant_id: UUID) -> tuple[Counter[str], list[str]]:
    """Complete an archive job; return its counts and its notes."""
    counts, notes = Counter[str](), list[str]()
    state: dict[str, Any] = {}
    while True:
        done: Step = archive.run_slice(tenant_id, None, state, time.monotonic() + PATIENCE_SECONDS)
        counts.update(done.counts)
        notes += done.notes
        state = done.state
        if done.finished:
            return counts, notes


def tiers(service: Service, ids: Sequence[UUID]) -> list[str]:
    """Return the tier of each memory, in the order of `ids`."""
    found = dict(service.rows("SELECT memory_id, tier FROM memory_state WHERE memory_id = ANY (%s)", list(ids)))
    return [found[memory_id] for memory_id in ids]


def search_tiers(tenant_id: UUID, query: str, *among: Tier, **more: Any) -> list[SearchResult]:
    """Return the results of a search in these tiers, best first."""
    return search(tenant_id, SearchRequest(query, tiers=among or ("active",), explain=True, **more))


def embed(service: Service) -> None:
    """Index and embed the queued memories."""
    stage_runner.run_index_stage()
    stage_runner.embed()


def swept(tenant_id: UUID) -> None:
    """Sweep until nothing is due, so that movers find the memories."""
    while sweep.sweep(tenant_id)[0]:
        pass


def act_on(tenant_id: UUID, memory_id: UUID, act: str) -> None:
    """Edit, delete or use a memory."""
    if act == "edit":
        memories.edit_memory(tenant_id, memory_id, MemoryPatch(text="another boat"))
    elif act == "delete":
        memories.delete(tenant_id, memory_id)
    else:
        reinforcement.touch_memory(tenant_id, memory_id, used(memory_id))


def used(memory_id: UUID) -> Touches:
    """Return a touch request with one use of the memory, now."""
    return uses.parse_touch(b"{}", UUID(int=0), memory_id)


def check(service: Service, ids: Sequence[UUID]) -> None:
    """Assert that each memory is in its tier's indexes only, and that the word counts are correct."""
    by_tier = list(zip(ids, tiers(service, ids), strict=True))
    active, archived = ({memory_id for memory_id, tier in by_tier if tier == wanted} for wanted in DECAY_TIERS[:2])
    hidden = service.rows("SELECT memory_id FROM hidden_memories WHERE tier = 'archived'")
    kept = archived | {memory_id for (memory_id,) in hidden}
    for table, expected in (("memory_words", active), ("embeddings", active), ("archived_memories", kept)):
        rows = service.rows(f"SELECT memory_id FROM {table}")  # noqa: S608 - constants
        assert {memory_id for (memory_id,) in rows} == expected, table
    said = service.rows("SELECT word, count(*) FROM memory_words, unnest(tsvector_to_array(own)) AS word GROUP BY word")
    total = {"": len(active)} if active else {}
    assert dict(service.rows("SELECT word, documents FROM words")) == dict(said) | total


def strength(tenant_id: UUID, memory_id: UUID) -> float:
    """Return the current strength of a memory."""
    with database.tenant(tenant_id) as tx:
        held = states.read(tx, tenant_id, [memory_id])
        now = database.now(tx).timestamp()
        return float(memory_strength.load_timeline(tx, tenant_id).at(now).dynamics.strength(held.state, now)[0])


def space_of(tenant_id: UUID) -> Space:
    """Return the embedding space in which the tenant is searched."""
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    assert there is not None
    return there.searched
