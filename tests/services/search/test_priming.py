"""Priming under `cmm`: memories found earlier in a conversation rank higher; Redis stores only ids, for an hour."""

from __future__ import annotations

import math
from typing import cast

import pytest

from app.clients.redis import stream
from app.domain.policy.policy import Forgetting, Policy
from app.domain.search.request import SearchRequest, SearchResult
from app.services.search.search import search
from tests.service import Service, Tenant


def policy(profile: str, **parameters: object) -> Policy:
    return Policy(forgetting=Forgetting(profile=profile, parameters=parameters))


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return with_twins(service, service.tenant(policy("cmm")))


def with_twins(service: Service, tenant: Tenant) -> Tenant:
    """Two memories that share a word, and two more."""
    texts = ("the red kettle whistles", "the red wagon rolls", "kettle drums", "wagon wheels")
    service.send(tenant.tenant_id, *texts)
    service.work()
    return tenant


def results_of(
    tenant: Tenant, query: str, turn: int | None = None, session: str | None = "s", limit: int = 1
) -> list[SearchResult]:
    request = SearchRequest(query, limit=limit, explain=True, session=session, turn=turn)
    return search(tenant.tenant_id, request)


def factors(results: list[SearchResult]) -> dict[str, float]:
    return {result.text: (result.explain or {})["factors"]["priming"] for result in results}


def test_what_the_session_has_found_comes_first_in_its_next_search(tenant: Tenant) -> None:
    [first, second] = results_of(tenant, "red", limit=2, session=None)
    [searched] = results_of(tenant, second.text, turn=1)
    assert searched.id == second.id
    results = results_of(tenant, "red", turn=2, limit=2)
    assert [result.id for result in results] == [second.id, first.id]
    assert factors(results) == {second.text: pytest.approx(1 + 0.3 * math.exp(-0.5)), first.text: 1}
    for result in results:
        assert result.explain is not None
        parts = [part for part in result.explain.values() if isinstance(part, float)]
        assert result.score == pytest.approx(sum(parts) * math.prod(result.explain["factors"].values()))


@pytest.mark.parametrize(("later", "factor"), [(0, 1.3), (1, 1 + 0.3 * math.exp(-0.5)), (10, 1.002), (11, 1), (500, 1)])
def test_priming_fades_over_ten_turns(tenant: Tenant, later: int, factor: float) -> None:
    """Seed 002, priming boost: 1.3 at activation, about 1 after ten turns."""
    [activated] = results_of(tenant, "red kettle", turn=5)
    assert activated.explain is not None
    assert activated.explain["factors"]["priming"] == 1
    assert factors(results_of(tenant, "red kettle", turn=5 + later))[activated.text] == pytest.approx(factor, abs=1e-4)


def test_the_latest_turn_counts_and_an_earlier_one_is_not_primed_by_it(tenant: Tenant) -> None:
    for turn in (3, 7):
        results_of(tenant, "red kettle", turn=turn)
    assert list(factors(results_of(tenant, "red kettle", turn=8)).values()) == [pytest.approx(1 + 0.3 * math.exp(-0.5))]
    assert list(factors(results_of(tenant, "red kettle", turn=2)).values()) == [1]


def test_sessions_and_tenants_are_apart(service: Service, tenant: Tenant) -> None:
    other = with_twins(service, service.tenant(policy("cmm")))
    results_of(tenant, "red kettle", turn=1)
    assert set(factors(results_of(tenant, "red kettle", turn=1, session="t")).values()) == {1}
    assert set(factors(results_of(other, "red kettle", turn=1)).values()) == {1}
    assert set(factors(results_of(tenant, "red kettle", turn=1)).values()) == {1.3}


def test_parameters_are_the_policys(service: Service) -> None:
    tenant = with_twins(service, service.tenant(policy("cmm", priming_boost=2, priming_turns=1)))
    results_of(tenant, "red kettle", turn=1)
    assert set(factors(results_of(tenant, "red kettle", turn=1)).values()) == {3}
    assert set(factors(results_of(tenant, "red kettle", turn=3)).values()) == {1}


