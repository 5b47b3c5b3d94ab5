"""Searches of large and small tenants: which rows they read under row-level security, and what they find."""

from __future__ import annotations

from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from app.domain.ingest.roles import ROLES, USUAL, Role
from app.domain.search.request import SearchRequest
from app.services.embedding import tenant_indexes
from app.store.core import database
from app.store.search import indexed_candidates
from app.store.search.candidate_selection import CANDIDATES_OF_MANY, find_candidates
from app.store.search.neighbours import find_neighbours
from app.store.search.query_parts import SearchProbe
from tests.store.bulk_tenants import LIMIT, RANKING, TABLES, Crowd, LargeTenant, candidates_of

# For a connection's first transaction: sequential scans per table, scans per index, and rows read.
READ = text("""
SELECT relname, relkind = 'r' AS is_table, pg_stat_get_xact_numscans(oid) AS scans,
  pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid) AS rows
FROM pg_class WHERE relkind = 'r' AND relname = ANY (:tables)
  OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = ANY (CAST(CAST(:tables AS text[]) AS regclass[])))
""")


def read(tenant: UUID, probe: SearchProbe, request: SearchRequest | None = None) -> tuple[set[str], set[str], int]:
    """Search as the service's role; return the tables scanned sequentially, the indexes used and the rows read."""
    database.close()  # statistics belong to the connection until they are flushed
    with database.tenant(tenant) as tx:
        find_candidates(tx, tenant, probe, request or SearchRequest("x"), RANKING)
        return scanned(tx)


def scanned(tx: Connection) -> tuple[set[str], set[str], int]:
    """Return the scanned tables, the used indexes and the rows read in a connection's first transaction."""
    scans = tx.execute(READ, {"tables": list(TABLES)}).all()
    tables = {name for name, is_table, count, _ in scans if is_table and count}
    indexes = {name for name, is_table, count, _ in scans if not is_table and count}
    return tables, indexes, sum(row.rows for row in scans)


@pytest.mark.parametrize("analyzed", [False, True], ids=["no statistics", "statistics"])
def test_a_large_tenant_is_searched_by_indexes_of_its_own(large_tenant: LargeTenant, analyzed: bool) -> None:
    crowd, tenant = large_tenant
    crowd.owner.execute(
        "UPDATE embeddings SET grafted = false WHERE memory_id < '10000000-0000-0000-0000-000000000000'"
    )
    if analyzed:
        crowd.owner.execute("ANALYZE")
    tables, indexes, rows = read(tenant, crowd.probe("w7", "w8", among=3000))
    assert tables == set()
    own = tenant.hex
    assert {f"words_{own}", f"graph_{crowd.space}_{own}", f"tail_{crowd.space}_{own}"} <= indexes
    assert rows < 9000  # candidates and their look-ups: a full read of the four tables would be twelve thousand rows


@pytest.mark.parametrize("analyzed", [False, True], ids=["no statistics", "statistics"])
def test_a_small_tenant_is_compared_whole_through_its_keys(large_tenant: LargeTenant, analyzed: bool) -> None:
    crowd, _ = large_tenant
    tenant = crowd.tenant(100)
    if analyzed:
        crowd.owner.execute("ANALYZE")
    tables, indexes, _ = read(tenant, crowd.probe("w7"))
    assert tables == set()
    assert {"memory_words_pkey", "embeddings_pkey", "memory_state_elsewhere"} <= indexes


