"""Ranking modes through the service: strength, spreading, tiers, and searches as of another moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from app.domain.policy.policy import Forgetting, Policy
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest, SearchResult
from app.services.embedding import spaces
from app.services.search.search import find_memories, search
from tests.service import Service, Tenant
from tests.services import archived_memories
from tests.services.backdated import age

CMM = Policy(forgetting=Forgetting(profile="cmm"), ranking=Ranking(mode="cmm"))
MEMORY_DECAY = Policy(forgetting=Forgetting(profile="memory_decay"), ranking=Ranking(mode="memory_decay"))
KETTLE = "the red kettle whistles on the stove"


def put(service: Service, tenant: Tenant, *given: str | dict[str, Any]) -> list[UUID]:
    sent = service.send(tenant.tenant_id, *given)
    service.work()
    return sent


def results_of(tenant: Tenant, query: str = "red kettle", **fields: Any) -> list[SearchResult]:
    return search(tenant.tenant_id, SearchRequest(query, explain=True, **fields))


def ids(results: list[SearchResult]) -> list[UUID]:
    return [result.id for result in results]


def link(service: Service, tenant: Tenant, first: UUID, second: UUID, weight: float = 1.0) -> None:
    service.rows(
        "INSERT INTO links (tenant_id, memory_id, other_id, kind, weight) VALUES (%s, %s, %s, 'related', %s)",
        *(tenant.tenant_id, first, second, weight),
    )


def spread_to(results: list[SearchResult]) -> dict[UUID, tuple[str, str]]:
    explained = {result.id: result.explain or {} for result in results}
    return {
        key: (reported["spread_from"], reported["spread_by"])
        for key, reported in explained.items()
        if "spread" in reported
    }


def test_of_two_equally_relevant_memories_the_used_one_comes_first(service: Service) -> None:
    tenant = service.tenant()
    first, second = put(service, tenant, *[{"text": KETTLE, "salience": 0.5}] * 2)
    age(service, 20, first, second)
    assert ids(results_of(tenant, weights=None)) == [second, first], "ties are won by the later memory"
    service.rows("UPDATE memory_state SET accessed_at = now(), anchored_at = now() WHERE memory_id = %s", first)
    results = results_of(tenant)
    assert ids(results) == [first, second]
    assert results[0].strength > results[1].strength


def test_of_two_equally_relevant_memories_the_important_one_comes_first(service: Service) -> None:
    tenant = service.tenant()
    important, other = put(service, tenant, {"text": KETTLE, "salience": 0.9}, {"text": KETTLE, "salience": 0.1})
    assert ids(results_of(tenant)) == [important, other]


def test_words_alone_ask_no_embedder_and_meaning_alone_no_words(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = service.tenant()
    kettle, paris = put(service, tenant, KETTLE, "The flight to Paris leaves at nine")
    assert ids(results_of(tenant, "airplane trip to France", mode="dense"))[0] == paris
    monkeypatch.delattr(spaces, "query_vector")
    assert ids(results_of(tenant, "airplane kettle", mode="lexical")) == [kettle]
    assert results_of(tenant, "airplane trip to France", mode="lexical") == []


def test_cmm_spreads_by_vector_entity_and_link(service: Service) -> None:
    tenant = service.tenant(CMM)
    seed, twin, named, linked, lone = put(
        service,
        tenant,
        {"text": "The red kettle of Ann", "salience": 1.0, "entities": ["Ann"]},
        {"text": "A kettle of Ann, a red one", "salience": 0.0},
        {"text": "Somebody plays the piano", "salience": 0.5, "entities": ["Ann"]},
        {"text": "It rained all day", "salience": 0.5},
        {"text": "Nobody came to the lecture", "salience": 0.5},
    )
    link(service, tenant, linked, seed, 0.8)
    results = results_of(tenant, "the red kettle of Ann")
    assert ids(results)[0] == seed
    assert spread_to(results) == {
        twin: (str(seed), "vector"),
        named: (str(seed), "entity"),
        linked: (str(seed), "link"),
    }
    assert lone not in ids(results)
    scores = {result.id: result.score / results[0].score for result in results}
    assert scores == pytest.approx({seed: 1, twin: 0.5, named: 0.5, linked: 0.4})


def test_spreading_goes_as_far_as_its_hops(service: Service) -> None:
    far = Forgetting(profile="cmm", parameters={"spread_hops": 2})
    tenant = service.tenant(CMM.model_copy(update={"forgetting": far}))
    chain = put(service, tenant, *({"text": said, "salience": 0.5} for said in (KETTLE, "rain", "piano", "lecture")))
    for first, second in pairwise(chain):
        link(service, tenant, first, second)
    results = results_of(tenant, KETTLE)
    assert ids(results) == chain[:3]
    assert results[2].score == pytest.approx(results[0].score / 4)


def test_spreading_obeys_filters_and_never_shows_what_is_deleted_or_elsewhere(service: Service) -> None:
    tenant, other = service.tenant(CMM), service.tenant(CMM)
    seed, stranger, gone, cold = put(
        service, tenant, *({"text": said, "salience": 0.5, "entities": ["Ann"]} for said in (KETTLE, "a", "b", "c"))
    )
    put(service, other, {"text": "d", "entities": ["Ann"]})
    for each in (stranger, gone, cold):
        link(service, tenant, seed, each)
    assert set(ids(results_of(tenant, KETTLE))) == {seed, stranger, gone, cold}
    service.rows("UPDATE memories SET deleted_at = now() WHERE memory_id = %s", gone)
    service.rows("UPDATE memory_state SET tier = 'cold' WHERE memory_id = %s", cold)
    service.rows("UPDATE memories SET subject = 'ann' WHERE memory_id = %s", seed)
    assert ids(results_of(tenant, KETTLE)) == [seed, stranger]
    assert ids(results_of(tenant, KETTLE, subject="ann")) == [seed]


def test_cmm_works_with_any_profile_and_without_its_own_parameters(service: Service) -> None:
    tenant = service.tenant()
    [seed, linked] = put(service, tenant, {"text": KETTLE, "salience": 0.5}, {"text": "rain", "salience": 0.5})
    link(service, tenant, seed, linked)
    results = results_of(tenant, KETTLE, mode="cmm", session="s", turn=1)
    assert ids(results) == [seed, linked]
    [primed, _] = results_of(tenant, KETTLE, mode="cmm", session="s", turn=1)
    assert primed.score == pytest.approx(1.3 * results[0].score, rel=1e-3)


def test_memory_decay_finds_no_faded_storage_and_boosts_what_is_linked(service: Service) -> None:
    tenant = service.tenant(MEMORY_DECAY)
    first, faded, linked, lost = put(service, tenant, KETTLE, "a red kettle", "rain", "snow")
    age(service, 400, faded, lost)
    for each in (linked, lost):
        link(service, tenant, each, first, 0.5)
    results = results_of(tenant, KETTLE)
    assert ids(results) == [first, linked]
    assert spread_to(results) == {linked: (str(first), "link")}
    assert results[1].score == pytest.approx(results[0].score / 4)


def test_memory_decay_ranks_by_retrieval(service: Service) -> None:
    tenant = service.tenant(MEMORY_DECAY)
    first, second = put(service, tenant, KETTLE, KETTLE)
    service.rows("UPDATE memory_state SET retrieval = 0.25 WHERE memory_id = %s", second)
    results = results_of(tenant, KETTLE)
    assert ids(results) == [first, second]
    parts = [(result.explain or {})["relevance"] for result in results]
    assert parts[1] == pytest.approx(parts[0] / 2)


def test_only_wanted_tiers_are_searched(service: Service) -> None:
    tenant = service.tenant()
    active, archived, cold = put(service, tenant, *[KETTLE] * 3)
    archived_memories.fade(service, [archived])
    archived_memories.archive_all(tenant.tenant_id)
    service.rows("UPDATE memory_state SET tier = 'cold' WHERE memory_id = %s", cold)
    assert ids(results_of(tenant)) == [active]
    assert ids(results_of(tenant, limit=1)) == [active], "the others don't take up places"
    assert [(result.id, result.tier) for result in results_of(tenant, tiers=("archived",))] == [(archived, "archived")]
    assert set(ids(results_of(tenant, tiers=("active", "cold"), after=datetime(2000, 1, 1, tzinfo=UTC)))) == {
        active,
        cold,
    }
    assert set(ids(results_of(tenant, tiers=("active", "archived")))) == {active, archived}


def test_as_of_another_moment_strength_is_what_it_was_and_later_memories_are_not_there(service: Service) -> None:
    tenant = service.tenant()
    [old] = put(service, tenant, {"text": KETTLE, "salience": 0.5})
    age(service, 30, old)
    [new] = put(service, tenant, {"text": KETTLE, "salience": 0.5})
    now = datetime.now(UTC)
    past = results_of(tenant, as_of=now - timedelta(days=29, hours=23))
    assert ids(past) == [old]
    assert past[0].strength == pytest.approx(1, abs=0.02)
    strengths = {result.id: result.strength for result in results_of(tenant, as_of=now + timedelta(days=30))}
    assert strengths[old] < 0.05
    assert strengths[new] == pytest.approx(0.1741, abs=0.001), "seed 004's own number for 30 days"
    assert results_of(tenant)[0].strength == pytest.approx(1, abs=0.01)


def test_before_its_anchor_a_memory_is_as_it_was_there(service: Service) -> None:
    tenant = service.tenant()
    [used] = put(service, tenant, {"text": KETTLE, "salience": 0.5})
    age(service, 30, used)
    service.rows("UPDATE memory_state SET accessed_at = now(), anchored_at = now(), level = 0")
    [result] = results_of(tenant, as_of=datetime.now(UTC) - timedelta(days=10))
    assert result.strength == pytest.approx(1)


def test_a_look_at_another_moment_is_no_use_and_primes_nothing(service: Service) -> None:
    tenant = service.tenant(CMM)
    put(service, tenant, {"text": KETTLE, "salience": 0.5})
    now = datetime.now(UTC) + timedelta(seconds=1)
    request = SearchRequest("red kettle", as_of=now, session="s", turn=1)
    assert find_memories(tenant.tenant_id, SearchRequest("red kettle")).uses
    looked = find_memories(tenant.tenant_id, request)
    assert looked.results
    assert looked.uses == []
    assert not list(service.redis.scan_iter("*priming*"))