@pytest.mark.parametrize("profile", ["spec", "mnemex", "memory_decay"])
def test_other_profiles_know_no_priming(service: Service, profile: str) -> None:
    tenant = with_twins(service, service.tenant(policy(profile)))
    for _ in range(2):
        for result in results_of(tenant, "red", turn=1):
            assert "priming" not in (result.explain or {})["factors"]
    assert not list(service.redis.scan_iter("*priming*"))


def test_a_session_without_a_turn_primes_nothing(service: Service, tenant: Tenant) -> None:
    for result in results_of(tenant, "red"):
        assert "priming" not in (result.explain or {})["factors"]
    assert not list(service.redis.scan_iter("*priming*"))


def test_redis_holds_ids_and_turns_for_an_hour_and_no_words(service: Service, tenant: Tenant) -> None:
    [result] = results_of(tenant, "red kettle", turn=4, session="about the kettle")
    [key] = service.redis.scan_iter("*priming*")
    assert key.startswith(f"ebbing:{{s0}}:priming:{tenant.tenant_id}:".encode())
    assert b"kettle" not in key
    assert service.redis.zrange(key, 0, -1, withscores=True) == [(result.id.bytes, 4.0)]
    assert 3590 < service.redis.ttl(key) <= 3600


def test_what_is_kept_of_a_session_is_bounded(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turns_of_activations() -> list[float]:
        [key] = service.redis.scan_iter("*priming*")
        held = cast("list[tuple[bytes, float]]", service.redis.zrange(key, 0, -1, withscores=True))
        return [turn for _, turn in held]

    results_of(tenant, "red kettle", turn=1)
    results_of(tenant, "red wagon", turn=11)
    assert turns_of_activations() == [1, 11]
    results_of(tenant, "wagon wheels", turn=12)
    assert turns_of_activations() == [11, 12], "turns that no longer prime are removed"
    monkeypatch.setattr("app.clients.redis.activation_cache.ACTIVATED_MAX", 3)
    results_of(tenant, "red kettle wagon drums wheels", turn=13, limit=2)
    results_of(tenant, "kettle drums", turn=14)
    assert len(turns_of_activations()) == 3
    assert turns_of_activations()[-1] == 14


def test_without_redis_a_search_is_as_ever(service: Service, tenant: Tenant) -> None:
    results_of(tenant, "red kettle", turn=1)
    expected = [(result.id, result.score) for result in results_of(tenant, "red", limit=2, session=None)]
    stream.close()
    service.configure(redis_url="redis://127.0.0.1:1/0")
    results = results_of(tenant, "red", limit=2, turn=2)
    assert [result.id for result in results] == [memory_id for memory_id, _ in expected]
    assert not any("priming" in (result.explain or {})["factors"] for result in results)


def test_where_redis_takes_nothing_more_what_it_holds_still_primes(service: Service, tenant: Tenant) -> None:
    [activated] = results_of(tenant, "red kettle", turn=1)
    before = cast("str", service.redis.config_get("maxmemory")["maxmemory"])
    service.redis.config_set("maxmemory", 1)
    try:
        assert factors(results_of(tenant, "red kettle", turn=1)) == {activated.text: 1.3}
    finally:
        service.redis.config_set("maxmemory", before)


def test_a_search_that_finds_nothing_activates_nothing(service: Service, tenant: Tenant) -> None:
    assert results_of(tenant, "", turn=1) == []
    assert not list(service.redis.scan_iter("*priming*"))


def test_an_id_is_primed_by_its_memory_alone(tenant: Tenant) -> None:
    results = results_of(tenant, "red kettle", turn=1)
    again = factors(results_of(tenant, "red kettle wagon drums wheels", turn=1, limit=4))
    assert [text for text, factor in again.items() if factor > 1] == [results[0].text]
