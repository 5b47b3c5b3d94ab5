"""Quarantines: they hide exactly what a key or a source wrote, everywhere, and lifting them brings exactly it back."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from app.clients.redis.stream import StreamWriter
from app.domain.ingest.envelope import add_writer
from app.domain.ingest.ids import RANDOM_BYTES, generate_base, memory_uuids
from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.quarantine import NewQuarantine
from app.domain.ingest.sources import Source, Writer
from app.domain.jobs import ERASE, Job
from app.domain.policy import api_keys
from app.domain.privacy.legal_hold import Scope
from app.domain.recall.request import RecallRequest
from app.domain.search.request import SearchRequest
from app.errors import Conflict, Invalid, NotFound
from app.services.erasure import execution, requests
from app.services.erasure.requests import ErasureOptions
from app.services.ingest import drain
from app.services.memories import memories, recount
from app.services.privacy import legal_holds, quarantines
from app.services.recall.recall import recall_memories
from app.services.search.search import search
from app.services.storage import lookup
from app.services.tenants import tenants
from app.services.tiers import quarantine_expiry
from app.store.core import database
from app.store.memories.memories import Filters
from app.store.privacy import subject_data
from app.store.privacy.quarantines import Quarantine
from tests.service import Service, at_door
from tests.services.due_deletions import worked
from tests.services.mergeable import LIKE, Alike


def this_millisecond() -> datetime:
    """Return the present time with the precision of `created_at`, so that a memory stored from now on isn't earlier."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


class House(Alike):
    """A tenant with one key for each of three sources."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.keys = {source: self.key(source) for source in ("user", "tool", "agent")}

    def key(self, source: Source) -> Writer:
        parsed = api_keys.parse(tenants.issue_key(self.tenant_id, source, source=source))
        assert parsed is not None
        return Writer(parsed.key_id, source)

    def write(self, source: str, *given: str | dict[str, Any], work: bool = True) -> list[UUID]:
        """Send memories as a request with the key of a source."""
        bodies = [{"text": each} if isinstance(each, str) else each for each in given]
        base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))

        async def knock(door: StreamWriter) -> None:
            await door.append(
                self.tenant_id,
                base=base,
                memories=len(bodies),
                form="json",
                trace=add_writer("", self.keys[source]),
                body=msgspec.json.encode(bodies),
                idempotency=None,
            )

        at_door(knock)
        if work:
            self.service.work()
        return [UUID(memory_id) for memory_id in memory_uuids(base, len(bodies))]

    def place(self, **given: Any) -> Quarantine:
        wanted = NewQuarantine(confirm=True, **given)
        return quarantines.place(self.tenant_id, wanted, "key")

    def seal(self, source: str, **given: Any) -> Quarantine:
        """Put what the key of a source wrote in quarantine."""
        return self.place(key_id=self.keys[source].key_id, **given)

    def lift(self, placed: Quarantine) -> Quarantine:
        lifted = quarantines.lift(self.tenant_id, placed.quarantine_id, "key")
        self.service.work()
        return lifted

    def listed(self) -> set[UUID]:
        return {row.memory_id for row in memories.list_memories(self.tenant_id, Filters(), None, 100)}

    def found(self, query: str) -> set[UUID]:
        asked = SearchRequest(query, limit=50, reinforce=False, tiers=("active", "archived"))
        return {row.id for row in search(self.tenant_id, asked)}

    def recalled(self, text: str) -> set[UUID]:
        return {row.id for row in recall_memories(self.tenant_id, RecallRequest([text], least=0, limit=20)).memories}

    def rows(self) -> list[Any]:
        """Return every memory and state, without the time at which an index stage looked at it."""
        return self.service.rows(
            "SELECT to_jsonb(m), to_jsonb(s) - 'next_due_at' FROM memories AS m JOIN memory_state AS s "
            "USING (tenant_id, memory_id) WHERE tenant_id = %s ORDER BY memory_id",
            self.tenant_id,
        )

    def check_counts(self) -> None:
        """Check that the tenant's counts are those of its rows."""
        assert not any(recount.recount_tenant(self.tenant_id))


@pytest.fixture
def house(service: Service) -> House:
    return House(service)


