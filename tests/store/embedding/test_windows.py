"""Windows of long memories in a tenant with dedicated indexes."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest

from app.domain.search.request import SearchRequest
from app.domain.text.windows import WINDOW_SHARE
from app.services.embedding import tenant_indexes
from app.settings import settings
from app.store.core import database
from app.store.search.candidate_selection import SearchProbe
from tests.store.bulk_tenants import DIMENSIONS, Crowd, candidates_of

MANY = 1500


def divide(crowd: Crowd, tenant: UUID, memory_id: UUID, *vectors: np.ndarray) -> None:
    """Insert windows with these vectors for a memory."""
    for place, vector in enumerate(vectors):
        crowd.owner.execute(
            "INSERT INTO memory_windows (tenant_id, space_id, memory_id, place, from_char, to_char, embedding) "
            "VALUES (%s, %s, %s, %s, 0, 1, %s::text::halfvec)",
            [tenant, crowd.space, memory_id, place, str(vector.tolist())],
        )


def some(crowd: Crowd, tenant: UUID, count: int) -> list[UUID]:
    rows = crowd.owner.execute("SELECT memory_id FROM memories WHERE tenant_id = %s ORDER BY seq", [tenant]).fetchall()
    return [memory_id for (memory_id,) in rows[:count]]


def grafted(crowd: Crowd) -> set[bool]:
    return {is_grafted for (is_grafted,) in crowd.owner.execute("SELECT grafted FROM memory_windows")}


def opposite(probe: SearchProbe) -> np.ndarray:
    assert probe.vector is not None
    return -probe.vector


def towards(probe: SearchProbe) -> np.ndarray:
    assert probe.vector is not None
    return probe.vector


@pytest.mark.parametrize("words", [(), ("w7", "u100")])
def test_the_nearest_windows_are_found_inside_the_graph_and_outside_it(crowd: Crowd, words: tuple[str, ...]) -> None:
    tenant = crowd.large(MANY)
    probe = replace(crowd.probe(*words, among=MANY), has_windows=True)
    [long, near_own, deleted] = some(crowd, tenant, 3)
    crowd.owner.execute(
        "UPDATE embeddings SET embedding = %s::text::halfvec, grafted = false WHERE memory_id IN (%s, %s)",
        [str(opposite(probe).tolist()), long, deleted],
    )
    for memory_id in (long, deleted):
        divide(crowd, tenant, memory_id, opposite(probe), towards(probe))
    divide(crowd, tenant, near_own, opposite(probe))
    crowd.owner.execute("UPDATE memories SET deleted_at = now() WHERE memory_id = %s", [deleted])
    crowd.owner.execute("UPDATE memory_state SET tier = 'deleted' WHERE memory_id = %s", [deleted])
    own = crowd.owner.execute(
        "SELECT -(embedding <#> %s::text::halfvec) FROM embeddings WHERE memory_id = %s",
        [str(towards(probe).tolist()), near_own],
    ).fetchone()
    assert own is not None

    def check() -> None:
        cosine = {candidate.memory_id: candidate.cosine for candidate in candidates_of(tenant, probe)}
        assert cosine[long] == pytest.approx(WINDOW_SHARE, abs=0.01)
        assert deleted not in cosine
        assert cosine.get(near_own, 0) == pytest.approx(max(own[0], 0), abs=0.01) or near_own not in cosine

    assert grafted(crowd) == {False}
    check()
    crowd.maintain_indexes(tenant)
    assert grafted(crowd) == {True}
    check()


def test_a_memory_found_by_its_words_counts_by_its_best_window(crowd: Crowd) -> None:
    """So many windows are nearer that the vector search alone doesn't reach the memory's own window."""
    tenant = crowd.large(MANY)
    probe = replace(crowd.probe("u100", among=MANY), has_windows=True)
    ids = some(crowd, tenant, 400)
    for memory_id in ids[110:]:
        divide(crowd, tenant, memory_id, towards(probe))
    row = crowd.owner.execute(
        "SELECT memory_id FROM memories WHERE tenant_id = %s AND text LIKE %s", [tenant, "% u100"]
    ).fetchone()
    assert row is not None
    half = towards(probe) + np.roll(np.eye(DIMENSIONS)[0], 1)
    half /= np.linalg.norm(half)
    divide(crowd, tenant, row[0], half)
    crowd.owner.execute(
        "UPDATE embeddings SET embedding = %s::text::halfvec, grafted = false WHERE memory_id = %s",
        [str(opposite(probe).tolist()), row[0]],
    )
    cosine = {candidate.memory_id: candidate.cosine for candidate in candidates_of(tenant, probe)}
    assert cosine[row[0]] == pytest.approx(WINDOW_SHARE * float(half @ towards(probe)), abs=0.01)


def test_memories_that_a_filter_leaves_count_by_their_best_windows(crowd: Crowd) -> None:
    tenant = crowd.large(MANY)
    probe = replace(crowd.probe(among=MANY), has_windows=True)
    [_, long] = some(crowd, tenant, 2)
    divide(crowd, tenant, long, towards(probe))
    best = candidates_of(tenant, probe, SearchRequest("x", subject="s0"))[0]
    assert best.memory_id == long
    assert best.cosine == pytest.approx(WINDOW_SHARE, abs=0.01)


def test_a_tenant_that_shrinks_loses_the_index_of_its_windows(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = crowd.large(MANY)
    probe = replace(crowd.probe(among=MANY), has_windows=True)
    [long] = some(crowd, tenant, 1)
    divide(crowd, tenant, long, towards(probe))
    assert not tenant_indexes.needs_maintenance(tenant)
    monkeypatch.setattr(tenant_indexes, "TAIL_MAX", 1)
    assert tenant_indexes.needs_maintenance(tenant)
    crowd.maintain_indexes(tenant)

    def indexes() -> set[str]:
        rows = crowd.owner.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'memory_windows'")
        return {name for (name,) in rows if tenant.hex in name}

    assert indexes() == {f"window_graph_{crowd.space}_{tenant.hex}", f"window_tail_{crowd.space}_{tenant.hex}"}
    monkeypatch.setenv("EBBING_SEARCH_EXACT_ROWS", "100000")
    settings.cache_clear()
    crowd.maintain_indexes(tenant)
    assert indexes() == set()
    with database.tenant(tenant) as tx:
        plan = tx.exec_driver_sql("SELECT graph_space_id FROM tenant_spaces WHERE tenant_id = %s", (tenant,))
        assert plan.scalar_one() is None
    cosine = {
        candidate.memory_id: candidate.cosine
        for candidate in candidates_of(tenant, replace(crowd.probe(), has_windows=True))
    }
    assert cosine[long] >= WINDOW_SHARE - 0.01
