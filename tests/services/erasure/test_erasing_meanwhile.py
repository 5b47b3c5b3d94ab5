"""Data that arrives during an erasure: late data is dropped at every step, new data of a new subject is stored."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from app.clients.redis.connection import COUNTERS, RedisError
from app.domain.ingest.envelope import replay_header
from app.domain.ingest.ids import generate_base
from app.domain.jobs import ERASE, Job
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import execution, requests
from app.services.erasure.steps import STEPS
from app.services.ingest import dead_letter_replay, drain
from app.services.privacy import legal_holds
from app.store.memories import tenant_counts
from tests.services.erasure.test_erasing import erase
from tests.services.erasure.test_erasures import PEOPLE, Household, house
from tests.variants import variants

__all__ = ["house"]

PLACES = ("the cut", "the plan", *STEPS, "another look", "its end")


class Meanwhile:
    """An erasure of Ann, and the ways in which requests from before its watermark can arrive again."""

    def __init__(self, house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
        self.house, self.service, self.monkeypatch = house, house.service, monkeypatch
        self.tenant_id = house.tenant_id
        self.old_ms = self.service.redis.time()[0] * 1000 - 60_000
        self.service.rows("ALTER TABLE memories ADD CONSTRAINT trouble CHECK (text <> 'Bob hums') NOT VALID")
        body = [{"text": "Ann sings of otters", "subject": "ann"}, {"text": "Bob hums", "subject": "bob"}]
        self.service.send(self.tenant_id, *body)
        self.service.work()
        self.service.rows("ALTER TABLE memories DROP CONSTRAINT trouble")
        self.letter_id: UUID = self.service.one("SELECT letter_id FROM dead_letters")

    def give_back(self) -> None:
        """Read a request of Ann's while Redis is unavailable, so that it is queued for a delayed retry."""
        self.service.send(self.tenant_id, {"text": "Ann is tried again", "subject": "ann"})

        def away(*_: object, **__: object) -> None:
            raise RedisError

        with self.monkeypatch.context() as patch:
            patch.setattr(drain, "_store_together", away)
            with pytest.raises(RedisError):
                drain.drain_streams()

    def come(self) -> None:
        """Replay the dead letter, deliver an old request again, and store new data of Ann's."""
        if self.service.rows("SELECT FROM dead_letters"):
            dead_letter_replay.replay_letter(self.tenant_id, self.letter_id)
        header = replay_header(b"1j" + generate_base(self.old_ms, uuid4().bytes[:8]) + b"r ", f"{self.old_ms}-0")
        body = b'[{"text":"Ann as of old","subject":"ann"},{"text":"a heron"}]'
        self.service.push(self.tenant_id, {b"n": b"2", b"h": header, b"e": body})
        self.service.send(self.tenant_id, {"text": "Ann is new here", "subject": "ann"})
        self.service.work()

    def carry_out(self, erasure_id: UUID, place: str) -> list[str]:
        """Carry out the erasure with late arrivals at this failpoint; return the failpoints that were passed."""
        state: dict[str, Any] = {}
        passed: list[str] = []
        for _ in range(50):
            with self.monkeypatch.context() as patch:
                patch.setattr("app.failpoints.trigger", lambda name, _about="": self._reach(name, place, passed))
                done = execution.run_slice(
                    Job(uuid4(), self.tenant_id, ERASE, {"erasure_id": str(erasure_id)}, state, None, 0)
                )
            assert done.failure is None
            self.service.work()
            found = requests.get(self.tenant_id, erasure_id)
            if found.cut and "the cut" not in passed:
                self._pass("the cut", place, passed)
            elif found.plan and "the plan" not in passed:
                self._pass("the plan", place, passed)
            elif len(found.executed) == len(STEPS) and "another look" not in passed:
                self._pass("another look", place, passed)
            if done.finished:
                self._pass("its end", place, passed)
                return passed
            state = done.state
        raise AssertionError("no end of it")

    def _reach(self, name: str, place: str, passed: list[str]) -> None:
        if (step := name.removeprefix("erasing.")) in STEPS:  # after the work, before its completion is recorded
            self._pass(step, place, passed)

    def _pass(self, now: str, place: str, passed: list[str]) -> None:
        passed.append(now)
        if now == place:
            self.come()


@pytest.fixture
def meanwhile(house: Household, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(house, monkeypatch)


@pytest.mark.acceptance(10)
@pytest.mark.acceptance(11)
@pytest.mark.parametrize("place", variants(PLACES, {"the cut", "the plan", "memories", "its end"}))
def test_what_is_of_before_the_cut_is_dropped_at_every_step(meanwhile: Meanwhile, place: str) -> None:
    erasure_id = erase(meanwhile.tenant_id, subject="ann")
    meanwhile.give_back()
    assert meanwhile.carry_out(erasure_id, place) == list(PLACES)
    found = requests.get(meanwhile.tenant_id, erasure_id)
    assert found.status == "verified"
    assert [each["step"] for each in found.executed] == [each["step"] for each in found.plan or ()] == [*STEPS]
    texts = meanwhile.service.texts(meanwhile.tenant_id)
    assert [text for text in texts if text.startswith("Ann")] == ["Ann is new here"]
    assert {"Bob hums", "a heron", PEOPLE[1]["text"]} <= set(texts), "other subjects lose nothing"
    assert "Ann is new here" in meanwhile.house.listed()
    assert int(meanwhile.service.redis.hget(COUNTERS, "erased_on_arrival") or 0) >= 1
    letters = meanwhile.service.rows("SELECT payload FROM dead_letters WHERE payload IS NOT NULL")
    assert not any(b"otters" in bytes(payload) for (payload,) in letters)


@pytest.mark.acceptance(14)
def test_while_a_hold_keeps_something_of_theirs_who_comes_back_is_seen(house: Household) -> None:
    hold = legal_holds.place_hold(house.tenant_id, Scope(memory_ids=[house.ids[0]]), "court", "key")
    erasure_id = erase(house.tenant_id, subject="ann")
    house.work()
    assert requests.get(house.tenant_id, erasure_id).status == "held"
    house.service.send(house.tenant_id, {"text": "Ann is new here", "subject": "ann"})
    house.service.work()
    assert "Ann is new here" in house.listed()
    legal_holds.release_hold(house.tenant_id, hold.hold_id, "key")
    house.work()
    assert requests.get(house.tenant_id, erasure_id).status == "verified"
    assert [text for text in house.listed() if text.startswith("Ann")] == ["Ann is new here"]
    assert house.drift() == tenant_counts.NONE
