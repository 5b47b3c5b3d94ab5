"""The next search sees a change to a memory, both in its own text and in its neighbours' context."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from app.clients.embedding.static_embedder import StaticEmbedder
from app.domain.ingest.memory import MemoryPatch
from app.domain.search.request import SearchRequest
from app.services.embedding.embed import embed_memories as embed
from app.services.ingest import drain
from app.services.memories import memories
from app.services.search.search import search
from app.store.core import database
from app.store.embedding import embeddings
from app.store.memories import memories as rows
from tests.service import Service, Tenant
from tests.waiting import until

SAID = {
    "a": "The apple tree blossoms",
    "b": "A banana every morning",
    "c": "The cherry cake was burnt",
    "d": "My dentist moved to Dover",
    "e": "Elephants never forget",
    "f": "We sailed around Finland",
}
ORDER = list(SAID)

Talk = dict[str, dict[str, Any]]
Change = Callable[[Service, Tenant, dict[str, UUID]], None]


class StoredIndex(NamedTuple):
    """The index rows of a memory."""

    own: str | None
    words: str | None
    vector: str | None


def talk(**changed: dict[str, Any]) -> Talk:
    """Return six turns of one thread, with these changes."""
    when = "2026-03-07T12:00:00Z"
    plain = {"thread": "t", "speaker": "Ann", "occurred_at": when}
    return {key: {"text": text, "external_id": key, **plain, **changed.get(key, {})} for key, text in SAID.items()}


def store_turns(service: Service, turns: Talk, gone: str = "") -> tuple[Tenant, dict[str, UUID]]:
    """Create a tenant with these turns except those in `gone`; return it and the ids by key."""
    tenant = service.tenant()
    keys = [key for key in ORDER if key not in gone]
    ids = service.send(tenant.tenant_id, *(turns[key] for key in keys))
    service.work()
    return tenant, dict(zip(keys, ids, strict=True))


def stored_index(service: Service, tenant: Tenant) -> dict[str, StoredIndex]:
    found = service.rows(
        "SELECT external_id, own::text, words::text, embedding::text FROM memories "
        "LEFT JOIN memory_words USING (tenant_id, memory_id) LEFT JOIN embeddings USING (tenant_id, memory_id) "
        "WHERE tenant_id = %s AND deleted_at IS NULL",
        tenant.tenant_id,
    )
    return {key: StoredIndex(*row) for key, *row in found}


def counts(service: Service, tenant: Tenant) -> dict[str, int]:
    return dict(service.rows("SELECT word, documents FROM words WHERE tenant_id = %s", tenant.tenant_id))


def patch(**fields: Any) -> Change:
    """Return a change that patches turn c."""

    def edit(_: Service, tenant: Tenant, ids: dict[str, UUID]) -> None:
        memories.edit_memory(tenant.tenant_id, ids["c"], MemoryPatch(**fields))

    return edit


def delete(key: str) -> Change:
    def remove(_: Service, tenant: Tenant, ids: dict[str, UUID]) -> None:
        memories.delete(tenant.tenant_id, ids[key])

    return remove


def again(**fields: Any) -> Change:
    """Return a change that sends turn c again by its external id, stored but not yet enriched."""

    def send(service: Service, tenant: Tenant, _: dict[str, UUID]) -> None:
        service.send(tenant.tenant_id, talk(c=fields)["c"])
        drain.drain_streams()

    return send


OTHER = {"text": "Quantum physics is hard"}
CHANGES: dict[str, tuple[Change, Talk, str, str]] = {
    # name: (change, turns as if they had been so from the start, deleted turns, turns without a vector for now)
    "text": (patch(**OTHER), talk(c=OTHER), "", "abcde"),
    "speaker": (patch(speaker="Bob"), talk(c={"speaker": "Bob"}), "", "abcde"),
    "thread": (patch(thread="u"), talk(c={"thread": "u"}), "", "abcde"),
    "no thread": (patch(thread=None), talk(c={"thread": None}), "", "abcde"),
    "delete": (delete("c"), talk(), "c", "abde"),
    "delete the first": (delete("a"), talk(), "a", "bc"),
    "delete the last": (delete("f"), talk(), "f", "de"),
    "external id": (again(**OTHER), talk(c=OTHER), "", "abcde"),
    "external id and thread": (again(thread="u", **OTHER), talk(c={"thread": "u", **OTHER}), "", "abcde"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_next_search_knows_nothing_that_isnt_said_any_more(service: Service, name: str) -> None:
    change, afterwards, gone, unembedded = CHANGES[name]
    from_the_start, _ = store_turns(service, afterwards, gone)
    expected = stored_index(service, from_the_start)
    tenant, ids = store_turns(service, talk())

    change(service, tenant, ids)

    seen = stored_index(service, tenant)
    assert {key: (row.own, row.words) for key, row in seen.items()} == {
        key: (row.own, row.words) for key, row in expected.items()
    }
    assert counts(service, tenant) == counts(service, from_the_start)
    assert {key: row.vector for key, row in seen.items()} == {
        key: None if key in unembedded else row.vector for key, row in expected.items()
    }
    service.work()
    assert stored_index(service, tenant) == expected


@pytest.mark.parametrize("name", ["text", "delete", "external id"])
def test_old_words_and_old_meaning_find_neither_it_nor_its_neighbours(service: Service, name: str) -> None:
    tenant, ids = store_turns(service, talk())
    by_words, by_meaning = SearchRequest("burnt cherry cake"), SearchRequest("ruined pastry from an oven")

    def search_ids(request: SearchRequest) -> set[str]:
        return {result.external_id or "" for result in search(tenant.tenant_id, request)} & set("cde")

    assert search_ids(by_words) == search_ids(by_meaning) == set("cde")
    CHANGES[name][0](service, tenant, ids)
    assert search_ids(by_words) == search_ids(by_meaning) == set()


def test_an_update_of_tags_alone_costs_no_vector_and_no_words(service: Service) -> None:
    tenant, _ = store_turns(service, talk())
    before = stored_index(service, tenant)
    again(tags=["new"])(service, tenant, {})
    assert stored_index(service, tenant) == before
    assert service.rows("SELECT DISTINCT stage FROM tenant_work") == [("score",)]


def test_a_callers_vector_of_a_neighbour_stays(service: Service) -> None:
    vector = [1.0] + [0.0] * 255
    tenant, ids = store_turns(service, talk(d={"embedding": vector}))
    before = stored_index(service, tenant)["d"].vector
    patch(**OTHER)(service, tenant, ids)
    assert stored_index(service, tenant)["d"].vector == before is not None


@pytest.mark.parametrize("name", ["text", "thread", "delete", "external id"])
def test_a_vector_made_of_what_was_changed_meanwhile_isnt_written(
    service: Service, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The change comes after the embedder received the turns and before their vectors are written."""
    tenant, ids = store_turns(service, talk())
    change, _, _, unembedded = CHANGES[name]
    embed_memories = StaticEmbedder.embed_memories

    def interrupted(model: StaticEmbedder, *given: Any) -> Any:
        change(service, tenant, ids)
        return embed_memories(model, *given)

    monkeypatch.setattr(StaticEmbedder, "embed_memories", interrupted)
    embed(tenant.tenant_id, list(ids.values()))
    assert {key for key, row in stored_index(service, tenant).items() if row.vector is None} == set(unembedded)


def test_vectors_are_written_before_a_change_or_after_it_but_not_beside_it(service: Service) -> None:
    tenant, ids = store_turns(service, talk())
    with ThreadPoolExecutor(1) as elsewhere:
        with database.tenant(tenant.tenant_id) as tx:
            embeddings.remove(tx, tenant.tenant_id, [ids["c"]])
            rows.update_memory(tx, tenant.tenant_id, ids["c"], OTHER)
            writing = elsewhere.submit(embed, tenant.tenant_id, list(ids.values()))
            until(service.count_lock_waits, "the writer waits for a lock")
        writing.result()
    assert {key for key, row in stored_index(service, tenant).items() if row.vector is None} == set("abcde")
