"""The archive: which memories move there, what they leave elsewhere, and what searches find."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID

import pytest

from app.domain.search.request import SearchRequest
from app.services.enrichment import index
from app.services.ingest import drain
from app.services.memories import memories
from app.services.search.search import find_memories, search
from app.services.storage import lookup
from app.services.tiers import archive, pca_fitting
from tests.service import Service, Tenant
from tests.services import archived_memories
from tests.services.archived_memories import archive_all, fade, remember, search_tiers, tiers
from tests.services.due_deletions import erased
from tests.variants import variants
from tests.waiting import PATIENCE_SECONDS

KETTLE, BOAT = "The red kettle stands in the kitchen", "We rowed the boat across the lake"


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def counted(service: Service) -> dict[str, int]:
    """Return the number of memories with each word in their own text."""
    return dict(service.rows("SELECT word, documents FROM words"))


def test_what_has_faded_is_archived_and_leaves_the_active_indexes(service: Service, tenant: Tenant) -> None:
    kettle, boat = remember(service, tenant.tenant_id, KETTLE, BOAT)
    fade(service, [kettle])
    assert archive_all(tenant.tenant_id)[0]["archived"] == 1
    assert tiers(service, [kettle, boat]) == ["archived", "active"]
    for table in ("embeddings", "memory_words"):
        assert service.rows(f"SELECT memory_id FROM {table}") == [(boat,)]  # noqa: S608 - constants
    left = counted(service)
    assert left[""] == 1
    assert "kettl" not in left
    assert lookup.get(tenant.tenant_id, kettle).text == KETTLE  # type: ignore[union-attr]
    [(before, after)] = service.rows("SELECT before, after FROM memory_events WHERE kind = 'tier'")
    assert (before, after) == (0, 1)


def test_a_second_run_finds_nothing_to_do(service: Service, tenant: Tenant) -> None:
    fade(service, remember(service, tenant.tenant_id, KETTLE))
    archive_all(tenant.tenant_id)
    held = service.rows("SELECT * FROM archived_memories")
    assert archive_all(tenant.tenant_id)[0]["archived"] == 0
    assert service.rows("SELECT * FROM archived_memories") == held


def test_neighbours_lose_its_words_and_keep_theirs(service: Service, tenant: Tenant) -> None:
    turns = [{"text": text, "thread": "t"} for text in ("apples", "kettles", "boats", "lamps")]
    first, second, third, fourth = remember(service, tenant.tenant_id, *turns)
    fade(service, [second])
    archive_all(tenant.tenant_id)
    fruits = {"appl", "kettl", "boat", "lamp"}

    def context() -> dict[UUID, set[str]]:
        rows = service.rows("SELECT memory_id, tsvector_to_array(words) FROM memory_words")
        return {memory_id: fruits.intersection(words) for memory_id, words in rows}

    once = {first: {"appl", "boat"}, third: {"appl", "boat", "lamp"}, fourth: {"boat", "lamp"}}
    assert context() == once
    index.index_memories(tenant.tenant_id, [first, second, third, fourth])  # must not bring any word back
    assert context() == once
    assert counted(service)[""] == 3


def test_searches_of_active_memories_never_look_there(service: Service, tenant: Tenant) -> None:
    kettle, boat = remember(service, tenant.tenant_id, KETTLE, BOAT)
    fade(service, [kettle])
    archive_all(tenant.tenant_id)
    service.rows("ALTER TABLE archived_memories RENAME TO elsewhere")
    try:
        results = search(tenant.tenant_id, SearchRequest("red kettle boat"))
        assert [result.id for result in results] == [boat]
    finally:
        service.rows("ALTER TABLE elsewhere RENAME TO archived_memories")


def test_searches_that_ask_for_it_find_both_side_by_side(service: Service, tenant: Tenant) -> None:
    kettle, teapot, boat = remember(service, tenant.tenant_id, KETTLE, "The red teapot stands on the shelf", BOAT)
    fade(service, [kettle])
    archive_all(tenant.tenant_id)
    both = search_tiers(tenant.tenant_id, "red kettle", "active", "archived")
    assert [(result.id, result.tier) for result in both][:2] == [(kettle, "archived"), (teapot, "active")]
    assert [result.id for result in search_tiers(tenant.tenant_id, "red kettle", "archived")] == [kettle]
    explained = both[0].explain or {}
    assert set(explained["matched"]) == {"red", "kettle"}, "a word that no active memory contains finds it too"
    assert explained["relevance"] > 0
    assert search_tiers(tenant.tenant_id, "boat", "archived", subject="nobody") == []
    assert boat not in {result.id for result in search_tiers(tenant.tenant_id, "boat", "archived")}


def test_a_hit_is_listed_and_not_used(service: Service, tenant: Tenant) -> None:
    kettle, teapot = remember(service, tenant.tenant_id, KETTLE, "The red teapot stands on the shelf")
    fade(service, [kettle])
    archive_all(tenant.tenant_id)
    request = SearchRequest("red teapot", tiers=("active", "archived"), reinforce=True)
    hits = find_memories(tenant.tenant_id, request)
    assert len(hits.results) == 2
    assert [use.id for use in hits.uses] == [teapot]
    assert tiers(service, [kettle]) == ["archived"]


def test_a_memory_without_words_and_vector_is_archived_all_the_same(service: Service, tenant: Tenant) -> None:
    ids = service.send(tenant.tenant_id, KETTLE)
    drain.drain_streams()
    fade(service, ids)
    archive_all(tenant.tenant_id)
    assert service.rows("SELECT vector, own IS NULL FROM archived_memories") == [(None, False)]
    archived_memories.embed(service)  # work queued before the move
    assert service.rows("SELECT * FROM embeddings") == service.rows("SELECT * FROM memory_words") == []
    assert counted(service) == {}
    assert [result.id for result in search_tiers(tenant.tenant_id, "kettle", "archived")] == ids


def test_deleting_an_archived_memory_leaves_nothing_of_it(service: Service, tenant: Tenant) -> None:
    [kettle] = ids = remember(service, tenant.tenant_id, KETTLE)
    fade(service, ids)
    archive_all(tenant.tenant_id)
    memories.delete(tenant.tenant_id, kettle)
    assert search_tiers(tenant.tenant_id, "kettle", "active", "archived") == []
    erased(tenant.tenant_id)
    assert service.rows("SELECT * FROM archived_memories") == []


def test_two_movers_at_once_share_the_work(service: Service, tenant: Tenant) -> None:
    ids = remember(service, tenant.tenant_id, *(f"memory {n} of a boat" for n in range(60)))
    fade(service, ids)
    archived_memories.swept(tenant.tenant_id)
    both = Barrier(2)

    def mover() -> int:
        both.wait()
        done = 0
        while (moved := archive.move_slice(tenant.tenant_id, None, None, limit=7))[0]:
            done += moved[1]["archived"]
        return done

    with ThreadPoolExecutor(2) as pool:
        assert sum(future.result() for future in [pool.submit(mover) for _ in range(2)]) == 60
    assert service.one("SELECT count(*) FROM archived_memories") == 60
    assert counted(service) == {}


@pytest.mark.parametrize("act", ["edit", "delete", "touch"])
def test_what_happens_during_a_move_is_done_before_it_or_after_it(service: Service, tenant: Tenant, act: str) -> None:
    ids = remember(service, tenant.tenant_id, *({"text": f"turn {n} of a boat", "thread": "t"} for n in range(40)))
    fade(service, ids)
    archived_memories.swept(tenant.tenant_id)
    both = Barrier(2)

    def mover() -> None:
        both.wait()
        while archive.move_slice(tenant.tenant_id, None, None, limit=5)[0]:
            pass

    def other() -> None:
        both.wait()
        for memory_id in reversed(ids):
            archived_memories.act_on(tenant.tenant_id, memory_id, act)

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(mover), pool.submit(other)]:
            future.result(timeout=PATIENCE_SECONDS)
    archived_memories.embed(service)
    archived_memories.check(service, ids)
    assert set(tiers(service, ids)) <= ({"deleted"} if act == "delete" else {"active", "archived"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", variants(["archive.before", "archive.before_commit", "archive.after_commit"], {"archive.before_commit"})
)
def test_killed_anywhere_it_is_the_old_state_or_the_new(service: Service, tenant: Tenant, place: str) -> None:
    ids = remember(service, tenant.tenant_id, *({"text": f"turn {n} of a boat", "thread": "t"} for n in range(5)))
    fade(service, ids[:3])
    archived_memories.swept(tenant.tenant_id)
    code = (
        "from uuid import UUID; from app.services.tiers import archive; "
        f"archive.move_slice(UUID('{tenant.tenant_id}'), None, None)"
    )
    environment = {**os.environ, "EBBING_FAILPOINTS": place}
    died = subprocess.run([sys.executable, "-c", code, str(tenant.tenant_id)], env=environment, check=False)
    assert died.returncode == -9
    is_moved = place == "archive.after_commit"
    assert tiers(service, ids[:3]) == ["archived" if is_moved else "active"] * 3
    assert service.one("SELECT count(*) FROM archived_memories") == (3 if is_moved else 0)
    assert service.one("SELECT count(*) FROM memory_words") == (2 if is_moved else 5)
    archive_all(tenant.tenant_id)
    assert tiers(service, ids) == ["archived"] * 3 + ["active"] * 2
    assert counted(service)["boat"] == 2


def test_a_dry_run_lists_what_a_run_then_moves_and_why(service: Service, tenant: Tenant) -> None:
    ids = remember(service, tenant.tenant_id, *(f"memory {n}" for n in range(5)))
    fade(service, ids[:3])
    page = archive.preview_archive(tenant.tenant_id, None, None, 2)
    assert [move.memory_id for move in page.moves] == sorted(ids[:3])[:2]
    rest = archive.preview_archive(tenant.tenant_id, None, page.following, 2)
    listed = [*page.moves, *rest.moves]
    assert rest.following is None
    assert {(move.before, move.after, move.rule) for move in listed} == {("active", "archived", "decay")}
    assert all("strength" in move.why for move in listed)
    assert set(tiers(service, ids)) == {"active"}
    counts, _ = archive_all(tenant.tenant_id)
    assert counts["archived"] == len(listed) == page.counts["archived"] + rest.counts["archived"]
    assert sorted(move.memory_id for move in listed) == [
        memory_id for memory_id, tier in zip(ids, tiers(service, ids), strict=True) if tier == "archived"
    ]


def test_without_a_basis_vectors_are_kept_whole_and_it_says_so(service: Service, tenant: Tenant) -> None:
    ids = remember(service, tenant.tenant_id, KETTLE)
    fade(service, ids)
    counts, notes = archive_all(tenant.tenant_id)
    assert counts["whole"] == 1
    assert notes == ["1 vectors are too few to fit a basis: they aren't reduced for now"]
    assert service.rows("SELECT vector_dims(vector), basis_id FROM archived_memories") == [(256, None)]
    assert pca_fitting.list_in_use(tenant.tenant_id)[0].variance_kept == 1