def test_a_quarantine_hides_what_a_key_wrote_and_lifting_it_brings_exactly_it_back(house: House) -> None:
    mine = house.write("user", "the heron eats fish", {"text": "the heron sleeps", "external_id": "a"})
    poison = house.write("tool", "the heron eats money", {"text": "the heron pays", "external_id": "b"})
    before = house.rows()
    placed = house.seal("tool")
    assert (placed.status, placed.memories) == ("placed", 2)
    worked(house.service)
    assert house.listed() == house.found("heron") == house.recalled("heron") == set(mine)
    for memory_id in poison:
        with pytest.raises(NotFound):
            lookup.get(house.tenant_id, memory_id)
    house.check_counts()
    lifted = house.lift(placed)
    assert (lifted.status, lifted.memories, lifted.lifted_by) == ("lifted", 0, "key")
    assert house.listed() == house.found("heron") == house.recalled("heron") == {*mine, *poison}
    assert house.rows() == before
    house.check_counts()
    actions = [action for (action,) in house.service.rows("SELECT action FROM audit ORDER BY seq")]
    assert [action for action in actions if "quarantine" in action] == [
        *("quarantine_placed", "memories_quarantined", "quarantine_lifted")
    ]


def test_the_period_and_the_key_bound_it(house: House) -> None:
    [early] = house.write("tool", "one")
    start = this_millisecond()
    [inside] = house.write("tool", "two")
    [other] = house.write("agent", "three")
    end = this_millisecond()
    [late] = house.write("tool", "four")
    house.seal("tool", after=start, before=end)
    assert house.listed() == {early, other, late}
    assert inside not in house.listed()


def test_a_source_is_hidden_across_keys(house: House) -> None:
    [mine] = house.write("user", "one")
    house.write("tool", "two")
    house.write("agent", {"text": "three", "source": "tool"})
    [agents] = house.write("agent", "four")
    assert house.place(source="tool").memories == 2
    assert house.listed() == {mine, agents}


def test_what_a_key_changed_is_covered_too(house: House) -> None:
    [edited, upserted, other] = house.write("user", "one", {"text": "two", "external_id": "a"}, "three")
    memories.edit_memory(house.tenant_id, edited, MemoryPatch(text="poison"), house.keys["tool"])
    house.write("tool", {"text": "poison", "external_id": "a"})
    placed = house.seal("tool")
    assert house.listed() == {other}
    house.lift(placed)
    assert house.listed() == {edited, upserted, other}


def test_it_covers_what_is_still_in_the_queue(house: House) -> None:
    [mine] = house.write("user", "one")
    copied = house.write("tool", "two", work=False)
    upserted = house.write("tool", {"text": "three", "external_id": "a"}, work=False)
    placed = house.seal("tool")
    assert placed.memories == 0
    with pytest.raises(NotFound):
        lookup.get(house.tenant_id, copied[0])
    drain.drain_streams()
    house.service.work()
    assert house.listed() == {mine}
    house.check_counts()
    [late] = house.write("tool", "after the period")
    assert house.listed() == {mine, late}
    house.lift(placed)
    assert house.listed() == {mine, late, *copied, *upserted}


def test_a_preview_counts_and_changes_nothing(house: House) -> None:
    house.write("user", "one")
    [held, _] = house.write("tool", "two", "three")
    legal_holds.place_hold(house.tenant_id, Scope(memory_ids=[held]), "case", "key")
    before = house.rows()
    given = NewQuarantine(key_id=house.keys["tool"].key_id)
    _, counts = quarantines.preview(house.tenant_id, given)
    assert counts._asdict() == {"memories": 2, "held": 1, "summaries": 0, "hidden": 0}
    assert house.rows() == before
    assert quarantines.list_quarantines(house.tenant_id, None, 9, lifted=True) == []


def test_placing_and_lifting_twice_has_no_further_effect(house: House) -> None:
    house.write("tool", "one")
    end = datetime.now(UTC)
    placed = house.seal("tool", before=end)
    assert house.seal("tool", before=end) == placed
    first = house.lift(placed)
    assert house.lift(placed) == first
    [listed] = quarantines.list_quarantines(house.tenant_id, None, 9, lifted=True)
    assert listed == first
    assert quarantines.list_quarantines(house.tenant_id, None, 9, lifted=False) == []


