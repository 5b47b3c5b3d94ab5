"""The query vector cache: each vector is computed once per tenant and space, and expires."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from app.clients.llm.resilience import ProviderFailed, Reason
from app.services.embedding import spaces
from app.services.embedding.query_cache import QueryCache
from app.services.tenants import budget
from tests.services.embedder_move import Movers, movers
from tests.waiting import PATIENCE_SECONDS, until

__all__ = ["movers"]

ANN, BOB = UUID(int=1), UUID(int=2)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Model:
    """An embedder for queries that counts its calls."""

    def __init__(self, cache: QueryCache) -> None:
        self.cache = cache
        self.asked: Counter[str] = Counter()

    def __call__(self, query: str, tenant_id: UUID = ANN, space_id: int = 1) -> NDArray[np.float32]:
        def make() -> NDArray[np.float32]:
            self.asked[query] += 1
            return np.array([len(query)], dtype=np.float32)

        return self.cache.vector(tenant_id, space_id, query, make)


def test_a_query_asked_again_is_not_made_again() -> None:
    model = Model(QueryCache(10, 60))
    assert model("cats").tolist() == model("cats").tolist() == [4]
    assert model("dog").tolist() == [3]
    assert model.asked == {"cats": 1, "dog": 1}
    with pytest.raises(ValueError, match="read-only"):
        model("cats")[0] = 5


def test_tenants_and_spaces_share_nothing() -> None:
    model = Model(QueryCache(10, 60))
    for tenant_id, space_id in ((ANN, 1), (BOB, 1), (ANN, 2)) * 2:
        model("cats", tenant_id, space_id)
    assert model.asked["cats"] == 3


def test_the_one_asked_for_the_longest_ago_goes_first() -> None:
    model = Model(QueryCache(2, 60))
    for query in ("a", "b", "a", "c", "a", "b"):
        model(query)
    assert model.asked == {"a": 1, "b": 2, "c": 1}


def test_a_vector_is_kept_for_a_while() -> None:
    clock = Clock()
    model = Model(QueryCache(2, 60, clock))
    for clock.now in (0, 59, 60):
        model("a")
    assert model.asked["a"] == 2


def test_without_entries_nothing_is_kept() -> None:
    model = Model(QueryCache(0, 60))
    model("a")
    model("a")
    assert model.asked["a"] == 2


def test_no_query_is_kept() -> None:
    cache = QueryCache(2, 60)
    Model(cache)("my secret")
    assert "secret" not in repr(cache._held)


def test_those_that_ask_at_once_wait_for_one_call_and_a_failure_is_not_kept() -> None:
    cache, waits, begun = QueryCache(2, 60), threading.Event(), Counter[str]()

    def fail() -> NDArray[np.float32]:
        begun["calls"] += 1
        waits.wait(PATIENCE_SECONDS)
        raise ProviderFailed(Reason.TIMEOUT)

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(cache.vector, ANN, 1, "a", fail) for _ in range(3)]
        until(lambda: begun["calls"], "a call")
        [result] = cache._underway.values()
        until(lambda: len(result._condition._waiters) == 2, "those that wait")  # type: ignore[attr-defined]
        other = cache.vector(ANN, 1, "b", lambda: np.ones(1, np.float32))
        waits.set()
        failures = [each.exception() for each in asking]
    assert other.tolist() == [1]
    assert all(isinstance(failure, ProviderFailed) for failure in failures)
    assert begun["calls"] == 1
    assert cache.vector(ANN, 1, "a", lambda: np.ones(1, np.float32)).tolist() == [1]


def test_a_search_asked_again_asks_no_provider(movers: Movers) -> None:
    movers.use("openai")
    ann, bob = (movers.service.tenant().tenant_id for _ in range(2))
    for tenant_id in (ann, bob):
        movers.remember(tenant_id, "a red car")
    before = movers.fake.calls
    found = [movers.meanings(ann, "car") for _ in range(2)]
    assert found[0] == found[1]
    assert max(found[0].values()) > 0
    assert movers.fake.calls == before + 1
    movers.meanings(bob, "car")
    assert movers.fake.calls == before + 2
    [row] = [row for row in budget.report_costs(ann).rows if row.purpose == "query"]
    assert row.calls == 1, "a cached vector costs nothing and isn't recorded"
    movers.fake.control.set(mode="server_error")
    assert movers.meanings(ann, "car") == found[0], "a cached query needs no working provider"
    assert max(movers.meanings(ann, "boat").values(), default=0) == 0
    movers.fake.control.set()
    assert max(movers.meanings(ann, "red").values()) > 0


def test_the_bundled_model_is_always_asked(movers: Movers) -> None:
    tenant_id = movers.service.tenant().tenant_id
    movers.remember(tenant_id, "a red car")
    movers.meanings(tenant_id, "car")
    assert not spaces._cache()._held
