"""Plans that a connection keeps for the usual search: few per connection, one tenant each, replaced when outdated."""

from __future__ import annotations

from itertools import product
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, text

from app.domain.search.request import SearchRequest
from app.store.core import database, kept_plans
from app.store.search import candidate_selection
from app.store.search.candidate_selection import expected_settings, find_candidates
from app.store.search.query_parts import SearchProbe
from tests.store.bulk_tenants import RANKING, Crowd, LargeTenant

ENOUGH = kept_plans.USES_BEFORE + 2

# Plans made for one execution and plans kept, of each prepared statement that reads candidates.
PLANS = text("SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement LIKE '%elsewhere%found%'")

KEPT = text("""
SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE '%by_vector%' AND custom_plans = 0
""")


def find(tenant: UUID, probe: SearchProbe, request: SearchRequest | None = None) -> set[UUID]:
    """Search in a transaction of its own, on the only pooled connection; return the candidates."""
    with database.tenant(tenant) as tx:
        found = find_candidates(tx, tenant, probe, request or SearchRequest("x"), RANKING)
        return {candidate.memory_id for candidate in found.candidates}


def plans(tenant: UUID) -> list[tuple[int, int]]:
    with database.tenant(tenant) as tx:
        return [(custom, generic) for custom, generic in tx.execute(PLANS)]


def own_ids(tx: Connection, tenant: UUID) -> set[UUID]:
    return set(
        tx.execute(text("SELECT memory_id FROM memories WHERE tenant_id = :tenant"), {"tenant": tenant}).scalars()
    )


def test_repeated_searches_of_a_large_tenant_are_planned_once(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    searches = [find(tenant, crowd.probe("w7", "w8", among=3000)) for _ in range(ENOUGH)]
    assert all(found == searches[0] for found in searches)
    assert plans(tenant) == [(0, ENOUGH - kept_plans.USES_BEFORE + 1)]


def test_queries_of_any_words_share_the_plan_of_a_large_tenant(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    for words in (("w7",), ("w8", "w9"), ("w1", "w2", "w3"), ("w7", "w5"), ("w4",)):
        find(tenant, crowd.probe(*words, among=3000, seed=len(words)))
    assert [custom for custom, _ in plans(tenant)] == [0]


def test_queries_of_up_to_eight_words_share_the_plan_of_a_small_tenant(crowd: Crowd) -> None:
    tenant = crowd.tenant(60)
    for count in range(1, ENOUGH):
        find(tenant, crowd.probe(*(f"w{word}" for word in range(1, 1 + count))))
    find(tenant, crowd.probe(*(f"w{word}" for word in range(1, 9))))
    with database.tenant(tenant) as tx:
        kept = tx.execute(KEPT).scalars().all()
    assert kept == [ENOUGH - kept_plans.USES_BEFORE + 1]


def test_a_kept_plan_serves_one_tenant(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    tenants = [tenant, crowd.large()]
    for tenant in tenants * ENOUGH:
        found = find(tenant, crowd.probe("w7", "w8", among=3000))
        with database.tenant(tenant) as tx:
            assert found
            assert found <= own_ids(tx, tenant)
    assert len(plans(tenants[0])) == 2


def test_a_connection_keeps_few_plans(crowd: Crowd) -> None:
    # enough random vectors that some are similar to the query: dissimilar ones are no candidates
    tenants = [crowd.tenant(60) for _ in range(kept_plans.KEPT_MAX + 2)]
    for tenant in tenants * ENOUGH:
        assert find(tenant, crowd.probe())
    with database.tenant(tenants[0]) as tx:
        kept = tx.execute(
            text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%by_vector%' AND generic_plans > 0")
        ).scalar_one()
    assert kept == kept_plans.KEPT_MAX


def test_a_plan_is_replaced_when_an_index_is_dropped(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    probe = crowd.probe("w7", "w8", among=3000)
    before = [find(tenant, probe) for _ in range(ENOUGH)][-1]
    crowd.owner.execute(f"DROP INDEX tail_{crowd.space}_{tenant.hex}".encode())
    assert find(tenant, probe) == before


def test_searches_with_filters_are_planned_for_their_values(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    for _ in range(ENOUGH + 5):
        find(tenant, crowd.probe("w7", among=3000), SearchRequest("x", exclude_thread="none"))
    assert all(generic == 0 for _, generic in plans(tenant))


def test_only_ids_and_numbers_become_literals() -> None:
    tenant = uuid4()
    inlined = kept_plans.inline_values(
        "%(tenant)s %(limit)s %(text)s", {"tenant": tenant, "limit": 5}, ["tenant", "limit"]
    )
    assert inlined == f"CAST('{tenant}' AS uuid) 5 %(text)s"
    with pytest.raises(TypeError):
        kept_plans.inline_values("%(text)s", {"text": "'"}, ["text"])


def test_a_search_applies_its_settings_in_a_transaction_opened_with_others(crowd: Crowd) -> None:
    tenant = crowd.large()
    cases: list[tuple[SearchRequest, int | None, tuple[str, str]]] = [
        (SearchRequest("x"), None, ("on", "force_generic_plan")),
        (SearchRequest("x"), 3000, ("off", "force_generic_plan")),
        (SearchRequest("x", superseded=True, thread="none"), 3000, ("on", "force_custom_plan")),
    ]
    for has_graph, (request, among, settings) in product((False, True), cases):
        with database.tenant(tenant, expected_settings(SearchRequest("x"), has_graph=has_graph)) as tx:
            find_candidates(tx, tenant, crowd.probe("w7", among=among), request, RANKING)
            applied = tx.execute(text("SELECT current_setting('enable_sort'), current_setting('plan_cache_mode')"))
            assert tuple(applied.one()) == settings, (has_graph, request, among)


def test_a_transaction_opened_with_the_expected_settings_needs_no_statement_for_them(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, request = crowd.large(), SearchRequest("x")

    def refuse(_: Connection) -> None:
        raise AssertionError("another statement")

    monkeypatch.setattr(candidate_selection, "driver_connection", refuse)
    for has_graph, among in ((True, 3000), (False, None)):
        with database.tenant(tenant, expected_settings(request, has_graph=has_graph)) as tx:
            assert find_candidates(tx, tenant, crowd.probe("w7", among=among), request, RANKING).candidates
    with (
        pytest.raises(AssertionError, match="another statement"),
        database.tenant(tenant, expected_settings(request, has_graph=True)) as tx,
    ):
        find_candidates(tx, tenant, crowd.probe(among=3000), request, RANKING)