def test_a_job_goes_on_where_the_request_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = house.write("tool", *(f"number {n}" for n in range(7)))
    monkeypatch.setattr(quarantines, "ROWS", 2)
    monkeypatch.setattr(quarantines, "STEP_SECONDS", -1.0)
    placed = house.seal("tool")
    assert (placed.status, placed.memories) == ("placing", 2)
    with pytest.raises(Conflict):
        quarantines.lift(house.tenant_id, placed.quarantine_id, "key")

    def step(state: dict[str, Any]) -> Any:
        given = {"quarantine_id": str(placed.quarantine_id)}
        return quarantines.run_job_slice(Job(uuid4(), house.tenant_id, quarantines.KIND, given, state, None, 0))

    first = step({})
    again = step({})  # as after a crash before the job's state was stored
    assert (first.done, again.done) == (2, 2)
    state = again.state
    while not (done := step(state)).finished:
        state = done.state
    assert quarantines.get(house.tenant_id, placed.quarantine_id).memories == 7
    assert house.listed() == set()
    quarantines.lift(house.tenant_id, placed.quarantine_id, "key")
    while not step({}).finished:
        pass
    assert house.listed() == set(ids)
    house.check_counts()


def test_two_quarantines_and_an_erasure_each_hide_what_they_cover(house: House) -> None:
    [one] = house.write("tool", {"text": "one", "subject": "ann"})
    by_key = house.seal("tool")
    by_source = house.place(source="tool")
    house.lift(by_key)
    assert house.listed() == set()
    erasure = requests.request(house.tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 7), "key")
    house.lift(by_source)
    assert house.listed() == set()
    requests.cancel(house.tenant_id, erasure.erasure_id, "key")
    house.service.work()
    assert house.listed() == {one}
    house.check_counts()


def test_an_erasure_erases_what_is_in_quarantine(house: House) -> None:
    [gone, kept] = house.write("tool", {"text": "one", "subject": "ann"}, {"text": "two", "subject": "bob"})
    placed = house.seal("tool")
    asked = ErasureOptions(Scope(subject="ann"), "gdpr", 0)
    erasure_id = requests.request(house.tenant_id, asked, "key").erasure_id
    state: dict[str, Any] = {}
    for _ in range(30):
        job = Job(uuid4(), house.tenant_id, ERASE, {"erasure_id": str(erasure_id)}, state, None, 0)
        state = execution.run_slice(job).state
    assert requests.get(house.tenant_id, erasure_id).status == "verified"
    assert house.service.rows("SELECT memory_id FROM memories WHERE memory_id = %s", gone) == []
    assert house.service.rows("SELECT memory_id FROM memory_writers WHERE memory_id = %s", gone) == []
    house.lift(placed)
    assert house.listed() == {kept}


