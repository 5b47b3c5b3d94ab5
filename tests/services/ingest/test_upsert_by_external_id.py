"""Memories with an external id or a caller's vector: updated, left unchanged, aliased, enriched after changes."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.clients.embedding.embedder import embedder
from app.domain.ingest.memory import MemoryPatch
from app.domain.search.request import SearchRequest
from app.errors import NotFound
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.memories import memories
from app.services.search.search import search
from app.services.storage import lookup
from app.store.memories.memories import StoredMemory
from tests.service import Service, Tenant


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def keyed(text: str, external_id: str = "k", **more: Any) -> dict[str, Any]:
    return {"text": text, "external_id": external_id, **more}


def stored(tenant: Tenant, memory_id: UUID) -> StoredMemory:
    found = lookup.get(tenant.tenant_id, memory_id)
    assert isinstance(found, StoredMemory)
    return found


def waiting(service: Service) -> dict[str, int]:
    found = service.rows("SELECT stage, sum(cardinality(memory_ids))::int FROM tenant_work GROUP BY stage")
    return {stage: count for stage, count in found}  # noqa: C416 - rows are tuples only to psycopg


def vector(service: Service, memory_id: UUID) -> list[float]:
    found: list[float] = json.loads(
        service.one("SELECT embedding::text FROM embeddings WHERE memory_id = %s", memory_id)
    )
    return found


def direction(**places: float) -> list[float]:
    """Return a vector of the embedder's size with these values, by place: `p0`, `p1` and so on."""
    given = [0.0] * embedder().dimensions
    for place, value in places.items():
        given[int(place[1:])] = value
    return given


def test_the_same_external_id_updates_the_memory(service: Service, tenant: Tenant) -> None:
    [first] = service.send(tenant.tenant_id, keyed("one", subject="ann", tags=["a"], salience=0.5))
    [second] = service.send(tenant.tenant_id, keyed("two", speaker="Bob", multiplier=2))
    assert drain.drain_streams() >= 1
    found = stored(tenant, first)
    assert (found.text, found.subject, found.speaker, found.tags) == ("two", None, "Bob", ())
    assert (found.salience, found.salience_source, found.multiplier) == (0.5, "caller", 2.0)
    assert stored(tenant, second).memory_id == stored(tenant, first).memory_id
    assert service.texts(tenant.tenant_id) == ["two"]


@pytest.mark.parametrize("together", [True, False])
def test_an_update_keeps_the_multiplier_that_it_leaves_out(service: Service, tenant: Tenant, *, together: bool) -> None:
    """A caller that sends its records again each night doesn't undo the increase by uses in other domains."""
    [memory_id] = service.send(tenant.tenant_id, keyed("one", multiplier=1.5))
    if not together:
        drain.drain_streams()
    service.send(tenant.tenant_id, keyed("one"))
    service.send(tenant.tenant_id, keyed("two"))
    drain.drain_streams()
    assert stored(tenant, memory_id).multiplier == 1.5


def test_an_update_that_leaves_salience_or_multiplier_out_keeps_them(service: Service, tenant: Tenant) -> None:
    [first] = service.send(tenant.tenant_id, keyed("one", salience=0.5, multiplier=2))
    for update in (["two"], ["three", "four"]):
        service.send(tenant.tenant_id, *map(keyed, update))
        drain.drain_streams()
    found = stored(tenant, first)
    assert (found.text, found.salience, found.multiplier) == ("four", 0.5, 2)


def test_a_number_too_small_for_its_column_is_nought(service: Service, tenant: Tenant) -> None:
    tiny: dict[str, Any] = {"salience": 5e-324, "multiplier": 1e-45}
    ids = service.send(tenant.tenant_id, keyed("one", **tiny), {"text": "two"} | tiny)
    assert drain.drain_streams() == 2
    edited = memories.edit_memory(tenant.tenant_id, ids[1], MemoryPatch(salience=1e-60, multiplier=1e-60))
    for found in (stored(tenant, ids[0]), edited):
        assert (found.salience, found.salience_source, found.multiplier) == (0, "caller", 0)


def test_an_update_in_another_turn_is_a_new_version(service: Service, tenant: Tenant) -> None:
    [first] = service.send(tenant.tenant_id, keyed("one"))
    service.work()
    assert stored(tenant, first).embedded
    [second] = service.send(tenant.tenant_id, keyed("two"))
    assert drain.drain_streams() == 1
    found = stored(tenant, second)
    assert (found.memory_id, found.text, found.indexed, found.embedded) == (first, "two", True, False)
    assert found.updated_at is not None
    assert service.one("SELECT text_version FROM memories") == 2
    service.work()
    assert stored(tenant, first).embedded
    assert [result.id for result in search(tenant.tenant_id, SearchRequest("two"))] == [first]
    assert words(service, first) >= {"two"}
    assert "one" not in words(service, first)


