"""Reranked search results over HTTP."""

from __future__ import annotations

import pytest

from app.clients.llm.model_clients import model_clients
from tests.api.caller import Api
from tests.services.search.test_rerank import Judge


def test_an_answer_says_whether_it_was_looked_at_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = api.remember("the cat sleeps", "the cat eats and the dog sleeps")
    asked = {"query": "the cat sleeps", "rerank": 50, "explain": True}
    plain = api.post("/v1/search", json=asked).json()
    assert (plain["reranked"], [found["id"] for found in plain["results"]]) == (False, [first, second])
    monkeypatch.setitem(vars(model_clients), "reranker", Judge())
    again = api.post("/v1/search", json=asked).json()
    assert (again["reranked"], [found["id"] for found in again["results"]]) == (True, [second, first])
    assert again["results"][0]["explain"]["reranker"] == {"model": "judge", "score": 1.0}
    assert 'ebbing_search_reranks_total{outcome="reranked"}' in api.get("/metrics").text


@pytest.mark.parametrize("most", [-1, 51, 2.5])
def test_so_many_are_not_looked_at_again(api: Api, most: float) -> None:
    assert api.post("/v1/search", json={"query": "cat", "rerank": most}).status_code == 422
    assert api.put("/v1/policy", json={"policy": {"ranking": {"rerank": most}}}).status_code == 422
