"""Searches that reserve a share of their results for memories due for review (seed 001, blended results)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.clients.llm.model_clients import model_clients
from app.domain.policy.policy import Forgetting, Policy
from app.domain.search.request import SearchRequest, SearchResult
from app.services.search.search import search
from app.services.uses import reviews
from tests.api.caller import Api, fields
from tests.service import Service, Tenant
from tests.services.backdated import age
from tests.services.search.test_rerank import Judge

IN_DANGER_DAYS = 24
"""Days after which an unused memory of salience .5 is in the danger zone."""


def send(service: Service, tenant: Tenant, count: int, days: float, text: str = "the green cat sleeps") -> list[UUID]:
    """Store memories that match "green cat", in descending rank, and return their ids."""
    given = [{"text": text + " here" * place, "salience": 0.5} for place in range(count)]
    ids = service.send(tenant.tenant_id, *given)
    service.work()
    age(service, days, *ids)
    return ids


def find(tenant: Tenant, limit: int = 10, blend: float | None = None, **more: Any) -> list[SearchResult]:
    request = SearchRequest("green cat", limit=limit, review_blend=blend, **more)
    return search(tenant.tenant_id, request)


def marked(results: list[SearchResult]) -> list[bool]:
    return [result.for_review for result in results]


def test_nothing_is_blended_unless_asked(service: Service) -> None:
    tenant = service.tenant()
    send(service, tenant, 4, IN_DANGER_DAYS)
    assert [result.id for result in find(tenant)] == [result.id for result in find(tenant, blend=0.0)]
    assert marked(find(tenant)) == [False] * 4


def test_a_share_of_the_places_is_given_to_what_is_in_danger(service: Service) -> None:
    tenant = service.tenant()
    [rare] = send(service, tenant, 1, IN_DANGER_DAYS, "a cat that is green, or so they say, was seen on the roof")
    send(service, tenant, 6, 0)
    plain = [result.id for result in find(tenant)]
    assert plain.index(rare) > 2
    found = find(tenant, limit=5, blend=0.3)
    assert marked(found) == [False, False, True, False, False]
    assert found[2].id == rare
    assert [result.id for result in found if not result.for_review] == plain[:4]


def test_what_has_little_to_do_with_the_query_is_not_brought_in(service: Service) -> None:
    tenant = service.tenant()
    send(service, tenant, 1, IN_DANGER_DAYS, "the weather was fine")
    send(service, tenant, 4, 0)
    assert not any(marked(find(tenant, limit=3, blend=1.0)))


def test_what_a_reranker_has_not_seen_keeps_its_place(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub reranker raises the scores of texts it prefers a hundredfold."""
    monkeypatch.setitem(vars(model_clients), "reranker", Judge())
    tenant = service.tenant()
    [rare] = send(service, tenant, 1, IN_DANGER_DAYS, "a cat that is green, or so they say, was seen on the roof")
    send(service, tenant, 6, 0)
    found = find(tenant, limit=5, blend=0.3, rerank=2)
    assert [result.id for result in found if result.for_review] == [rare]


def test_what_was_reviewed_and_is_due_again_wants_review_too(service: Service) -> None:
    tenant = service.tenant()
    [reviewed, _] = send(service, tenant, 2, 3)
    assert marked(find(tenant, blend=0.5)) == [False, False], "memories that were never reviewed aren't marked"
    reviews.record_review(tenant.tenant_id, reviewed, "passed")
    assert marked(find(tenant, blend=0.5)) == [False, False], "the reviewed memory isn't due yet"
    service.rows("UPDATE reviews SET due_at = now() - interval '1 hour'")
    assert {result.id for result in find(tenant, blend=0.5) if result.for_review} == {reviewed}


def test_mnemex_blends_by_itself(service: Service) -> None:
    """Seed 001: 30 % review candidates."""
    tenant = service.tenant(Policy(forgetting=Forgetting(profile="mnemex")))
    send(service, tenant, 3, 9)
    assert any(marked(find(tenant)))
    assert not any(marked(find(tenant, blend=0.0)))


def test_a_search_that_finds_nothing_blends_nothing(service: Service) -> None:
    assert find(service.tenant(), blend=1.0) == []


@pytest.mark.parametrize("share", [-0.1, 1.1, "x"])
def test_a_share_is_0_to_1(api: Api, share: object) -> None:
    answer = api.post("/v1/search", json={"query": "cat", "review_blend": share})
    assert (answer.status_code, fields(answer)) == (422, ["review_blend"])