def test_pruning_loses_next_to_nothing(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    kept = []
    for seed in range(25):
        words = (f"w{seed}", f"w{seed + 20}", "common", f"u{seed * 31 + 7}")
        every = candidates_of(tenant, crowd.probe(*words, seed=seed))[:10]
        some = candidates_of(tenant, crowd.probe(*words, seed=seed, among=3000))[:10]
        kept.append(len({one.memory_id for one in every} & {one.memory_id for one in some}) / 10)
        assert some[0] == every[0]
    assert sum(kept) / len(kept) >= 0.98


@pytest.mark.parametrize(
    "words", [(), pytest.param(("w7",), marks=pytest.mark.long)], ids=["by meaning alone", "by both"]
)
def test_a_tenant_with_a_fraction_of_the_rows_gets_all_it_has(crowd: Crowd, words: tuple[str, ...]) -> None:
    crowd.large(2000)
    crowd.large(2000)
    tenant = crowd.tenant(10)
    probe = crowd.probe(*words, total=10)
    [[best]] = crowd.owner.execute(
        "SELECT array_agg(memory_id ORDER BY embedding <#> %s::vector::halfvec) FROM embeddings "
        "WHERE tenant_id = %s AND embedding <#> %s::vector::halfvec < 0",
        [str(list(map(float, probe.vector))), tenant, str(list(map(float, probe.vector)))],  # type: ignore[arg-type]
    ).fetchall()
    if not words:
        assert [one.memory_id for one in candidates_of(tenant, probe)] == best
    else:
        assert {one.memory_id for one in candidates_of(tenant, probe)} >= set(best)


@pytest.mark.parametrize("count", [pytest.param(30, marks=pytest.mark.long), 1500], ids=["small", "large"])
def test_what_others_have_changes_neither_the_rows_read_nor_what_is_found(crowd: Crowd, count: int) -> None:
    tenant = crowd.large(count)
    probe = crowd.probe("w7", "common", among=count if count > LIMIT else None, total=count)
    crowd.owner.execute("VACUUM ANALYZE")
    before, seen = read(tenant, probe)[2], candidates_of(tenant, probe)
    crowd.large(2500)  # another tenant with the same words in the same space
    crowd.owner.execute("VACUUM ANALYZE")
    assert read(tenant, probe)[2] == before
    assert candidates_of(tenant, probe) == seen


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (SearchRequest("x", subject="s70"), 20),
        (SearchRequest("x", subject="s70", tags=("even",)), 10),
        (SearchRequest("x", subject="nobody"), 0),
        (SearchRequest("x", tiers=("archived",)), 5),
    ],
    ids=["few", "fewer", "none", "in another tier"],
)
def test_a_filter_that_leaves_few_gives_all_of_them(
    large_tenant: LargeTenant, request_: SearchRequest, expected: int
) -> None:
    crowd, tenant = large_tenant
    crowd.owner.execute(
        "WITH gone AS (DELETE FROM memory_words USING memories WHERE memory_words.memory_id = memories.memory_id "
        "AND seq <= 5 RETURNING memory_words.*), "
        "kept AS (INSERT INTO archived_memories (tenant_id, memory_id, text_version, own) "
        "SELECT tenant_id, memory_id, text_version, own FROM gone) "
        "UPDATE memory_state SET tier = 'archived' WHERE memory_id IN (SELECT memory_id FROM gone)"
    )
    probe = crowd.probe("common", among=3000)
    assert len(candidates_of(tenant, probe, request_)) == expected


