"""Importance with the conversation or the query as its context, in recalls and searches (seed 004 §1.4, §1.5)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.policy.policy import Policy
from app.domain.policy.policy_diff import amend_policy
from app.domain.recall.request import RecallRequest
from app.domain.search.request import SearchRequest, Weights
from app.services.memories import live_numbers
from app.services.recall.recall import recall_memories
from app.services.search.search import search
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from tests.service import Service, Tenant

ASKED = "Is Orla allergic to walnuts?"
TEXTS = {
    "near": ("Orla is allergic to walnuts", 0.35),
    "far": ("Orla bought walnuts for the cake on Sunday", 0.55),
}
OPEN = {"relevance_above": 0.0, "relevance_above_for_questions": 0.0}


class Shelf:
    """A tenant with a memory close to the question and a more salient one that is less close."""

    def __init__(self, service: Service) -> None:
        self.tenant: Tenant = service.tenant()
        fields = [{"text": text, "salience": salience} for text, salience in TEXTS.values()]
        self.ids: dict[UUID, str] = dict(zip(service.send(self.tenant.tenant_id, *fields), TEXTS, strict=True))
        service.work()

    def set(self, preset: str | None = None, **changes: Any) -> None:
        policy_versions.write_change(self.tenant.tenant_id, RequestedChange(changes, preset))

    def recall(self, **more: Any) -> list[Any]:
        return recall_memories(self.tenant.tenant_id, RecallRequest([ASKED], explain=True, **more)).memories

    def recalled(self, **more: Any) -> list[str]:
        return [self.ids[each.id] for each in self.recall(**more)]

    def search(self, **weights: float) -> list[Any]:
        request = SearchRequest(ASKED, explain=True, reinforce=False, weights=Weights(**weights) if weights else None)
        return search(self.tenant.tenant_id, request)

    def searched(self, **weights: float) -> list[str]:
        return [self.ids[each.id] for each in self.search(**weights)]


@pytest.fixture
def shelf(service: Service) -> Shelf:
    shelf = Shelf(service)
    shelf.set(recall=OPEN)
    return shelf


def test_a_recall_is_ordered_by_relevance_or_by_importance(shelf: Shelf) -> None:
    """Seed 004 §1.5: by importance, salience counts most, unless the context counts as much (`context_aware`)."""
    assert shelf.recalled() == ["near", "far"]
    shelf.set(recall={"by": "importance"})
    assert shelf.recalled() == ["far", "near"]
    assert shelf.recalled(limit=1) == ["far"]
    shelf.set("context_aware")
    assert shelf.recalled() == ["near", "far"]
    shelf.set("content_heavy", recall={"by": "importance"})
    assert shelf.recalled() == ["far", "near"]


def test_the_four_factors_are_explained(shelf: Shelf) -> None:
    """Seed 004 §1.5: importance is w1·recency + w2·frequency + w3·salience + w4·relevance."""
    for found in (shelf.recall(), shelf.search()):
        assert len(found) == 2
        for each in found:
            why = each.explain["importance"]
            factors = [why[name] for name in ("recency", "frequency", "salience", "relevance")]
            assert why["in_context"] == pytest.approx(
                sum(w * x for w, x in zip((0.25, 0.2, 0.35, 0.2), factors, strict=True))
            )
            assert why["salience"] == pytest.approx(TEXTS[shelf.ids[each.id]][1])
            assert all(0 <= factor <= 1 for factor in factors)
        near, far = (
            ({shelf.ids[each.id]: each.explain["importance"]["relevance"] for each in found})["near"],
            ({shelf.ids[each.id]: each.explain["importance"]["relevance"] for each in found})["far"],
        )
        assert near > far > 0.5


def test_a_search_uses_the_querys_context_where_the_policy_says_so(shelf: Shelf) -> None:
    """Seed 004 §1.4: the factor `importance` is context-free by default, and in context under `context_aware`."""

    def factors() -> dict[str, float]:
        return {shelf.ids[each.id]: each.explain["factors"]["importance"] for each in shelf.search(importance=1)}

    plain = factors()
    assert plain["far"] > plain["near"]
    shelf.set("context_aware")
    aware = factors()
    assert aware["near"] > aware["far"]
    for each in shelf.search(importance=1):
        assert each.explain["factors"]["importance"] == pytest.approx(1 + each.explain["vitals"]["importance"])
        assert each.explain["vitals"]["importance"] == pytest.approx(each.explain["importance"]["in_context"])


def test_the_context_reorders_a_search(shelf: Shelf) -> None:
    """Of two memories that match a query alike, importance decides: the closer one is first in its context alone."""
    none = dict.fromkeys(("words", "soft_words", "thread", "neighbours", "actor", "first_person"), 0.0)
    shelf.set("context_aware", ranking=none | {"relevance": 0.001, "role": 10.0, "importance": 1.0})
    assert shelf.searched() == ["near", "far"]
    shelf.set(ranking={"in_context": False})
    assert shelf.searched() == ["far", "near"]


def test_tiers_and_fading_stay_without_a_context(shelf: Shelf) -> None:
    memory_id = next(iter(shelf.ids))

    def numbers(policy: Policy) -> tuple[float, float]:
        found = lookup.get(shelf.tenant.tenant_id, memory_id)
        assert not isinstance(found, Pending)
        live = live_numbers.live_numbers(shelf.tenant.tenant_id, [found])[memory_id].numbers
        assert policy.rules == Policy().rules
        return round(live.strength, 4), round(live.importance, 4)

    shelf.set("context_aware")
    before = numbers(amend_policy(Policy(), {}, "context_aware"))
    shelf.recall()
    shelf.search()
    assert numbers(Policy()) == before