def test_a_superseded_memory_is_current_again_while_its_successor_is_in_quarantine(house: House) -> None:
    [old] = house.write("tool", "the number is 12")
    start = this_millisecond()
    [new] = house.write("tool", {"text": "the number is 99", "supersedes": str(old)})
    assert house.found("number") == {new}
    placed = house.seal("tool", after=start)
    assert house.found("number") == {old}
    house.lift(placed)
    assert house.found("number") == {new}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "key_id"),
        ({"key_id": "a", "source": "tool"}, "key_id"),
        ({"key_id": "unknown"}, "key_id"),
        ({"source": "tool", "before": datetime.now(UTC) + timedelta(days=1)}, "before"),
        ({"source": "tool", "after": datetime.now(UTC), "before": datetime(2020, 1, 1, tzinfo=UTC)}, "after"),
    ],
)
def test_impossible_conditions_are_refused(house: House, given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as raised:
        house.place(**given)
    assert raised.value.errors[0].field == field


def test_the_key_of_another_tenant_is_unknown(house: House) -> None:
    other = House(house.service)
    with pytest.raises(Invalid):
        house.place(key_id=other.keys["tool"].key_id)


class Summarised(House):
    """A summary made from memories of a user, one of which a tool has written."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.sources = self.remember(*LIKE, days=40, subject="ann")
        service.rows("UPDATE memories SET source = 'user'")
        self.poison = self.sources[1]
        service.rows(
            "UPDATE memories SET written_by = %s, source = 'tool' WHERE memory_id = %s",
            *(self.keys["tool"].key_id, self.poison),
        )
        self.run()
        [self.summary] = self.summaries()

    def source(self) -> str:
        found = lookup.get(self.tenant_id, self.summary)
        return str(getattr(found, "source", ""))

    def made_of(self) -> int:
        found: int = self.service.one("SELECT sources FROM merges WHERE summary_id = %s", self.summary)
        return found


def test_a_summary_is_hidden_until_it_is_made_again_without_them(service: Service) -> None:
    made = Summarised(service)
    assert made.source() == "tool", "the lowest of its sources"
    before = made.made_of()
    placed = made.seal("tool")
    assert placed.memories == 2
    assert made.summary not in made.listed()
    made.rederive()
    assert (made.source(), made.made_of()) == ("user", before - 1)
    made.lift(placed)
    made.rederive()
    assert (made.source(), made.made_of()) == ("tool", before)
    assert made.poison in made.listed()
    made.check_counts()


def test_a_summary_without_another_source_stays_hidden_until_the_lift(service: Service) -> None:
    made = Summarised(service)
    text = service.one("SELECT text FROM memories WHERE memory_id = %s", made.summary)
    service.rows("UPDATE memories SET written_by = %s WHERE made_by = 'caller'", made.keys["tool"].key_id)
    before = made.listed()
    placed = made.seal("tool")
    made.rederive()
    assert made.listed() == set()
    made.lift(placed)
    made.rederive()
    assert made.listed() == before
    assert service.one("SELECT text FROM memories WHERE memory_id = %s", made.summary) == text


def test_an_edit_of_a_source_by_a_lower_key_lowers_the_summary(service: Service) -> None:
    made = Summarised(service)
    memories.edit_memory(made.tenant_id, made.sources[2], MemoryPatch(source="unknown"), made.keys["tool"])
    made.rederive()
    assert made.source() == "unknown"


def test_retention_periods_and_holds_apply_in_quarantine(house: House) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    [expires, held, kept] = house.write(
        "tool", {"text": "one", "expires_at": soon}, {"text": "two", "expires_at": soon}, "three"
    )
    legal_holds.place_hold(house.tenant_id, Scope(memory_ids=[held]), "case", "key")
    placed = house.seal("tool")
    assert quarantine_expiry.expire_quarantined(house.tenant_id, datetime.now(UTC)) == 0
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert quarantine_expiry.expire_quarantined(house.tenant_id, tomorrow) == 1
    assert quarantine_expiry.expire_quarantined(house.tenant_id, tomorrow) == 0
    assert house.service.rows("SELECT memory_id FROM memories WHERE memory_id = %s", expires) == []
    house.check_counts()
    house.lift(placed)
    assert house.listed() == {held, kept}


def test_an_expired_source_takes_a_summary_in_quarantine_with_it(service: Service) -> None:
    made = Summarised(service)
    service.rows(
        "UPDATE memories SET written_by = %s, expires_at = now() + interval '1 hour' WHERE made_by = 'caller'",
        made.keys["tool"].key_id,
    )
    placed = made.seal("tool")
    assert (
        quarantine_expiry.expire_quarantined(made.tenant_id, datetime.now(UTC) + timedelta(days=1)) == placed.memories
    )
    made.rederive()
    made.lift(placed)
    assert made.listed() == set()
    assert service.rows("SELECT memory_id FROM memories WHERE memory_id = %s", made.summary) == []


def test_an_export_of_a_person_contains_and_marks_what_is_in_quarantine(house: House) -> None:
    [mine] = house.write("user", {"text": "one", "subject": "ann"})
    [poison] = house.write("tool", {"text": "two", "subject": "ann"})
    house.seal("tool")
    with database.tenant(house.tenant_id) as tx:
        held = subject_data.list_memories(tx, house.tenant_id, sorted([mine, poison]))
    assert {row.memory_id: (row.hidden, row.quarantined) for row in held} == {
        mine: (False, False),
        poison: (True, True),
    }
