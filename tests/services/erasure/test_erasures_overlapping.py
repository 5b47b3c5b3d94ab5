"""Overlapping erasures: memories that match any open erasure, also by an edit or a regeneration, stay hidden."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.memory import MemoryPatch
from app.domain.privacy.legal_hold import Scope
from app.errors import NotFound
from app.services.erasure import requests
from app.services.memories import memories
from app.services.privacy import legal_holds
from app.services.storage import lookup
from app.services.tiers import tier_report
from app.store.memories import tenant_counts
from tests.services.erasure.test_erasures import PEOPLE, Household, house

pytestmark = pytest.mark.usefixtures("whole_day")

__all__ = ["house"]

GOOSEBERRIES = PEOPLE[0]["text"]
BY: dict[str, dict[str, Any]] = {"whom": {"subject": "ann"}, "thread": {"thread": "t"}}


def last(house: Household) -> UUID:
    return requests.page(house.tenant_id, None, None, 1)[0].erasure_id


@pytest.mark.acceptance(1)
@pytest.mark.parametrize("other", BY)
@pytest.mark.parametrize("is_out_of_the_indexes", [False, True])
def test_what_another_erasure_is_of_stays_hidden_when_one_is_cancelled(
    house: Household, other: str, is_out_of_the_indexes: bool
) -> None:
    memories.delete(house.tenant_id, house.ids[0])
    deletion = last(house)
    asked = house.ask(**BY[other])
    if is_out_of_the_indexes:
        house.work()
    requests.cancel(house.tenant_id, deletion, "key")
    house.work()
    assert GOOSEBERRIES not in house.listed() + house.search_texts("gooseberries")
    assert house.service.one("SELECT count(*) FROM words WHERE word LIKE 'gooseberr%%' AND documents > 0") == 0
    assert house.drift() == tenant_counts.NONE
    requests.cancel(house.tenant_id, asked.erasure_id, "key")
    house.service.work()
    assert set(house.listed()) == {each["text"] for each in PEOPLE}
    assert GOOSEBERRIES in house.search_texts("gooseberries")
    assert house.drift() == tenant_counts.NONE


def test_a_deletion_goes_on_when_the_erasure_that_was_there_before_it_is_cancelled(house: Household) -> None:
    asked = house.ask(thread="t")
    house.ask(memory_ids=[house.ids[0]])
    requests.cancel(house.tenant_id, asked.erasure_id, "key")
    house.service.work()
    assert GOOSEBERRIES not in house.listed()
    assert PEOPLE[1]["text"] in house.listed()


@pytest.mark.acceptance(1)
def test_what_is_edited_to_be_about_somebody_who_is_being_erased_is_hidden(house: Household) -> None:
    asked = house.ask(subject="ann")
    edited = memories.edit_memory(house.tenant_id, house.ids[1], MemoryPatch(subject="ann"))
    house.work()
    assert edited.subject == "ann"
    assert house.listed() == [PEOPLE[3]["text"]]
    assert house.search_texts("laughed") == []
    with pytest.raises(NotFound):
        lookup.get(house.tenant_id, house.ids[1])
    assert house.drift() == tenant_counts.NONE
    requests.cancel(house.tenant_id, asked.erasure_id, "key")
    house.service.work()
    assert PEOPLE[1]["text"] in house.listed()
    assert PEOPLE[1]["text"] in house.search_texts("laughed")
    assert house.drift() == tenant_counts.NONE


@pytest.mark.acceptance(1)
def test_what_an_update_by_external_id_lets_be_about_such_a_person_is_hidden_and_counted(house: Household) -> None:
    known = {"text": "Cy grows pears", "subject": "cy", "external_id": "pears"}
    house.service.send(house.tenant_id, known)
    house.service.work()
    house.ask(subject="ann")
    before = hidden_today(house)
    house.service.send(house.tenant_id, known | {"subject": "ann"}, {**known, "subject": "ann", "external_id": "new"})
    house.service.work()
    house.work()
    assert known["text"] not in house.listed() + house.search_texts("pears")
    assert hidden_today(house) == before + 2
    assert house.service.one("SELECT count(*) FROM words WHERE word LIKE 'pear%%' AND documents > 0") == 0
    assert house.drift() == tenant_counts.NONE


@pytest.mark.acceptance(1)
def test_what_becomes_about_the_person_of_a_held_erasure_is_erased_without_the_release(house: Household) -> None:
    held, moved, other = house.ids[0], house.ids[1], house.ids[3]
    legal_holds.place_hold(house.tenant_id, Scope(memory_ids=[held]), "dispute", "key")
    erasure = house.ask(0, subject="ann")
    house.work()
    assert requests.get(house.tenant_id, erasure.erasure_id).status == "held"

    def stored() -> list[Any]:
        return sorted(row[0] for row in house.service.rows("SELECT memory_id FROM memories"))

    assert stored() == sorted([held, moved, other])
    memories.edit_memory(house.tenant_id, moved, MemoryPatch(subject="ann"))
    house.work()
    assert stored() == sorted([held, other]), "no hold covers the moved memory"
    assert requests.get(house.tenant_id, erasure.erasure_id).status == "held"
    assert house.service.rows("SELECT FROM jobs WHERE status IN ('queued', 'running')") == []
    assert house.drift() == tenant_counts.NONE


def hidden_today(house: Household) -> int:
    moved = tier_report.tier_report(house.tenant_id).moved
    return sum(each.memories for each in moved if (each.move, each.rule) == ("hidden", "erasure"))
