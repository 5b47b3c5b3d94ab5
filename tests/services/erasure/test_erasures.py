"""Erasures: hidden at once, restored on cancellation, deleted from every table after the grace period."""

from __future__ import annotations

from typing import Any

import pytest

from app.clients.redis.connection import COUNTERS
from app.domain.ingest.envelope import replay_header
from app.domain.ingest.ids import generate_base
from app.domain.privacy.legal_hold import Scope
from app.domain.search.request import SearchRequest
from app.errors import Conflict, NotFound, Unavailable
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories, recount
from app.services.privacy import legal_holds
from app.services.search import search
from app.services.security import audit
from app.services.storage import lookup
from app.store.core import database
from app.store.erasure.requests import Erasure
from app.store.memories import tenant_counts
from app.store.memories.memories import Filters
from tests.service import Service
from tests.services.due_deletions import worked

PEOPLE = (
    {"text": "Ann likes gooseberries", "subject": "ann", "thread": "t"},
    {"text": "Bob heard of it and laughed", "subject": "bob", "thread": "t"},
    {"text": "Ann moved to Wroclaw", "subject": "ann", "external_id": "home"},
    {"text": "The weather was fine"},
)


class Household:
    """Memories of two people, and the operations on them."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tenant_id = service.tenant().tenant_id
        self.ids = service.send(self.tenant_id, *(dict(each) for each in PEOPLE))
        service.work()

    def ask(self, grace_days: int = 7, **scope: Any) -> Erasure:
        asked = ErasureOptions(Scope(**scope), "gdpr", grace_days, "asked by mail")
        return requests.request(self.tenant_id, asked, "key")

    def work(self) -> None:
        """Carry out the due jobs."""
        worked(self.service)

    def search_texts(self, query: str) -> list[str]:
        request = SearchRequest(query=query, tiers=("active", "archived"), reinforce=False)
        return [each.text for each in search.find_memories(self.tenant_id, request).results]

    def listed(self) -> list[str]:
        return [each.text for each in memories.list_memories(self.tenant_id, Filters(), None, 100)]

    def state(self) -> list[Any]:
        return self.service.rows(
            "SELECT state::text FROM memory_state AS state WHERE tenant_id = %s ORDER BY memory_id", self.tenant_id
        )

    def drift(self) -> tenant_counts.TierCounts:
        with database.tenant(self.tenant_id) as tx:
            return tenant_counts.measure_drift(tx, self.tenant_id)


@pytest.fixture
def house(service: Service) -> Household:
    return Household(service)


@pytest.mark.acceptance(1)
def test_what_is_to_be_erased_is_hidden_at_once(house: Household) -> None:
    asked = house.ask(subject="ann")
    assert (asked.status, asked.hidden) == ("grace", 2)
    assert house.listed() == [PEOPLE[3]["text"], PEOPLE[1]["text"]]
    assert not any("Ann" in text for text in house.search_texts("Ann gooseberries Wroclaw"))
    for hidden in (house.ids[0], house.ids[2]):
        with pytest.raises(NotFound):
            lookup.get(house.tenant_id, hidden)
    assert house.drift() == tenant_counts.NONE


def test_it_is_taken_out_of_the_indexes_and_of_its_neighbours_context(house: Household) -> None:
    house.ask(subject="ann")
    house.work()
    rows = house.service.rows("SELECT memory_id, words::text FROM memory_words ORDER BY 1")
    assert [memory_id for memory_id, _ in rows] == [house.ids[1], house.ids[3]]
    assert not any("gooseberri" in words for _, words in rows)
    assert house.service.one("SELECT count(*) FROM words WHERE word LIKE 'gooseberr%%' AND documents > 0") == 0


@pytest.mark.parametrize("is_out_of_the_indexes", [False, True])
def test_a_cancelled_one_brings_all_back_as_it_was(house: Household, is_out_of_the_indexes: bool) -> None:
    before, found = house.state(), house.search_texts("Ann gooseberries Wroclaw")
    asked = house.ask(subject="ann")
    if is_out_of_the_indexes:
        house.work()
    done = requests.cancel(house.tenant_id, asked.erasure_id, "key")
    house.service.work()
    assert done.status == "cancelled"
    assert house.search_texts("Ann gooseberries Wroclaw") == found
    assert house.state() == before
    kept = requests.get(house.tenant_id, asked.erasure_id)
    assert (kept.scope, kept.reason, kept.status) == (Scope(), None, "cancelled")
    assert house.drift() == tenant_counts.NONE
    with pytest.raises(Conflict):
        requests.cancel(house.tenant_id, asked.erasure_id, "key")


def test_a_memory_whose_external_id_was_taken_comes_back_without_it(house: Household) -> None:
    asked = house.ask(subject="ann")
    house.service.send(house.tenant_id, {"text": "A new home", "external_id": "home"})
    house.service.work()
    requests.cancel(house.tenant_id, asked.erasure_id, "key")
    assert lookup.get(house.tenant_id, house.ids[2]).external_id is None  # type: ignore[union-attr]
    assert {"A new home", "Ann moved to Wroclaw"} <= set(house.listed())


def test_of_several_hidden_with_one_external_id_the_last_has_it(house: Household) -> None:
    asked = house.ask(subject="ann")
    [late] = house.service.send(house.tenant_id, {"text": "Ann again", "subject": "ann", "external_id": "home"})
    house.service.work()
    requests.cancel(house.tenant_id, asked.erasure_id, "key")
    kept = house.service.rows("SELECT memory_id FROM memories WHERE external_id = 'home' AND deleted_at IS NULL")
    assert kept == [(late,)]
    assert {"Ann again", "Ann moved to Wroclaw"} <= set(house.listed())


@pytest.mark.parametrize(
    ("scope", "gone"),
    [({"subject": "ann"}, {0, 2}), ({"thread": "t"}, {0, 1}), ({"subject": "ann", "thread": "t"}, {0})],
    ids=str,
)
def test_after_the_grace_nothing_is_left(house: Household, scope: dict[str, str], gone: set[int]) -> None:
    asked = house.ask(0, **scope)
    house.work()
    done = requests.get(house.tenant_id, asked.erasure_id)
    assert done.status == "verified", (done, house.service.rows("SELECT kind, status, error, log FROM jobs"))
    assert {each["step"]: each["removed"] for each in done.executed}["memories"] == len(gone)
    assert [each["step"] for each in done.plan or ()] == [each["step"] for each in done.executed]
    assert sum((done.report or {})["left"].values()) == 0
    left = {memory_id for (memory_id,) in house.service.rows("SELECT memory_id FROM memories")}
    assert left == {memory_id for place, memory_id in enumerate(house.ids) if place not in gone}
    assert house.drift() == tenant_counts.NONE
    assert audit.verify(house.tenant_id).broken is None


@pytest.mark.acceptance(14)
def test_what_is_held_stays_and_goes_when_it_is_released(house: Household) -> None:
    hold = legal_holds.place_hold(house.tenant_id, Scope(memory_ids=[house.ids[0]]), "court", "key")
    asked = house.ask(0, subject="ann")
    house.work()
    assert requests.get(house.tenant_id, asked.erasure_id).status == "held"
    assert house.service.texts(house.tenant_id) == [PEOPLE[0]["text"], PEOPLE[1]["text"], PEOPLE[3]["text"]]
    legal_holds.release_hold(house.tenant_id, hold.hold_id, "key")
    house.work()
    assert requests.get(house.tenant_id, asked.erasure_id).status == "verified"
    assert house.service.texts(house.tenant_id) == [PEOPLE[1]["text"], PEOPLE[3]["text"]]


@pytest.mark.acceptance(11)
def test_who_comes_back_is_somebody_new(house: Household) -> None:
    asked = house.ask(0, subject="ann")
    house.work()
    house.service.send(house.tenant_id, {"text": "Ann is here again", "subject": "ann"})
    house.service.work()
    house.work()
    assert "Ann is here again" in house.listed()
    assert requests.get(house.tenant_id, asked.erasure_id).status == "verified"


def test_an_id_that_was_answered_for_a_repeat_names_the_memory_it_became(house: Household) -> None:
    again = {"text": PEOPLE[2]["text"], "subject": "ann", "external_id": "home"}
    [repeat] = house.service.send(house.tenant_id, again)
    house.service.work()
    asked = ErasureOptions(Scope(memory_ids=[repeat]), "gdpr", 0)
    assert requests.preview(house.tenant_id, asked)[1].memories == 1
    assert requests.request(house.tenant_id, asked, "key").hidden == 1
    house.work()
    assert PEOPLE[2]["text"] not in house.service.texts(house.tenant_id)


def test_what_is_still_in_the_queue_is_asked_for_again(house: Household) -> None:
    [coming] = house.service.send(house.tenant_id, {"text": "on its way"})
    with pytest.raises(Unavailable):
        house.ask(memory_ids=[coming])
    house.service.work()
    assert house.ask(memory_ids=[coming]).hidden == 1


def test_a_preview_writes_nothing(house: Household) -> None:
    found, matching, _ = requests.preview(house.tenant_id, ErasureOptions(Scope(subject="ann"), "ccpa"))
    assert matching == (2, 0, 0, 0)
    assert found.due_at is not None
    assert len(house.listed()) == 4
    assert requests.page(house.tenant_id, None, None, 10) == []


def test_counting_anew_changes_nothing(house: Household) -> None:
    house.ask(subject="ann")
    recount.recount_tenant(house.tenant_id)
    assert house.drift() == tenant_counts.NONE


# --- Late and new data ---


def test_what_comes_in_the_grace_is_stored_hidden_and_goes_with_the_rest(house: Household) -> None:
    asked = house.ask(7, subject="ann")
    [late, other] = house.service.send(house.tenant_id, {"text": "Ann again", "subject": "ann"}, "a heron stood there")
    for lost in (late, house.ids[0]):
        with pytest.raises(NotFound):
            lookup.get(house.tenant_id, lost)
    house.service.work()
    assert "a heron stood there" in house.listed()
    assert "Ann again" not in house.listed()
    assert not any("Ann" in text for text in house.search_texts("Ann again"))
    assert house.drift() == tenant_counts.NONE
    requests.cancel(house.tenant_id, asked.erasure_id, "key")
    house.service.work()
    assert {"Ann again", "Ann likes gooseberries"} <= set(house.listed())
    assert lookup.get(house.tenant_id, other).memory_id == other


@pytest.mark.acceptance(10)
def test_what_was_on_its_way_at_the_cut_is_erased_too(house: Household) -> None:
    asked = house.ask(0, subject="ann")
    house.service.send(house.tenant_id, {"text": "Ann on her way", "subject": "ann"}, "a heron stood there")
    house.work()
    house.service.send(house.tenant_id, {"text": "Ann anew", "subject": "ann"})
    house.service.work()
    assert requests.get(house.tenant_id, asked.erasure_id).status == "verified"
    assert house.service.texts(house.tenant_id) == [
        PEOPLE[1]["text"],
        PEOPLE[3]["text"],
        "a heron stood there",
        "Ann anew",
    ]


@pytest.mark.acceptance(10)
def test_a_replay_of_what_came_before_the_cut_stores_nothing(house: Household) -> None:
    old = house.service.redis.time()[0] * 1000 - 60_000
    house.ask(0, subject="ann")
    house.work()
    header = replay_header(b"1j" + generate_base(old, b"x" * 8) + b"r ", f"{old}-0")
    body = b'[{"text":"Ann","subject":"ann"},{"text":"heron"}]'
    replay = {b"n": b"2", b"h": header, b"e": body}
    house.service.push(house.tenant_id, replay)
    house.service.work()
    assert "Ann" not in house.service.texts(house.tenant_id)
    assert "heron" in house.service.texts(house.tenant_id)
    assert house.service.redis.hget(COUNTERS, "erased_on_arrival") == b"1"