def test_a_filter_that_leaves_many_is_obeyed_while_pruning(
    large_tenant: LargeTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.search.indexed_candidates.FEW", 100)
    crowd, tenant = large_tenant
    request = SearchRequest("x", tags=("even",))
    _, indexes, _ = read(tenant, crowd.probe("w8", among=3000), request)
    assert f"graph_{crowd.space}_{tenant.hex}" in indexes
    some = candidates_of(tenant, crowd.probe("w8", "w9", among=3000), request)
    assert len(some) == CANDIDATES_OF_MANY
    assert all(one.tags == ["even"] for one in some)
    assert some[:10] == candidates_of(tenant, crowd.probe("w8", "w9"), request)[:10]


@pytest.mark.parametrize(
    ("request_", "share", "listed"),
    [
        (SearchRequest("x"), 1.0, None),
        (SearchRequest("x", tags=("even",)), 0.5, None),
        (SearchRequest("x", tags=("no such tag",)), 0.0, 0),
        (SearchRequest("x", subject="s70"), 0.0, 20),
    ],
    ids=["no filter", "a half", "none", "an index of its own"],
)
def test_a_sample_tells_what_share_passes_a_filter(
    large_tenant: LargeTenant,
    monkeypatch: pytest.MonkeyPatch,
    request_: SearchRequest,
    share: float,
    listed: int | None,
) -> None:
    monkeypatch.setattr(indexed_candidates, "FEW", 100)
    crowd, tenant = large_tenant
    values: dict[str, object] = {"tenant": tenant}
    with database.tenant(tenant) as tx:
        passing = indexed_candidates.find_passing(tx, crowd.probe("w8", among=3000), request_, values)
    assert passing.share == pytest.approx(share, abs=0.2)
    assert (None if passing.few is None else len(passing.few.ids)) == listed


def test_the_fewer_pass_a_filter_the_more_are_compared_by_words(large_tenant: LargeTenant) -> None:
    crowd, _ = large_tenant
    worth = []
    for share in (1.0, 0.1):
        values: dict[str, object] = {}
        probe = crowd.probe("common", "w8", "w9", among=100_000)
        indexed_candidates.candidate_clauses(probe, SearchRequest("x"), RANKING, values, share)
        worth.append(str(values["worth"]).count("'"))
    assert worth[0] < worth[1]


def test_what_was_archived_or_deleted_doesnt_crowd_out_the_rest(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    crowd.owner.execute(
        "UPDATE memory_state SET tier = CASE WHEN seq % 3 = 0 THEN 'archived' ELSE 'deleted' END FROM memories "
        "WHERE memories.memory_id = memory_state.memory_id AND seq % 10 > 0"
    )
    some = candidates_of(tenant, crowd.probe("w10", "common", among=3000))
    assert len(some) == CANDIDATES_OF_MANY
    assert {one.tier for one in some} == {"active"}


ALL_ROLES = (*ROLES, None)


@pytest.mark.parametrize("analyzed", [False, True], ids=["no statistics", "statistics"])
@pytest.mark.parametrize("roles", [USUAL, (*USUAL, "tool")], ids=["usual", "and tool"])
def test_memories_left_out_by_their_role_are_looked_up_by_their_index(
    large_tenant: LargeTenant, analyzed: bool, roles: tuple[Role | None, ...]
) -> None:
    crowd, _ = large_tenant
    tenant = crowd.tenant(100)
    crowd.owner.execute("UPDATE memories SET speaker = 'system' WHERE tenant_id = %s AND seq <= 40", [tenant])
    if analyzed:
        crowd.owner.execute("VACUUM ANALYZE")
    request = SearchRequest("x", roles=roles)
    tables, indexes, _ = read(tenant, crowd.probe("common", total=100), request)
    assert tables == set()
    assert "memories_aside" in indexes
    assert len(candidates_of(tenant, crowd.probe("common", total=100), request)) == 60
    assert len(candidates_of(tenant, crowd.probe("common", total=100), SearchRequest("x", roles=ALL_ROLES))) == 100


@pytest.mark.parametrize("aside", [50, 1000], ids=["few", "more than are read at once"])
def test_memories_left_out_by_their_role_dont_crowd_out_the_rest_while_pruning(
    large_tenant: LargeTenant, aside: int
) -> None:
    crowd, tenant = large_tenant
    crowd.owner.execute(
        "UPDATE memories SET role = CASE WHEN seq %% 2 = 0 THEN 'tool' ELSE 'system' END WHERE seq <= %s", [aside]
    )
    crowd.owner.execute("VACUUM ANALYZE")
    probe = crowd.probe("w10", "common", among=3000)
    tables, indexes, _ = read(tenant, probe)
    assert tables == set()
    assert {"memories_aside", f"graph_{crowd.space}_{tenant.hex}"} <= indexes
    usual = candidates_of(tenant, probe)
    assert (len(usual), {one.role for one in usual}) == (CANDIDATES_OF_MANY, {None})
    every = candidates_of(tenant, probe, SearchRequest("x", roles=ALL_ROLES))
    assert {one.role for one in every} & {"tool", "system"}
    # Scores are relative to the best result, so they differ between the two searches; the best memories don't.
    assert {one.memory_id for one in usual[:10]} <= {one.memory_id for one in every}


def test_a_search_for_a_role_of_few_gives_all_of_them(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    crowd.owner.execute("UPDATE memories SET role = 'tool' WHERE seq <= 12")
    some = candidates_of(tenant, crowd.probe("common", among=3000), SearchRequest("x", roles=("tool",)))
    assert (len(some), {one.role for one in some}) == (12, {"tool"})


@pytest.mark.parametrize("among", [None, 3000], ids=["compared", "by graph"])
def test_neighbours_are_of_the_roles_asked_for(large_tenant: LargeTenant, among: int | None) -> None:
    crowd, tenant = large_tenant
    probe = crowd.probe(among=among)
    parents = [one.memory_id for one in candidates_of(tenant, probe)[:5]]

    def neighbours(request: SearchRequest) -> set[UUID]:
        with database.tenant(tenant) as tx:
            return {one.memory_id for one in find_neighbours(tx, tenant, parents, ("vector",), probe, request)}

    before = neighbours(SearchRequest("x"))
    crowd.owner.execute("UPDATE memories SET role = 'system' WHERE memory_id = ANY (%s)", [list(before)])
    assert before
    assert not before & neighbours(SearchRequest("x"))
    assert before == neighbours(SearchRequest("x", roles=ALL_ROLES))


def test_a_vector_written_anew_leaves_the_graph_and_is_found(large_tenant: LargeTenant) -> None:
    crowd, tenant = large_tenant
    probe = crowd.probe(among=3000)
    assert probe.vector is not None
    changed = candidates_of(tenant, probe)[-1].memory_id
    crowd.owner.execute(
        "UPDATE embeddings SET grafted = false, embedding = %s::halfvec WHERE memory_id = %s",
        [str(list(map(float, probe.vector))), changed],
    )
    assert candidates_of(tenant, probe)[0].memory_id == changed


def test_neighbours_of_a_large_tenant_come_from_its_graph_and_are_those_of_all_compared(
    large_tenant: LargeTenant,
) -> None:
    crowd, tenant = large_tenant
    crowd.owner.execute(
        "UPDATE embeddings SET grafted = false WHERE memory_id < '08000000-0000-0000-0000-000000000000'"
    )
    probe, every = crowd.probe(among=3000), crowd.probe()
    parents = [one.memory_id for one in candidates_of(tenant, every)[:5]]
    database.close()
    with database.tenant(tenant) as tx:
        by_graph = find_neighbours(tx, tenant, parents, ("vector",), probe, SearchRequest("x"))
        tables, indexes, rows = scanned(tx)
    assert tables == set()
    assert {f"graph_{crowd.space}_{tenant.hex}", f"tail_{crowd.space}_{tenant.hex}"} <= indexes
    assert rows < 9000  # some hundred rows per parent, and their tiers
    with database.tenant(tenant) as tx:
        compared = find_neighbours(tx, tenant, parents, ("vector",), every, SearchRequest("x"))
    assert len(compared) == 25
    assert set(by_graph) == set(compared)


def indexes_of(crowd: Crowd, tenant: UUID) -> int:
    [[count]] = crowd.owner.execute(
        "SELECT count(*) FROM pg_indexes WHERE indexname LIKE %s", [f"%{tenant.hex}"]
    ).fetchall()
    assert isinstance(count, int)
    return count


def test_indexes_come_with_growth_move_with_the_space_and_go_with_shrinking(crowd: Crowd) -> None:
    tenant = crowd.tenant(LIMIT)
    assert not tenant_indexes.needs_maintenance(tenant)
    crowd.owner.execute("UPDATE words SET documents = documents + 1")
    assert tenant_indexes.needs_maintenance(tenant)
    crowd.maintain_indexes(tenant)
    assert (indexes_of(crowd, tenant), tenant_indexes.needs_maintenance(tenant)) == (5, False)
    crowd.owner.execute("UPDATE words SET documents = %s", [LIMIT // 2 + 1])
    assert not tenant_indexes.needs_maintenance(tenant)  # hysteresis: a tenant near the limit keeps its indexes
    crowd.owner.execute("UPDATE words SET documents = %s", [LIMIT // 2])
    assert tenant_indexes.needs_maintenance(tenant)
    crowd.maintain_indexes(tenant)
    assert (indexes_of(crowd, tenant), tenant_indexes.needs_maintenance(tenant)) == (0, False)
    crowd.owner.execute("UPDATE words SET documents = %s", [2 * LIMIT])
    crowd.maintain_indexes(tenant)  # remaining marks are removed first
    tables, indexes, _ = read(tenant, crowd.probe("w7", among=LIMIT))
    assert (tables, f"graph_{crowd.space}_{tenant.hex}" in indexes) == (set(), True)
    assert len(candidates_of(tenant, crowd.probe("w7", among=LIMIT))) >= indexed_candidates.BY_VECTOR