def test_the_same_content_again_changes_nothing(service: Service, tenant: Tenant) -> None:
    memory = keyed("same", subject="ann", occurred_at="2026-03-07T12:00:00+02:00", metadata={"b": 1, "a": [2]})
    [first] = service.send(tenant.tenant_id, memory)
    service.work()
    before = stored(tenant, first)
    [again] = service.send(tenant.tenant_id, memory | {"metadata": {"a": [2], "b": 1}})
    assert drain.drain_streams() == 0
    assert stored(tenant, first) == stored(tenant, again) == before
    assert waiting(service) == {}
    assert service.one("SELECT text_version FROM memories") == 1


def test_one_external_id_twice_in_a_batch_leaves_the_last(service: Service, tenant: Tenant) -> None:
    ids = service.send(tenant.tenant_id, keyed("one"), "plain", keyed("two"), keyed("other", "o"), keyed("three"))
    assert drain.drain_streams() == 3
    assert sorted(service.texts(tenant.tenant_id)) == ["other", "plain", "three"]
    for memory_id in (ids[0], ids[2], ids[4]):
        assert stored(tenant, memory_id).text == "three"


def test_several_requests_of_one_turn_count_in_the_order_of_acceptance(service: Service, tenant: Tenant) -> None:
    ids = [service.send(tenant.tenant_id, keyed(text))[0] for text in ("one", "two", "three")]
    drain.drain_streams()
    assert service.texts(tenant.tenant_id) == ["three"]
    assert {stored(tenant, memory_id).text for memory_id in ids} == {"three"}


def test_a_batch_of_known_and_new_ids_is_stored_as_a_whole(service: Service, tenant: Tenant) -> None:
    [first] = service.send(tenant.tenant_id, keyed("old", "a"))
    drain.drain_streams()
    ids = service.send(tenant.tenant_id, keyed("new", "a"), keyed("fresh", "b"), "plain")
    assert drain.drain_streams() == 3
    assert [stored(tenant, memory_id).text for memory_id in ids] == ["new", "fresh", "plain"]
    assert stored(tenant, ids[0]).memory_id == first


def test_after_a_delete_the_external_id_is_free_again(service: Service, tenant: Tenant) -> None:
    [first] = service.send(tenant.tenant_id, keyed("one"))
    drain.drain_streams()
    memories.delete(tenant.tenant_id, first)
    [second] = service.send(tenant.tenant_id, keyed("one"))
    assert drain.drain_streams() == 1
    assert stored(tenant, second).memory_id == second
    with pytest.raises(NotFound):
        lookup.get(tenant.tenant_id, first)


def test_an_alias_of_a_deleted_memory_names_nothing(service: Service, tenant: Tenant) -> None:
    [first] = service.send(tenant.tenant_id, keyed("one"))
    [alias] = service.send(tenant.tenant_id, keyed("two"))
    drain.drain_streams()
    memories.delete(tenant.tenant_id, alias)
    for memory_id in (first, alias):
        with pytest.raises(NotFound):
            lookup.get(tenant.tenant_id, memory_id)
        with pytest.raises(NotFound):
            memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(text="x"))


def test_an_alias_is_as_good_as_the_id(service: Service, tenant: Tenant) -> None:
    [first] = service.send(tenant.tenant_id, keyed("one"))
    drain.drain_streams()
    [alias] = service.send(tenant.tenant_id, keyed("two"))
    drain.drain_streams()
    assert memories.edit_memory(tenant.tenant_id, alias, MemoryPatch(text="three")).memory_id == first
    assert stored(tenant, first).text == "three"
    assert memories.are_searchable(tenant.tenant_id, alias.bytes, [alias]) is False
    service.work()
    assert memories.are_searchable(tenant.tenant_id, alias.bytes, [alias])


def test_an_external_id_belongs_to_its_tenant(service: Service, tenant: Tenant) -> None:
    other = service.tenant()
    [mine] = service.send(tenant.tenant_id, keyed("mine"))
    [theirs] = service.send(other.tenant_id, keyed("theirs"))
    drain.drain_streams()
    assert (stored(tenant, mine).text, stored(other, theirs).text) == ("mine", "theirs")


