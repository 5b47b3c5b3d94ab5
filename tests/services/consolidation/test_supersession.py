"""Supersession: searches return the newer memory instead of the older one, which stays unchanged."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.consolidation.supersession import PairOutcome, SupersessionPair
from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.sources import Writer
from app.domain.privacy.legal_hold import Scope
from app.domain.recall.request import RecallRequest
from app.domain.search.request import SearchRequest
from app.errors import Conflict, Invalid, NotFound, Unavailable
from app.services.consolidation import supersession
from app.services.ingest import drain
from app.services.jobs import housekeeping
from app.services.memories import live_numbers, memories
from app.services.privacy import legal_holds
from app.services.recall import recall
from app.services.search.search import search
from app.services.security import audit
from app.services.storage import lookup
from app.services.uses import reviews
from app.store.consolidation import supersessions
from app.store.core import database
from app.store.embedding import tenant_indexes
from app.store.memories.memories import Filters
from app.store.search import indexed_candidates
from app.store.tiers import row_deletion
from tests.service import Service, Tenant


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


class TenantFacts:
    """A tenant that receives one memory per request, and its search results."""

    def __init__(self, service: Service, tenant: Tenant) -> None:
        self.service, self.tenant_id = service, tenant.tenant_id

    def send(self, text: str, *supersedes: UUID | str, **more: Any) -> UUID:
        [memory_id] = self.service.send(
            self.tenant_id, {"text": text, "supersedes": [str(name) for name in supersedes], **more}
        )
        self.service.work()
        return memory_id

    def chain(self, *texts: str) -> list[UUID]:
        ids: list[UUID] = []
        for text in texts:
            ids.append(self.send(text, *ids[-1:]))
        return ids

    def search_ids(self, query: str = "Ann lives", **more: Any) -> set[UUID]:
        return {result.id for result in search(self.tenant_id, SearchRequest(query, **more))}

    def relations(self) -> list[tuple[UUID, UUID | None, str]]:
        listed = supersession.list_supersessions(self.tenant_id, None, None, None, 100)
        return [(each.memory_id, each.superseded_id, each.status) for each in reversed(listed)]


@pytest.fixture
def facts(service: Service, tenant: Tenant) -> TenantFacts:
    return TenantFacts(service, tenant)


HOMES = ("Ann lives in Rome", "Ann lives in Oslo", "Ann lives in Lima")


def test_the_newer_one_is_found_and_says_that_there_is_an_older(facts: TenantFacts) -> None:
    rome = facts.send(HOMES[0])
    oslo = facts.send(HOMES[1], rome)
    [found] = search(facts.tenant_id, SearchRequest("Ann lives"))
    assert (found.id, found.supersedes, found.superseded_by) == (oslo, [rome], [])
    by_id = {each.id: each for each in search(facts.tenant_id, SearchRequest("Ann lives", superseded=True))}
    assert by_id.keys() == {rome, oslo}
    assert by_id[rome].superseded_by == [oslo]
    brought = recall.recall_memories(facts.tenant_id, RecallRequest(["where does Ann live? Ann lives where?"]))
    assert rome not in brought.ids
    facts.service.rows("UPDATE memories SET created_at = now() - interval '400 days'")
    assert {entry.memory_id for entry in reviews.build_session(facts.tenant_id).entries} == {oslo}


def test_the_older_one_is_still_read_and_listed(facts: TenantFacts) -> None:
    rome = facts.send(HOMES[0])
    strength = live_numbers.live_numbers(facts.tenant_id, memories.list_memories(facts.tenant_id, Filters(), None, 9))[
        rome
    ].numbers.strength
    oslo = facts.send(HOMES[1], rome)

    def listed(superseded: bool | None) -> list[UUID]:
        return [
            row.memory_id for row in memories.list_memories(facts.tenant_id, Filters(superseded=superseded), None, 9)
        ]

    assert (listed(None), listed(True), listed(False)) == ([oslo, rome], [rome], [oslo])
    looked = live_numbers.live_numbers(facts.tenant_id, memories.list_memories(facts.tenant_id, Filters(), None, 9))
    newer = lookup.get(facts.tenant_id, oslo)
    assert looked[rome].around.valid_to == newer.created_at  # type: ignore[union-attr]  # it is stored
    assert looked[oslo].around.supersedes == [rome]
    assert looked[rome].numbers.strength == pytest.approx(strength, abs=1e-4), "the older memory is unchanged"


def test_a_look_back_shows_what_was_believed_then(facts: TenantFacts, service: Service) -> None:
    ids = facts.chain(*HOMES)
    moments = [created for (created,) in service.rows("SELECT created_at FROM memories ORDER BY memory_id")]
    assert facts.search_ids() == {ids[2]}
    for believed, moment in zip(ids, moments, strict=True):
        assert facts.search_ids(as_of=moment) == {believed}


@pytest.mark.parametrize(("elsewhere", "few"), [(500, 5000), (0, 0)])
def test_a_graph_and_filters_leave_out_the_older_as_well(
    facts: TenantFacts, service: Service, monkeypatch: pytest.MonkeyPatch, elsewhere: int, few: int
) -> None:
    service.configure(search_exact_rows=2)
    monkeypatch.setattr(indexed_candidates, "ELSEWHERE", elsewhere)
    monkeypatch.setattr(indexed_candidates, "FEW", few)
    rome, oslo, lima = facts.chain(*HOMES)
    other = facts.send("Ann lives with Bo", subject="bo")
    space = service.one("SELECT space_id FROM tenant_spaces WHERE tenant_id = %s", facts.tenant_id)
    with database.tenant(facts.tenant_id) as tx:
        tenant_indexes.create_indexes(tx, facts.tenant_id, space)
        tenant_indexes.add_to_graphs(tx, facts.tenant_id, space, 2)
    assert facts.search_ids() == {lima, other}
    assert facts.search_ids(before=datetime(2999, 1, 1, tzinfo=UTC)) == {lima, other}
    assert facts.search_ids(superseded=True) == {rome, oslo, lima, other}
    assert facts.search_ids(subject="bo") == {other}
    accepted = service.one("SELECT created_at FROM memories WHERE memory_id = %s", oslo)
    assert facts.search_ids(as_of=accepted) == {oslo}


def test_an_archived_one_that_is_superseded_is_not_found_in_the_archive(facts: TenantFacts, service: Service) -> None:
    rome, oslo = facts.chain(*HOMES[:2])
    for memory_id in (rome, oslo):
        service.rows("UPDATE memory_state SET tier = 'archived' WHERE memory_id = %s", memory_id)
        service.rows(
            "INSERT INTO archived_memories (tenant_id, memory_id, text_version, own) "
            "SELECT tenant_id, memory_id, 1, own FROM memory_words WHERE memory_id = %s",
            memory_id,
        )
    assert facts.search_ids(tiers=("archived",)) == {oslo}
    assert facts.search_ids(tiers=("archived",), superseded=True) == {rome, oslo}


# --- References to superseded memories ---


def test_ids_aliases_and_external_ids_name_memories_also_of_the_same_request(
    service: Service, facts: TenantFacts
) -> None:
    first = facts.send("Ann lives in Rome", external_id="home")
    alias = facts.send("Ann lives in Rome, Italy", external_id="home")
    plain = facts.send("Ann lives alone")
    sent = service.send(
        facts.tenant_id,
        {"text": "Ann lives in Lima", "external_id": "lima", "supersedes": str(alias)},
        {"text": "Ann lives in Cork", "supersedes": ["lima", str(plain), "lima"]},
    )
    service.work()
    assert facts.search_ids() == {sent[1]}
    assert sorted(facts.relations()) == sorted(
        [(sent[0], first, "active"), *((sent[1], old, "active") for old in (sent[0], plain))]
    )


def test_what_still_waits_in_the_queue_may_be_named(service: Service, facts: TenantFacts) -> None:
    [late] = service.send(facts.tenant_id, HOMES[0])
    [newer] = service.send(facts.tenant_id, {"text": HOMES[1], "supersedes": [str(late), "nobody", str(uuid4())]})
    service.work()
    assert facts.search_ids() == {newer}
    assert [status for *_, status in facts.relations()].count("waiting") == 2


def test_a_name_that_is_not_known_yet_waits_and_holds_when_its_memory_comes(
    service: Service, facts: TenantFacts
) -> None:
    """As with a replayed dead letter: accepted earlier, stored later."""
    newer = facts.send(HOMES[1], "home")
    assert facts.relations() == [(newer, None, "waiting")]
    service.rows("UPDATE supersessions SET made_at = now() + interval '1 minute'")  # the other was accepted earlier
    older = facts.send(HOMES[0], external_id="home")
    assert facts.search_ids() == {newer, older}
    assert supersession.resolve_statements(facts.tenant_id) == 1
    assert facts.search_ids() == {newer}
    assert supersession.resolve_statements(facts.tenant_id) == 0


def test_what_comes_later_under_the_name_is_not_what_was_meant(service: Service, facts: TenantFacts) -> None:
    newer = facts.send(HOMES[1], "home")
    later = facts.send(HOMES[2], external_id="home")
    assert supersession.resolve_statements(facts.tenant_id) == 0
    assert facts.search_ids() == {newer, later}
    month = database_now(facts) + timedelta(days=31)
    step = housekeeping.run_slice(facts.tenant_id, month, {}, float("inf"))
    assert step.counts["names"] == 1
    assert facts.relations() == []


def database_now(facts: TenantFacts) -> datetime:
    with database.tenant(facts.tenant_id) as tx:
        return database.now(tx)


def test_subjects_are_not_crossed(facts: TenantFacts) -> None:
    older = facts.send(HOMES[0], subject="ann")
    newer = facts.send(HOMES[1], older, subject="bo")
    assert facts.search_ids() == {older, newer}
    assert facts.relations() == [(newer, older, "rejected")]
    same = facts.send(HOMES[2], older, subject="ann")
    assert facts.search_ids() == {newer, same}
    memories.edit_memory(facts.tenant_id, same, MemoryPatch(subject="bo"))
    assert facts.search_ids() == {older, newer, same}, "an edit that separates their subjects ends the supersession"


def test_nothing_supersedes_itself_not_even_through_others(facts: TenantFacts) -> None:
    rome = facts.send(HOMES[0], "a", external_id="a")
    oslo = facts.send(HOMES[1], rome, external_id="b")
    lima = facts.send(HOMES[2], oslo)
    facts.send("Ann lives in Rome again", lima, external_id="a")
    assert facts.search_ids() == {lima}
    assert (rome, lima, "rejected") in facts.relations()
    with pytest.raises(Conflict, match="already supersedes the newer one"):
        supersession.make_supersession(facts.tenant_id, str(rome), str(lima), Writer("key", "unknown"))
    with pytest.raises(Invalid):
        supersession.make_supersession(facts.tenant_id, "a", str(rome), Writer("key", "unknown"))


def test_the_same_envelope_and_the_same_request_twice_change_nothing(service: Service, facts: TenantFacts) -> None:
    rome = facts.send(HOMES[0])
    oslo = facts.send(HOMES[1], rome, external_id="k")
    facts.send(HOMES[1], rome, external_id="k")
    assert facts.relations() == [(oslo, rome, "active")]
    [entry] = audit.list_entries(facts.tenant_id, "memories_superseded", None, 9)
    assert (entry.items, entry.details) == (1, {"source": "caller"})


# --- Deletion and withdrawal ---


def test_without_the_newest_the_one_before_is_current_again(facts: TenantFacts) -> None:
    rome, oslo, lima = facts.chain(*HOMES)
    memories.delete(facts.tenant_id, lima)
    assert facts.search_ids() == {oslo}
    memories.delete(facts.tenant_id, oslo)
    assert facts.search_ids() == {rome}
    assert facts.relations() == []


@pytest.mark.parametrize("for_good", [False, True])
def test_a_chain_closes_over_what_is_deleted_in_its_middle(facts: TenantFacts, *, for_good: bool) -> None:
    rome, *middle, cork = facts.chain(*HOMES, "Ann lives in Cork")
    if for_good:
        with database.tenant(facts.tenant_id) as tx:
            row_deletion.remove(tx, facts.tenant_id, middle)
    else:
        for memory_id in middle:
            memories.delete(facts.tenant_id, memory_id)
    assert facts.search_ids() == {cork}
    assert facts.relations() == [(cork, rome, "active")]
    memories.delete(facts.tenant_id, rome)
    assert facts.relations() == []


@pytest.mark.parametrize("seed", range(5))
def test_whatever_goes_out_of_any_web_what_is_left_supersedes_as_before(facts: TenantFacts, seed: int) -> None:
    chance = random.Random(seed)
    ids = facts.service.send(facts.tenant_id, *(f"memory {place}" for place in range(9)))
    drain.drain_streams()
    edges = {(ids[n], ids[m]) for n in range(9) for m in range(n) if chance.random() < 0.3}
    gone = set(chance.sample(ids, 5))
    wanted = {(newer, older) for newer in ids for older in ids if led(edges, gone, newer, older)}
    with database.tenant(facts.tenant_id) as tx:
        supersessions.upsert_pairs(
            tx,
            facts.tenant_id,
            [PairOutcome(SupersessionPair(*edge), datetime.now(UTC), None) for edge in edges],
            "active",
            "caller",
        )
        order = chance.sample(sorted(gone), 5)
        supersessions.delete_all(tx, facts.tenant_id, order[:2])
        for memory_id in order[2:]:
            supersessions.delete_all(tx, facts.tenant_id, [memory_id])
    assert {(newer, older) for newer, older, _ in facts.relations()} == wanted


def led(edges: set[tuple[UUID, UUID]], gone: set[UUID], newer: UUID, older: UUID) -> bool:
    """Return True if a path of deleted memories only connects two memories that still exist."""
    if newer in gone or older in gone:
        return False
    edge, seen = [newer], set[UUID]()
    while edge:
        below = {under for over, under in edges if over == edge[-1]} - seen
        edge.pop()
        if older in below:
            return True
        seen |= below
        edge += below & gone
    return False


def test_of_two_that_supersede_one_both_are_current_until_it_is_taken_back(facts: TenantFacts) -> None:
    rome = facts.send(HOMES[0])
    oslo, lima = facts.send(HOMES[1], rome), facts.send(HOMES[2], rome)
    assert facts.search_ids() == {oslo, lima}
    for each in supersession.list_supersessions(facts.tenant_id, "active", rome, None, 9):
        assert rome not in facts.search_ids()
        supersession.undo_supersession(facts.tenant_id, each.supersession_id, Writer("key", "unknown"))
        supersession.undo_supersession(facts.tenant_id, each.supersession_id, Writer("key", "unknown"))
    assert facts.search_ids() == {rome, oslo, lima}
    [entry, *_] = audit.list_entries(facts.tenant_id, "supersession_rejected", None, 9)
    assert (entry.actor, entry.details["reason"]) == ("key", "undone")


def test_what_is_held_is_superseded_in_view_and_nothing_else(facts: TenantFacts) -> None:
    rome = facts.send(HOMES[0], tags=["decision"])
    legal_holds.place_hold(facts.tenant_id, Scope(memory_ids=[rome]), "case", "key")
    row = "SELECT m::text, s::text FROM memories m JOIN memory_state s USING (memory_id) WHERE memory_id = %s"
    before = facts.service.rows(row, rome)
    oslo = facts.send(HOMES[1], rome)
    assert facts.search_ids() == {oslo}
    assert facts.service.rows(row, rome) == before


# --- Supersession by a person ---


def test_a_person_may_say_it_too(facts: TenantFacts, service: Service) -> None:
    rome, oslo = facts.send(HOMES[0]), facts.send(HOMES[1], external_id="new")
    made = supersession.make_supersession(facts.tenant_id, "new", str(rome), Writer("key", "unknown"))
    assert (made.status, made.source, made.superseded_text) == ("active", "person", HOMES[0])
    assert supersession.make_supersession(facts.tenant_id, "new", str(rome), Writer("key", "unknown")) == made
    assert facts.search_ids() == {oslo}
    with pytest.raises(NotFound):
        supersession.make_supersession(facts.tenant_id, "new", "nobody", Writer("key", "unknown"))
    [waiting] = service.send(facts.tenant_id, "in the queue")
    with pytest.raises(Unavailable):
        supersession.make_supersession(facts.tenant_id, str(waiting), str(rome), Writer("key", "unknown"))
    drain.drain_streams()
    other = service.tenant()
    with pytest.raises(NotFound):
        supersession.make_supersession(other.tenant_id, str(oslo), str(rome), Writer("key", "unknown"))
    with pytest.raises(NotFound):
        supersession.undo_supersession(other.tenant_id, made.supersession_id, Writer("key", "unknown"))


def test_rejecting_is_for_proposals(facts: TenantFacts) -> None:
    facts.chain(*HOMES[:2])
    [made] = supersession.list_supersessions(facts.tenant_id, None, None, None, 9)
    assert supersession.approve_supersession(facts.tenant_id, made.supersession_id, Writer("key", "unknown")) == made
    with pytest.raises(Conflict, match="DELETE"):
        supersession.reject_supersession(facts.tenant_id, made.supersession_id, Writer("key", "unknown"))
