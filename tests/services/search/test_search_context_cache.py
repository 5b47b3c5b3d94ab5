"""Policies and spaces cached by a search, and changes made by other processes."""

from __future__ import annotations

import math
from datetime import timedelta
from uuid import uuid4

import pytest

from app.domain.policy.policy import Policy
from app.services.search import search_context_cache
from app.store.core import database
from app.store.search import search_context
from app.store.search.search_context import SearchContext
from app.store.tenants import policies
from tests.services.stored_memories import Shelf, shelf

__all__ = ["shelf"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[SearchContext]:
    """The circumstances read from the database, in the order of the reads."""
    found: list[SearchContext] = []
    read = search_context.read

    def noted(*given: object) -> SearchContext:
        found.append(read(*given))  # type: ignore[arg-type]  # handed on as given
        return found[-1]

    monkeypatch.setattr(search_context, "read", noted)
    return found


def test_circumstances_are_read_once(shelf: Shelf, reads: list[SearchContext]) -> None:
    shelf.put("tea", "Ann likes green tea")
    shelf.index()
    shelf.embed()
    search_context_cache.forget(shelf.tenant_id)
    assert shelf.search_ids("green tea") == shelf.search_ids("green tea") == ["tea"]
    assert len(reads) == 1


def test_the_next_search_follows_a_policy_that_another_process_has_written(
    shelf: Shelf, reads: list[SearchContext]
) -> None:
    shelf.put("tea", "Ann likes green tea")
    shelf.index()
    shelf.embed()
    [first] = shelf.search("green tea", explain=True)
    # Simulates a write by another process, of which this process isn't notified.
    written = Policy().model_copy(update={"ranking": Policy().ranking.model_copy(update={"words": 0.9})})
    with shelf.transaction() as tx:
        policies.add(tx, shelf.tenant_id, 2, written)
    reads.clear()
    [second] = shelf.search("green tea", explain=True)
    assert first.explain is not None
    assert second.explain is not None
    assert second.explain["words"] == pytest.approx(0.9 / Policy().ranking.words * first.explain["words"])
    assert len(reads) == 1, "the cached circumstances are outdated"


@pytest.mark.parametrize("minutes", [-30, 30])
def test_the_databases_clock_decides_which_policy_is_in_force(shelf: Shelf, minutes: int) -> None:
    """The process's clock is an hour off: behind after the machine was suspended, or ahead of a corrected database."""
    shelf.put("tea", "Ann likes green tea")
    shelf.index()
    shelf.embed()
    before = shelf.search("green tea", explain=True)[0].explain
    written = Policy().model_copy(update={"ranking": Policy().ranking.model_copy(update={"words": 0.9})})
    with shelf.transaction() as tx:
        policies.add(tx, shelf.tenant_id, 2, written, database.now(tx) + timedelta(minutes=minutes))
    expected = 0.9 / Policy().ranking.words if minutes < 0 else 1.0
    for _ in range(2):
        shelf.search("green tea")
        read_at, found = search_context_cache._known[shelf.tenant_id]
        search_context_cache._known[shelf.tenant_id] = (
            read_at,
            found._replace(now=found.now + math.copysign(3600, minutes)),
        )
        after = shelf.search("green tea", explain=True)[0].explain
        assert before is not None
        assert after is not None
        assert after["words"] == pytest.approx(expected * before["words"])


def test_a_tenant_without_memories_is_looked_at_again(shelf: Shelf) -> None:
    assert shelf.search_ids("green tea") == []
    shelf.put("tea", "Ann likes green tea")
    shelf.index()
    shelf.embed()
    assert shelf.search_ids("verdant beverage") == ["tea"], "found by the newly assigned space"


def test_what_is_remembered_stays_bounded(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_context_cache, "TENANTS_MAX", 2)
    tenants = [shelf.tenant_id, *(uuid4() for _ in range(4))]
    for tenant_id in tenants:
        with database.tenant(tenant_id) as tx:
            search_context_cache.read(tx, tenant_id)
    assert len(search_context_cache._known) <= 2
