"""Roles of speakers: stored, updated, excluded from indexed words, and filtered by searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args
from uuid import UUID

import pytest

from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.roles import ROLES, Role, infer_role
from app.domain.policy.policy import Forgetting, Policy
from app.domain.privacy.legal_hold import Scope
from app.domain.recall.request import RecallRequest
from app.domain.search.request import SearchRequest
from app.domain.text.embedding_input import format_passage
from app.services.ingest import drain
from app.services.memories import memories
from app.services.privacy import anonymisation, legal_holds
from app.services.recall import recall
from app.services.search.search import search
from app.services.storage import lookup
from app.store import self_tests
from app.store.consolidation import merged_memories
from app.store.core import database
from app.store.embedding import embeddings
from app.store.enrichment import rating_queue
from app.store.memories.memories import StoredMemory
from tests.service import Service, Tenant
from tests.services.archived_memories import archive_all, fade

ZEBRA = "the zebra crosses at noon"
SPEAKERS: dict[str, dict[str, str]] = {
    **{f"role {role}": {"role": role} for role in ROLES},
    **{f"speaker {role}": {"speaker": role} for role in ROLES},
    "assistant named system": {"role": "assistant", "speaker": "system"},
    "tool named user": {"role": "tool", "speaker": "user"},
    "a name": {"speaker": "Ann"},
    "nobody": {},
}
EFFECTIVE = {name: given.get("role") or infer_role(None, given.get("speaker")) for name, given in SPEAKERS.items()}


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def stored(tenant: Tenant, memory_id: UUID) -> StoredMemory:
    found = lookup.get(tenant.tenant_id, memory_id)
    assert isinstance(found, StoredMemory)
    return found


def every_speaker(service: Service, tenant: Tenant) -> dict[UUID, str]:
    """Store nearly the same text by each of `SPEAKERS`, and map ids to speakers.

    The texts differ since a recall returns equal texts once.
    """
    said = ({"text": f"{ZEBRA}{'!' * n}", **given} for n, given in enumerate(SPEAKERS.values()))
    ids = service.send(tenant.tenant_id, *said)
    service.work()
    return dict(zip(ids, SPEAKERS, strict=True))


def with_role(*roles: Role | None) -> set[str]:
    return {name for name, role in EFFECTIVE.items() if role in roles}


def find_speakers(tenant: Tenant, said: dict[UUID, str], **given: Any) -> set[str]:
    return {said[result.id] for result in search(tenant.tenant_id, SearchRequest("zebra noon", limit=50, **given))}


# --- Storing ---


@pytest.mark.parametrize("role", [None, *ROLES])
@pytest.mark.parametrize("more", [{}, {"external_id": "k"}], ids=["by COPY", "with an external id"])
def test_a_role_is_stored_as_given(service: Service, tenant: Tenant, role: Role | None, more: dict[str, str]) -> None:
    [memory_id] = service.send(tenant.tenant_id, {"text": "x", "speaker": "Ann", "role": role, **more})
    drain.drain_streams()
    assert (stored(tenant, memory_id).role, stored(tenant, memory_id).speaker) == (role, "Ann")


def test_an_update_of_the_role_alone_is_a_new_version_of_the_memory(service: Service, tenant: Tenant) -> None:
    version = "SELECT text_version FROM memories WHERE memory_id = %s"
    given = {"text": "x", "external_id": "k"}
    [memory_id] = service.send(tenant.tenant_id, given | {"role": "user"})
    service.work()
    service.send(tenant.tenant_id, given | {"role": "user"})
    assert drain.drain_streams() == 0
    service.send(tenant.tenant_id, given | {"role": "assistant"})
    assert drain.drain_streams() == 1
    assert (stored(tenant, memory_id).role, service.one(version, memory_id)) == ("assistant", 2)
    memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(role=None))
    assert (stored(tenant, memory_id).role, service.one(version, memory_id)) == (None, 3)
    assert not stored(tenant, memory_id).embedded
    service.work()
    assert stored(tenant, memory_id).embedded


def test_another_role_for_a_held_memory_becomes_a_memory_of_its_own(service: Service, tenant: Tenant) -> None:
    given = {"text": "x", "external_id": "k", "role": "user"}
    [first] = service.send(tenant.tenant_id, given)
    service.work()
    legal_holds.place_hold(tenant.tenant_id, Scope(memory_ids=[first]), "r", "k")
    [same] = service.send(tenant.tenant_id, given)
    service.work()
    assert stored(tenant, same).memory_id == first
    [second] = service.send(tenant.tenant_id, given | {"role": "tool"})
    service.work()
    assert (stored(tenant, second).memory_id, stored(tenant, second).role) == (second, "tool")
    assert stored(tenant, first).role == "user"


@pytest.mark.parametrize("given", [{"role": "assistant", "speaker": "Ann"}, {"speaker": "assistant"}])
def test_an_anonymised_memory_keeps_its_role_and_the_word_in_its_text(
    service: Service, tenant: Tenant, given: dict[str, str]
) -> None:
    [memory_id] = service.send(tenant.tenant_id, {"text": "Ann has an assistant", "subject": "Ann", **given})
    service.work()
    assert anonymisation.anonymise(tenant.tenant_id, memory_id, "key").text == "[name] has an assistant"
    assert (stored(tenant, memory_id).role, stored(tenant, memory_id).speaker) == ("assistant", None)


def test_the_rules_judge_a_role_as_they_judge_its_name(service: Service, tenant: Tenant) -> None:
    text = "I have decided to marry on 3 May, and I am so happy about it!"
    given = [
        {"text": text, **said, "thread": f"{number}"}
        for number, said in enumerate(
            ({"role": "tool"}, {"speaker": "tool"}, {"role": "user", "speaker": "Claude"}, {"speaker": "Claude"})
        )
    ]
    by_role, by_name, person, assistant = [service.send(service.tenant().tenant_id, each)[0] for each in given]
    service.work()
    salience = "SELECT salience FROM memory_state WHERE memory_id = %s"
    assert service.one(salience, by_role) == service.one(salience, by_name)
    assert service.one(salience, person) > service.one(salience, assistant) > service.one(salience, by_role)


def test_summaries_and_ratings_read_the_role_where_there_is_no_name(service: Service, tenant: Tenant) -> None:
    said = every_speaker(service, tenant)
    with database.tenant(tenant.tenant_id) as tx:
        facts = merged_memories.read_facts(tx, tenant.tenant_id, list(said), "UTC")
    expected = {name: given.get("speaker") or given.get("role") for name, given in SPEAKERS.items()}
    assert {said[fact.memory_id]: fact.speaker for fact in facts.values()} == expected
    with database.tenant(tenant.tenant_id) as tx:
        unrated = rating_queue.claim(tx, tenant.tenant_id, "model", 100)
    assert {said[each.memory_id]: each.speaker for each in unrated} == expected


# --- Names of roles are neither indexed nor embedded ---


def test_names_of_roles_are_neither_indexed_nor_embedded(service: Service, tenant: Tenant) -> None:
    speakers = [*ROLES, "Ann", "User"]
    turns = [{"text": f"turn {number}", "speaker": name, "thread": "t"} for number, name in enumerate(speakers)]
    ids = service.send(tenant.tenant_id, *turns)
    service.work()
    for name in ROLES[1:]:
        asked = SearchRequest(name, mode="lexical", roles=(*ROLES, None))
        assert search(tenant.tenant_id, asked) == []
    word: str
    for word in ("Ann", "user"):  # the last speaker is `User`, which is not the name of a role
        asked = SearchRequest(word, mode="lexical", limit=1)
        [result] = search(tenant.tenant_id, asked)
        assert result.id == ids[4 + (word == "user")]
    with database.tenant(tenant.tenant_id) as tx:
        texts = embeddings.read_texts(tx, tenant.tenant_id, ids, ahead=True)
    said = {memory_id: format_passage(memory) for memory_id, memory in zip(texts.ids, texts.memories, strict=True)}
    assert not any(f"{role}:" in said[memory_id] for memory_id in ids for role in ROLES)
    assert "Ann: turn 4" in said[ids[4]]
    assert [memory.speaker for memory in texts.memories] == [None] * 4 + ["Ann", "User"]
    assert texts.memories[5].context[:2] == ("Ann: turn 4", "turn 3")


# --- Searches ---


ASKED: dict[str, tuple[Sequence[Role | None] | None, set[str]]] = {
    "left out": (None, with_role("user", "assistant", None)),
    "one": (["assistant"], with_role("assistant")),
    "system and tool": (["system", "tool"], with_role("system", "tool")),
    "none alone": ([None], with_role(None)),
    "the usual and tool": (["user", "assistant", "tool", None], with_role("user", "assistant", "tool", None)),
    "the usual and system": ([None, "system", "user", "assistant"], with_role("user", "assistant", "system", None)),
    "all with a role": (ROLES, with_role(*ROLES)),
    "all": ([*ROLES, None], set(SPEAKERS)),
}


@pytest.mark.parametrize(("roles", "expected"), ASKED.values(), ids=ASKED)
def test_a_search_finds_the_roles_it_asks_for(
    service: Service, tenant: Tenant, roles: Sequence[Role | None] | None, expected: set[str]
) -> None:
    said = every_speaker(service, tenant)
    given: dict[str, Any] = {} if roles is None else {"roles": tuple(roles)}
    assert find_speakers(tenant, said, **given) == expected
    first = stored(tenant, next(iter(said))).created_at
    assert find_speakers(tenant, said, **given, after=first) == expected, "with another filter"
    results = search(tenant.tenant_id, SearchRequest("zebra noon", limit=50, **given))
    assert {said[result.id]: result.role for result in results} == {name: EFFECTIVE[name] for name in expected}
    request = RecallRequest(["When does that zebra walk over the road?"], **given, limit=20)
    policy = Policy()
    policy = policy.model_copy(update={"recall": policy.recall.model_copy(update={"most": 20, "relevance_above": 0.0})})
    brought = recall.recall_memories(tenant.tenant_id, request, policy)
    assert {said[each.id]: each.role for each in brought.memories} == {name: EFFECTIVE[name] for name in expected}


@pytest.mark.parametrize(("roles", "expected"), ASKED.values(), ids=ASKED)
def test_roles_are_obeyed_in_the_archive(
    service: Service, tenant: Tenant, roles: Sequence[Role | None] | None, expected: set[str]
) -> None:
    said = every_speaker(service, tenant)
    fade(service, list(said))
    archive_all(tenant.tenant_id)
    given: dict[str, Any] = {} if roles is None else {"roles": tuple(roles)}
    assert find_speakers(tenant, said, tiers=("archived",), **given) == expected
    assert find_speakers(tenant, said, tiers=("active", "archived"), **given) == expected


def test_spreading_leaves_out_roles_and_shows_those_it_reaches(service: Service) -> None:
    tenant = service.tenant(Policy(forgetting=Forgetting(profile="cmm")))
    texts = [{"text": ZEBRA, "entities": ["Marlowe"]}, {"text": "quiet rain", "entities": ["Marlowe"], "role": "user"}]
    _, reached = service.send(tenant.tenant_id, *texts)
    [left_out] = service.send(tenant.tenant_id, {"text": "loud wind", "entities": ["Marlowe"], "speaker": "tool"})
    service.work()
    results = {result.id: result.role for result in search(tenant.tenant_id, SearchRequest("zebra"))}
    assert results[reached] == "user"
    assert left_out not in results
    asked = SearchRequest("zebra", roles=(*ROLES, None))
    assert {result.id: result.role for result in search(tenant.tenant_id, asked)}[left_out] == "tool"


def test_self_tests_ask_for_no_memory_that_their_searches_leave_out(service: Service, tenant: Tenant) -> None:
    said = every_speaker(service, tenant)
    as_of = service.one("SELECT now() + interval '1 minute'")
    with database.tenant(tenant.tenant_id) as tx:
        drawn = self_tests.draw_memories(tx, tenant.tenant_id, as_of, 1, 0, 100)
    assert {said[memory_id] for memory_id in drawn} == with_role("user", "assistant", None)


def test_the_roles_of_the_index_are_those_left_out_of_the_usual() -> None:
    assert get_args(Role) == ROLES
    assert set(ROLES) - set(SearchRequest().roles) == {"system", "tool"}