def test_the_callers_vector_is_taken_as_a_direction(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, {"text": "cat", "embedding": direction(p0=30.0, p1=-40.0)})
    drain.drain_streams()
    assert waiting(service) == {"index": 1, "score": 1}
    assert stored(tenant, memory_id).embedded
    assert vector(service, memory_id)[:3] == pytest.approx([0.6, -0.8, 0.0], abs=1e-3)


@pytest.mark.parametrize("length", [1e-11, 1e150, 1e300])
def test_a_vector_of_any_length_keeps_its_direction(service: Service, tenant: Tenant, length: float) -> None:
    [memory_id] = service.send(tenant.tenant_id, {"text": "cat", "embedding": direction(p0=3 * length, p1=4 * length)})
    drain.drain_streams()
    assert service.letters(tenant.tenant_id) == []
    assert vector(service, memory_id)[:3] == pytest.approx([0.6, 0.8, 0.0], abs=1e-3)


def test_an_edit_replaces_the_callers_vector_by_the_embedders(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, {"text": "cat", "embedding": direction(p0=1)})
    service.work()
    memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(text="A dog barks at night"))
    assert not stored(tenant, memory_id).embedded
    assert service.rows("SELECT 1 FROM embeddings") == []
    stage_runner.embed()
    assert stored(tenant, memory_id).embedded
    assert vector(service, memory_id)[0] != pytest.approx(1, abs=0.01)
    assert np.linalg.norm(vector(service, memory_id)) == pytest.approx(1, abs=1e-2)


def test_an_update_may_bring_a_vector_and_the_next_may_not(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, keyed("one"))
    service.work()
    service.send(tenant.tenant_id, keyed("two", embedding=direction(p5=2)))
    drain.drain_streams()
    assert vector(service, memory_id)[5] == pytest.approx(1, abs=1e-3)
    service.work()
    service.send(tenant.tenant_id, keyed("three"))
    drain.drain_streams()
    assert not stored(tenant, memory_id).embedded
    service.work()
    assert vector(service, memory_id)[5] != pytest.approx(1, abs=1e-2)


def test_an_edit_of_a_neighbour_leaves_the_callers_vector_alone(service: Service, tenant: Tenant) -> None:
    [said, memory_id] = service.send(
        tenant.tenant_id,
        {"text": "cat", "thread": "pets"},
        {"text": "dog", "thread": "pets", "embedding": direction(p0=1)},
    )
    service.work()
    memories.edit_memory(tenant.tenant_id, said, MemoryPatch(text="A parrot that swears"))
    service.work()
    assert vector(service, memory_id)[0] == pytest.approx(1, abs=1e-3)


def test_another_vector_for_the_same_text_is_taken(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, keyed("one", embedding=direction(p5=1)))
    service.work()
    service.send(tenant.tenant_id, keyed("one", embedding=direction(p6=1)))
    service.work()
    assert vector(service, memory_id)[5:7] == pytest.approx([0, 1], abs=1e-3)
    assert stored(tenant, memory_id).embedded


def words(service: Service, memory_id: UUID) -> set[str]:
    """Return all words of a memory's row: its own and its neighbours'."""
    found = service.rows("SELECT unnest(tsvector_to_array(words)) FROM memory_words WHERE memory_id = %s", memory_id)
    return {word for (word,) in found}


@pytest.mark.parametrize("by", ["external id", "edit"])
def test_a_move_to_another_thread_repairs_both_neighbourhoods(service: Service, tenant: Tenant, by: str) -> None:
    [old, moved] = service.send(
        tenant.tenant_id,
        {"text": "alpha", "thread": "one"},
        keyed("mover", thread="one"),
        keyed("beta", "b", thread="one"),
    )[:2]
    [new] = service.send(tenant.tenant_id, {"text": "gamma", "thread": "two"})
    service.work()
    assert "mover" in words(service, old)
    before = vector(service, new)
    if by == "edit":
        memories.edit_memory(tenant.tenant_id, moved, MemoryPatch(thread="two"))
        assert "mover" not in words(service, old)
        assert "mover" in words(service, new)
    else:
        service.send(tenant.tenant_id, keyed("mover", thread="two"))
    service.work()
    assert "mover" not in words(service, old)
    assert {"mover", "gamma"} <= words(service, new)
    assert {"mover", "gamma"} <= words(service, moved)
    assert "alpha" not in words(service, moved)
    assert vector(service, new) != pytest.approx(before, abs=1e-4), "its context has changed"
    assert waiting(service) == {}
