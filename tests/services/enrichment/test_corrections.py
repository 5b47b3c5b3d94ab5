"""Corrections: which memories are linked to an earlier one, what removes the link, and tenant isolation."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.sources import Writer
from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest
from app.domain.strength.links import NewLink
from app.services.enrichment.index import index_memories
from app.services.memories import links, memories
from app.services.search.search import search
from app.store.core import database
from app.store.memories import links as link_rows
from app.store.memories import memories as memory_rows
from app.store.memories.links import LinkFilter
from app.store.tiers import row_deletion
from tests.service import Service, Tenant

OLD = {"text": "My flight to Oslo is on the 14th of May.", "occurred_at": "2026-03-01T09:00:00Z", "speaker": "user"}
NEW = {
    "text": "The flight has been moved to the 17th of May.",
    "occurred_at": "2026-03-05T09:00:00Z",
    "speaker": "user",
}


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def stored(service: Service, tenant: Tenant, *said: dict[str, Any]) -> list[UUID]:
    ids = service.send(tenant.tenant_id, *said)
    service.work()
    return ids


def corrections(tenant: Tenant) -> list[tuple[UUID, UUID]]:
    found = links.list_links(tenant.tenant_id, LinkFilter(kind="corrects"), None, 100)
    return [(link.memory_id, link.other_id) for link in found if link.source == "correction"]


def test_a_new_value_is_linked_to_the_one_before(service: Service, tenant: Tenant) -> None:
    old, new = stored(service, tenant, OLD, NEW)
    assert corrections(tenant) == [(new, old)]
    [link] = links.list_links(tenant.tenant_id, LinkFilter(new), None, 100)
    assert (link.kind, link.source, link.weight) == ("corrects", "correction", 0.0)


def test_three_steps_make_a_chain(service: Service, tenant: Tenant) -> None:
    last = NEW | {"text": "Flight's moved again, to the 20th of May.", "occurred_at": "2026-03-09T09:00:00Z"}
    old, new, newest = stored(service, tenant, OLD, NEW, last)
    assert set(corrections(tenant)) == {(new, old), (newest, new)}


@pytest.mark.parametrize("first", [OLD, NEW])
def test_the_order_is_that_of_the_events(service: Service, tenant: Tenant, first: dict[str, Any]) -> None:
    second = NEW if first is OLD else OLD
    [a] = stored(service, tenant, first)
    [b] = stored(service, tenant, second)
    assert corrections(tenant) == [(b, a) if first is OLD else (a, b)]


def test_to_index_again_changes_nothing(service: Service, tenant: Tenant) -> None:
    ids = stored(service, tenant, OLD, NEW)
    before = links.list_links(tenant.tenant_id, LinkFilter(), None, 100)
    for _ in range(2):
        index_memories(tenant.tenant_id, ids)
    assert links.list_links(tenant.tenant_id, LinkFilter(), None, 100) == before


@pytest.mark.parametrize(
    "other",
    [
        {"subject": "ann"},
        {"speaker": "assistant"},
        {"role": "assistant"},
        {"role": "system"},
        {"speaker": "Bo"},
        {"text": "The flight might be moved to the 17th of May."},
        {"text": "Can the flight be moved to the 17th of May?"},
        {"text": "Her flight has been moved to the 17th of May."},
        {"text": "The dentist has been moved to the 17th of May."},
    ],
)
def test_what_may_be_of_something_else_is_not_linked(service: Service, tenant: Tenant, other: dict[str, Any]) -> None:
    stored(service, tenant, OLD, NEW | other)
    assert corrections(tenant) == []


def test_two_events_are_no_correction(service: Service, tenant: Tenant) -> None:
    stored(service, tenant, {"text": "Ann met Bo on Monday."}, {"text": "Ann met Bo on Tuesday."})
    assert corrections(tenant) == []


def test_another_tenant_is_never_reached(service: Service, tenant: Tenant) -> None:
    other = service.tenant()
    stored(service, tenant, OLD)
    stored(service, other, NEW)
    assert corrections(tenant) == corrections(other) == []


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize(
    "patch", [MemoryPatch(text="We had pancakes."), MemoryPatch(subject="ann"), MemoryPatch(speaker="Bo")]
)
def test_an_edit_of_either_end_takes_the_link_back(
    service: Service, tenant: Tenant, end: int, patch: MemoryPatch
) -> None:
    ids = stored(service, tenant, OLD, NEW)
    assert corrections(tenant) == [(ids[1], ids[0])]
    memories.edit_memory(tenant.tenant_id, ids[end], patch)
    assert corrections(tenant) == []


@pytest.mark.parametrize("end", [0, 1])
def test_an_update_by_external_id_takes_it_back(service: Service, tenant: Tenant, end: int) -> None:
    given = [OLD | {"external_id": "old"}, NEW | {"external_id": "new"}]
    ids = stored(service, tenant, *given)
    assert corrections(tenant) == [(ids[1], ids[0])]
    stored(service, tenant, given[end] | {"subject": "ann"})
    assert corrections(tenant) == []
    stored(service, tenant, given[end])
    assert len(corrections(tenant)) == 1


def test_an_edit_that_changes_nothing_of_it_keeps_it(service: Service, tenant: Tenant) -> None:
    old, new = stored(service, tenant, OLD, NEW)
    memories.edit_memory(tenant.tenant_id, old, MemoryPatch(text="My flight to Oslo leaves on the 13th of May."))
    memories.edit_memory(tenant.tenant_id, new, MemoryPatch(thread="travel"))
    assert corrections(tenant) == [(new, old)]


def test_a_lower_source_corrects_no_higher_one(service: Service, tenant: Tenant) -> None:
    old, new = stored(service, tenant, OLD, NEW)
    service.rows("UPDATE memories SET source = 'user'")
    tool = Writer("key", "tool")
    memories.edit_memory(tenant.tenant_id, new, MemoryPatch(tags=("a",)), tool)
    assert corrections(tenant) == []
    memories.edit_memory(tenant.tenant_id, old, MemoryPatch(tags=("a",)), tool)
    assert corrections(tenant) == [(new, old)]


def test_an_edit_that_makes_one_is_linked(service: Service, tenant: Tenant) -> None:
    old, new = stored(service, tenant, OLD, NEW | {"text": "We had pancakes."})
    assert corrections(tenant) == []
    memories.edit_memory(tenant.tenant_id, new, MemoryPatch(text=str(NEW["text"])))
    assert corrections(tenant) == [(new, old)]


@pytest.mark.parametrize("end", [0, 1])
def test_a_deleted_end_leaves_no_link(service: Service, tenant: Tenant, end: int) -> None:
    ids = stored(service, tenant, OLD, NEW)
    memories.delete(tenant.tenant_id, ids[end])
    assert corrections(tenant) == []


@pytest.mark.parametrize("end", [0, 1])
def test_a_callers_own_link_stays(service: Service, tenant: Tenant, end: int) -> None:
    ids = stored(service, tenant, OLD, NEW)
    links.add(tenant.tenant_id, [NewLink(ids[1], ids[0], kind="corrects")])
    memories.edit_memory(tenant.tenant_id, ids[end], MemoryPatch(text="We had pancakes."))
    [link] = links.list_links(tenant.tenant_id, LinkFilter(), None, 100)
    assert (link.memory_id, link.other_id, link.source, link.weight) == (ids[1], ids[0], "caller", 1.0)


@pytest.mark.parametrize(
    "policy", [Policy(language="german"), Policy.model_validate({"supersession": {"corrections": False}})]
)
def test_a_policy_without_them_has_none(service: Service, tenant: Tenant, policy: Policy) -> None:
    ids = stored(service, tenant, OLD, NEW)
    assert corrections(tenant) != []
    index_memories(tenant.tenant_id, ids, policy)
    assert corrections(tenant) == []


def ranked_ids(tenant: Tenant, query: str, **fields: Any) -> list[UUID]:
    return [result.id for result in search(tenant.tenant_id, SearchRequest(query, **fields))]


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "dense"])
def test_what_holds_now_stands_directly_above(service: Service, tenant: Tenant, mode: Any) -> None:
    ids = stored(service, tenant, OLD, NEW, {"text": "Oslo was lovely in May."}, {"text": "The plants want water."})
    query = "When is my flight to Oslo?"
    without = Policy.model_validate({"supersession": {"corrections": False}})
    plain = [result.id for result in search(tenant.tenant_id, SearchRequest(query, mode=mode), without)]
    assert plain.index(ids[0]) < plain.index(ids[1])
    ranked = ranked_ids(tenant, query, mode=mode)
    assert ranked.index(ids[1]) == ranked.index(ids[0]) - 1 == plain.index(ids[0])
    assert set(ranked) == set(plain)


@pytest.mark.parametrize("fields", [{"limit": 1}, {"limit": 1, "rerank": 0, "explain": True}])
def test_the_newer_is_brought_in_where_only_the_older_would_be_shown(
    service: Service, tenant: Tenant, fields: dict[str, Any]
) -> None:
    _, new = stored(service, tenant, OLD, NEW)
    assert ranked_ids(tenant, "When is my flight to Oslo?", **fields) == [new]


@pytest.mark.parametrize("query", ["When was my flight to Oslo originally?", "my flight to Oslo as it was before then"])
def test_a_question_about_the_past_keeps_the_older_where_it_was(service: Service, tenant: Tenant, query: str) -> None:
    old, new = stored(service, tenant, OLD, NEW)
    assert ranked_ids(tenant, query) == [old, new]


def test_explain_names_both_ends(service: Service, tenant: Tenant) -> None:
    old, new = stored(service, tenant, OLD, NEW)
    first, second = search(tenant.tenant_id, SearchRequest("my flight to Oslo", explain=True))
    assert first.explain is not None
    assert second.explain is not None
    assert (first.id, first.explain["corrects"]) == (new, [old])
    assert (second.id, second.explain["corrected_by"]) == (old, [new])
    own = first.explain["placed"]["own_score"], second.explain["placed"]["own_score"]
    assert (second.score, first.score) == own, "they swap places"
    assert first.score > second.score


def test_after_an_edit_the_order_is_that_of_the_scores(service: Service, tenant: Tenant) -> None:
    old, new = stored(service, tenant, OLD, NEW)
    memories.edit_memory(tenant.tenant_id, new, MemoryPatch(text="The flight has a stop in Riga."))
    assert ranked_ids(tenant, "my flight to Oslo") == [old, new]


def test_an_erased_end_leaves_no_row(service: Service, tenant: Tenant) -> None:
    ids = stored(service, tenant, OLD, NEW)
    with database.tenant(tenant.tenant_id) as tx:
        memory_rows.lock(tx, tenant.tenant_id, ids[0])
        row_deletion.remove(tx, tenant.tenant_id, [ids[0]])
    assert service.rows("SELECT count(*) FROM links WHERE memory_id = %s OR other_id = %s", ids[0], ids[0]) == [(0,)]
    assert ranked_ids(tenant, "my flight to Oslo") == [ids[1]]


def test_use_of_the_newer_does_not_strengthen_the_older(service: Service, tenant: Tenant) -> None:
    old, new = stored(service, tenant, OLD, NEW)
    with database.tenant(tenant.tenant_id) as tx:
        near = link_rows.list_neighbours(tx, tenant.tenant_id, [new])
    assert list(near.pairs()) == [(new, old)]
    assert near.weights.tolist() == [0.0]
