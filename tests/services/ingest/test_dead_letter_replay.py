"""Dead letters: a replay is idempotent, stores the memory in its first position, and obeys the ingest limits."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from sqlalchemy.exc import DataError

from app.clients.redis import stream
from app.clients.redis.connection import BACKLOG, RING, stream_key
from app.domain.ingest.ids import first_seq
from app.errors import BacklogFull, Conflict, NotFound, Unavailable
from app.services.enrichment import stage_runner
from app.services.ingest import dead_letter_replay, drain
from app.services.monitoring import stats
from app.store.core import database
from app.store.enrichment import rating_queue, work_queue
from app.store.ingest import dead_letters, envelopes
from app.store.ingest.dead_letters import DeadLetter, LetterFilter
from tests.service import Service, Tenant
from tests.services.nights import purged

ALL = LetterFilter()


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


@pytest.fixture
def curse(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that the database refuses; remove one to accept it again."""
    cursed: list[str] = []
    copy = envelopes.copy_fresh

    def copy_fresh(tx: Any, tenant_id: UUID, given: Any) -> int:
        if any(memory.text in cursed for arrival in given for memory in arrival.memories):
            raise DataError("COPY", {}, psycopg.errors.DataException("refused"))
        return copy(tx, tenant_id, given)

    monkeypatch.setattr("app.store.ingest.envelopes.copy_fresh", copy_fresh)
    return cursed


def letters(tenant: Tenant, *, discarded: bool = False, limit: int = 100) -> list[DeadLetter]:
    return dead_letter_replay.list_letters(tenant.tenant_id, ALL, discarded=discarded, older_than=None, limit=limit)[0]


def set_aside(service: Service, tenant: Tenant, curse: list[str], *texts: str) -> list[DeadLetter]:
    """Return one dead letter per text, newest first; the database accepts the texts again afterwards."""
    curse += texts
    for text in texts:
        service.send(tenant.tenant_id, text)
    drain.drain_streams()
    curse.clear()
    return letters(tenant)


def set_aside_at(service: Service, tenant: Tenant, stage: str, memory_ids: list[UUID], reason: str = "X") -> UUID:
    with database.tenant(tenant.tenant_id) as tx:
        return dead_letters.add(tx, tenant.tenant_id, stage=stage, reason=reason, attempts=3, memory_ids=memory_ids)


# --- Letters of the drain ---


def test_a_replay_is_stored_in_its_first_place(service: Service, tenant: Tenant, curse: list[str]) -> None:
    service.send(tenant.tenant_id, "before")
    [letter] = set_aside(service, tenant, curse, "curse")
    service.send(tenant.tenant_id, "after")
    drain.drain_streams()
    assert (letter.stage, letter.reason, letter.attempts, letter.memories) == ("drain", "DataError", 3, 1)
    assert (letter.payload_bytes, letter.replayable) == (len(b'[{"text":"curse"}]'), True)
    assert dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id) == letter
    assert letters(tenant) == []
    assert drain.drain_streams() == 1
    assert service.texts(tenant.tenant_id) == ["before", "curse", "after"]
    assert letter.entry_id is not None
    seq, created_ms = service.rows(
        "SELECT seq, (extract(epoch FROM created_at) * 1000)::bigint FROM memories WHERE text = 'curse'"
    )[0]
    assert seq == first_seq(letter.entry_id)
    assert created_ms == int(letter.entry_id.partition("-")[0])
    assert service.is_idle()
    service.work()
    assert set(stats.tenant_stats(tenant.tenant_id).pending.values()) == {0}


def test_an_entry_that_fails_again_and_again_keeps_its_first_place(
    service: Service, tenant: Tenant, curse: list[str]
) -> None:
    [first] = set_aside(service, tenant, curse, "curse")
    found = first
    for _ in range(2):
        curse.append("curse")
        dead_letter_replay.replay_letter(tenant.tenant_id, found.letter_id)
        drain.drain_streams()
        [again] = letters(tenant)
        assert again.letter_id != found.letter_id, (
            "the new letter has an id of its own, so deleting the replayed one keeps it"
        )
        assert again.entry_id == first.entry_id
        found = again
    curse.clear()
    dead_letter_replay.replay_letter(tenant.tenant_id, found.letter_id)
    assert drain.drain_streams() == 1
    assert service.one("SELECT seq FROM memories") == first_seq(first.entry_id or "")


def test_an_entry_that_fails_again_before_its_first_letter_is_deleted_is_kept(
    service: Service, tenant: Tenant, curse: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [letter] = set_aside(service, tenant, curse, "curse")
    curse.append("curse")

    def drain_at_once(name: str) -> None:
        assert name == "replay.before_delete"
        monkeypatch.undo()
        monkeypatch.setattr("app.store.ingest.envelopes.copy_fresh", refuse)
        drain.drain_streams()

    def refuse(*_: object) -> int:
        raise DataError("COPY", {}, psycopg.errors.DataException("refused"))

    monkeypatch.setattr("app.failpoints.trigger", drain_at_once)
    dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    [again] = letters(tenant)
    assert again.letter_id != letter.letter_id


@pytest.mark.parametrize("memory", [{"text": "x"}, {"text": "x", "external_id": "k"}])
def test_a_crash_between_append_and_delete_stores_once(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, memory: dict[str, Any]
) -> None:
    def refuse(*_: object) -> int:
        raise DataError("COPY", {}, psycopg.errors.DataException("refused"))

    with monkeypatch.context() as patched:
        for place in ("app.store.ingest.envelopes.copy_fresh", "app.store.ingest.envelopes.insert_fresh"):
            patched.setattr(place, refuse)
        service.send(tenant.tenant_id, memory)
        drain.drain_streams()
    [letter] = letters(tenant)

    def die(_: str) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr("app.failpoints.trigger", die)
        with pytest.raises(SystemExit):
            dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    assert letters(tenant) == [letter]
    dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    assert service.redis.xlen(stream_key(tenant.tenant_id)) == 2
    assert drain.drain_streams() == 1
    assert service.texts(tenant.tenant_id) == ["x"]
    assert letters(tenant) == []
    assert service.is_idle()


@pytest.mark.parametrize("memory", [{"text": "x"}, {"text": "x", "external_id": "k"}])
def test_an_entry_that_was_stored_after_all_is_not_stored_again_however_late(
    service: Service, tenant: Tenant, memory: dict[str, Any]
) -> None:
    """The workers died after the commit; the ledger row outlives the purge while the letter exists."""
    old = stream.StreamEntry("1000000000000-0", b"1", b"1j" + bytes(16) + b"r ", msgspec.json.encode([memory]))
    service.push(tenant.tenant_id, {b"n": old.number, b"h": old.header, b"e": old.body})
    assert drain.drain_streams() == 1
    drain._set_aside(tenant.tenant_id, old, drain.KILLED, 3)
    assert purged(tenant.tenant_id)["ledger"] == 0
    [letter] = letters(tenant)
    dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    assert drain.drain_streams() == 0
    assert service.texts(tenant.tenant_id) == ["x"]
    assert letters(tenant) == []
    assert purged(tenant.tenant_id)["ledger"] == 1


def test_a_replay_is_counted_like_a_request(service: Service, tenant: Tenant, curse: list[str]) -> None:
    [letter] = set_aside(service, tenant, curse, "curse")
    dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    held = service.backlog()
    assert (held["entries"], held["memories"], held["bytes"]) == (1, 1, letter.payload_bytes)
    assert (held[f"{tenant.tenant_id}:bytes"], held[f"{tenant.tenant_id}:memories"]) == (letter.payload_bytes, 1)
    assert service.redis.lrange(RING, 0, -1) == [str(tenant.tenant_id).encode()]
    [message] = service.redis.lrange("ebbing:{s0}:celery:ingest", 0, -1)
    assert b"ingest.drain" in message
    assert b"curse" not in message


def test_the_doors_limits_hold_for_a_replay(service: Service, tenant: Tenant, curse: list[str]) -> None:
    [letter] = set_aside(service, tenant, curse, "curse")
    service.send(tenant.tenant_id, "waits")
    service.configure(tenant_backlog_entries=1)
    for act in (
        lambda: dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id),
        lambda: dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError"),
    ):
        with pytest.raises(BacklogFull):
            act()
    service.configure(tenant_backlog_entries=100, backlog_entries=1)
    with pytest.raises(Unavailable):
        dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    assert letters(tenant) == [letter]
    assert service.backlog()["entries"] == 1


def test_a_replay_waits_while_redis_is_full(
    service: Service, tenant: Tenant, curse: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [letter] = set_aside(service, tenant, curse, "curse")
    monkeypatch.setattr("redis.Redis.info", lambda *_: {"maxmemory": 100, "used_memory": 81})
    with pytest.raises(Unavailable, match="memory is full"):
        dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    assert letters(tenant) == [letter]


def test_letters_of_the_version_before_say_what_to_do(service: Service, tenant: Tenant, curse: list[str]) -> None:
    [letter] = set_aside(service, tenant, curse, "curse")
    service.rows("UPDATE dead_letters SET header = NULL, memories = 0")
    [found] = letters(tenant)
    assert not found.replayable
    with pytest.raises(Conflict, match="older version"):
        dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    done = dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError")
    assert (done.letters, done.left) == (0, 0)
    dead_letter_replay.discard_letter(tenant.tenant_id, letter.letter_id, "sent again")


def test_what_never_was_an_envelope_fails_again(service: Service, tenant: Tenant) -> None:
    service.push(tenant.tenant_id, {b"n": b"x", b"h": b"nonsense", b"e": b"y"})
    drain.drain_streams()
    [letter] = letters(tenant)
    dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    drain.drain_streams()
    [again] = letters(tenant)
    assert again.letter_id != letter.letter_id
    assert service.redis.hget(BACKLOG, "entries") == b"0"


# --- Letters of stored memories ---


@pytest.mark.parametrize("stage", [work_queue.INDEX, work_queue.EMBED, work_queue.SCORE])
def test_a_stored_memory_waits_for_its_stage_again(service: Service, tenant: Tenant, stage: str) -> None:
    [memory_id] = service.send(tenant.tenant_id, "x")
    service.work()
    letter_id = set_aside_at(service, tenant, stage, [memory_id])
    assert dead_letter_replay.replay_letter(tenant.tenant_id, letter_id).stage == stage
    assert service.rows("SELECT stage, tenant_id, memory_ids, attempts FROM tenant_work") == [
        (stage, tenant.tenant_id, [memory_id], 0)
    ]
    assert letters(tenant) == []
    service.work()
    assert stats.tenant_stats(tenant.tenant_id).pending[stage] == 0


def test_a_memory_that_could_not_be_indexed_is_found_after_its_replay(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = service.send(tenant.tenant_id, "a zebra")
    drain.drain_streams()

    def refuse(*_: object) -> int:
        raise ValueError

    with monkeypatch.context() as patched:
        patched.setattr("app.services.enrichment.stage_runner.index_memories", refuse)
        for _ in range(3):
            stage_runner.run_index_stage()
    assert stats.tenant_stats(tenant.tenant_id).dead_letters == 1
    [letter] = letters(tenant)
    assert (letter.memories, letter.memory_ids, letter.payload_bytes) == (1, [memory_id], 0)
    dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    stage_runner.run_index_stage()
    assert service.one("SELECT count(*) FROM memory_words") == 1
    assert stats.tenant_stats(tenant.tenant_id).dead_letters == 0


def test_a_memory_that_a_model_refused_is_asked_about_again(service: Service, tenant: Tenant) -> None:
    ids = service.send(tenant.tenant_id, "refused", "rated", "another's")
    service.work()
    service.rows("UPDATE scores SET asks = 3, refused_by = 'm'")
    service.rows("UPDATE scores SET scorer = 'llm' WHERE memory_id = %s", ids[1])
    letter_id = set_aside_at(service, tenant, rating_queue.STAGE, ids[:2])
    for _ in range(2):
        dead_letter_replay.replay_letter(tenant.tenant_id, letter_id)
        letter_id = set_aside_at(service, tenant, rating_queue.STAGE, ids[:2])
    found = dict(service.rows("SELECT memory_id, asks FROM scores WHERE refused_by IS NULL"))
    assert found == {ids[0]: 0}
    assert service.rows("SELECT tenant_id, wanted FROM rating_turns") == [(tenant.tenant_id, 3)], (
        "once by the rules, twice by replays"
    )
    assert service.one("SELECT count(*) FROM tenant_work") == 0


# --- Simultaneous replays ---


def replayed(service: Service) -> int:
    return int(service.redis.hget("ebbing:{s0}:counters", "dead_letters_replayed") or 0)


@pytest.mark.parametrize("stage", ["drain", work_queue.INDEX])
def test_a_letter_that_another_call_has_replayed_is_not_counted_again(
    service: Service, tenant: Tenant, curse: list[str], monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    if stage == "drain":
        letter_id = set_aside(service, tenant, curse, "curse")[0].letter_id
    else:
        letter_id = set_aside_at(service, tenant, stage, [uuid4()])
    read = dead_letter_replay.get

    def read_and_lose(tenant_id: UUID, wanted: UUID) -> DeadLetter:
        monkeypatch.undo()
        letter = read(tenant_id, wanted)
        dead_letter_replay.replay_letter(tenant_id, wanted)
        return letter

    monkeypatch.setattr(dead_letter_replay, "get", read_and_lose)
    dead_letter_replay.replay_letter(tenant.tenant_id, letter_id)
    assert replayed(service) == 1
    assert service.one("SELECT count(*) FROM audit WHERE action = 'letters_replayed'") == 1


def test_a_letter_that_two_calls_append_is_counted_once(
    service: Service, tenant: Tenant, curse: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [letter] = set_aside(service, tenant, curse, "curse")

    def replay_too(name: str) -> None:
        assert name == "replay.before_delete"
        monkeypatch.undo()
        dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)

    monkeypatch.setattr("app.failpoints.trigger", replay_too)
    dead_letter_replay.replay_letter(tenant.tenant_id, letter.letter_id)
    assert service.redis.xlen(stream_key(tenant.tenant_id)) == 2
    assert replayed(service) == 1
    assert drain.drain_streams() == 1


# --- Many letters ---


def test_all_of_a_reason_are_replayed_in_bounded_calls(
    service: Service, tenant: Tenant, curse: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"t{n}" for n in range(5)]
    set_aside(service, tenant, curse, *texts)
    other = set_aside_at(service, tenant, work_queue.SCORE, [uuid4()], reason="another")
    for n in range(3):
        set_aside_at(
            service, tenant, (work_queue.INDEX, work_queue.EMBED, work_queue.INDEX)[n], [uuid4()], reason="DataError"
        )
    monkeypatch.setattr(dead_letter_replay, "ENTRIES_A_CALL", 2)
    monkeypatch.setattr(dead_letter_replay, "LETTERS_A_CALL", 2)
    first = dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError")
    assert (first.letters, first.left) == (4, 4)
    second = dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError", first.before)
    assert (second.letters, second.left) == (3, 1)
    third = dead_letter_replay.replay_many(tenant.tenant_id, "drain", "DataError", first.before)
    assert (third.letters, third.left) == (1, 0)
    assert drain.drain_streams() == 5
    assert service.texts(tenant.tenant_id) == texts
    assert [letter.letter_id for letter in letters(tenant)] == [other]
    assert service.redis.hget("ebbing:{s0}:counters", "dead_letters_replayed") == b"8"


def test_all_letters_of_a_reason_are_replayed_or_discarded_batch_by_batch(
    service: Service, tenant: Tenant, curse: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_replay, "ENTRIES_A_CALL", 2)
    monkeypatch.setattr(dead_letter_replay, "LETTERS_A_CALL", 2)
    set_aside(service, tenant, curse, *"abcde")
    done = dead_letter_replay.replay_all(tenant.tenant_id, None, "DataError")
    assert (done.letters, done.left) == (5, 0)
    assert drain.drain_streams() == 5

    for _ in range(5):
        set_aside_at(service, tenant, work_queue.INDEX, [uuid4()], reason="X")
    monkeypatch.setattr(dead_letter_replay, "REPEAT_SECONDS", 0)
    first = dead_letter_replay.discard_all(tenant.tenant_id, None, "X", "old")
    assert (first.letters, first.left) == (2, 3), "the time is over after a batch"
    set_aside_at(service, tenant, work_queue.INDEX, [uuid4()], reason="X")
    monkeypatch.setattr(dead_letter_replay, "REPEAT_SECONDS", 300)
    second = dead_letter_replay.discard_all(tenant.tenant_id, None, "X", "old", first.before)
    assert (second.letters, second.left, len(letters(tenant))) == (3, 0, 1), "later letters aren't included"


def test_a_replay_of_all_ends_where_the_backlog_is_full(
    service: Service, tenant: Tenant, curse: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_aside(service, tenant, curse, *"abcde")
    monkeypatch.setattr(dead_letter_replay, "ENTRIES_A_CALL", 1)
    service.configure(tenant_backlog_entries=3)
    done = dead_letter_replay.replay_all(tenant.tenant_id, None, "DataError")
    assert (done.letters, done.left) == (3, 2)
    with pytest.raises(BacklogFull):
        dead_letter_replay.replay_all(tenant.tenant_id, None, "DataError", done.before)


def test_what_fails_again_meanwhile_does_not_come_round(service: Service, tenant: Tenant, curse: list[str]) -> None:
    set_aside(service, tenant, curse, "a", "b")
    curse += ["a", "b"]
    first = dead_letter_replay.replay_many(tenant.tenant_id, "drain", "DataError")
    drain.drain_streams()
    assert len(letters(tenant)) == 2
    again = dead_letter_replay.replay_many(tenant.tenant_id, "drain", "DataError", first.before)
    assert (first.letters, again.letters, again.left) == (2, 0, 0)


def test_a_call_reads_no_more_than_so_many_bytes(
    service: Service, tenant: Tenant, curse: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_aside(service, tenant, curse, *"abc")
    monkeypatch.setattr(dead_letter_replay, "BYTES_A_CALL", 1)
    for left in (2, 1, 0):
        done = dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError")
        assert (done.letters, done.left) == (1, left)


def test_what_the_door_took_is_told_when_it_closes_in_between(
    service: Service, tenant: Tenant, curse: list[str]
) -> None:
    set_aside(service, tenant, curse, *"abc")
    service.configure(tenant_backlog_entries=2)
    done = dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError")
    assert (done.letters, done.left) == (2, 1)
    with pytest.raises(BacklogFull):
        dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError")
    assert drain.drain_streams() == 2
    assert dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError").left == 0


# --- Discard ---


def test_a_discarded_letter_is_empty_at_once_and_keeps_why(service: Service, tenant: Tenant, curse: list[str]) -> None:
    [letter] = set_aside(service, tenant, curse, "secret")
    named = set_aside_at(service, tenant, work_queue.INDEX, [uuid4()])
    for letter_id in (letter.letter_id, named):
        found = dead_letter_replay.discard_letter(tenant.tenant_id, letter_id, "not needed")
        assert found.discarded_at is not None
        assert (found.discard_reason, found.payload_bytes, found.memory_ids) == ("not needed", 0, [])
        assert not found.replayable
        with pytest.raises(Conflict, match="discarded already"):
            dead_letter_replay.discard_letter(tenant.tenant_id, letter_id, "again")
        with pytest.raises(Conflict, match="discarded"):
            dead_letter_replay.replay_letter(tenant.tenant_id, letter_id)
    assert service.rows("SELECT DISTINCT payload, header, memory_ids FROM dead_letters") == [(None, None, [])]
    assert stats.tenant_stats(tenant.tenant_id).dead_letters == 0
    assert letters(tenant) == []
    assert len(letters(tenant, discarded=True)) == 2
    assert dead_letter_replay.replay_many(tenant.tenant_id, None, "DataError").letters == 0


def test_all_of_a_reason_are_discarded_in_bounded_calls(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in (work_queue.INDEX, work_queue.INDEX, work_queue.EMBED, work_queue.INDEX):
        set_aside_at(service, tenant, stage, [uuid4()])
    monkeypatch.setattr(dead_letter_replay, "LETTERS_A_CALL", 2)
    first = dead_letter_replay.discard_many(tenant.tenant_id, work_queue.INDEX, "X", "old")
    assert (first.letters, first.left) == (2, 1)
    second = dead_letter_replay.discard_many(tenant.tenant_id, work_queue.INDEX, "X", "old", first.before)
    assert (second.letters, second.left) == (1, 0)
    assert [letter.stage for letter in letters(tenant)] == [work_queue.EMBED]


def test_discarded_letters_are_deleted_after_a_while(service: Service, tenant: Tenant, curse: list[str]) -> None:
    made = [set_aside_at(service, tenant, work_queue.INDEX, [uuid4()]) for _ in range(3)]
    for letter_id in made[:2]:
        dead_letter_replay.discard_letter(tenant.tenant_id, letter_id, "old")
    service.rows("UPDATE dead_letters SET created_at = now() - interval '1 year'")
    service.rows("UPDATE dead_letters SET discarded_at = now() - interval '91 days' WHERE letter_id = %s", made[0])
    assert purged(tenant.tenant_id)["letters"] == 1
    assert {letter_id for (letter_id,) in service.rows("SELECT letter_id FROM dead_letters")} == set(made[1:])


def test_another_tenants_letters_are_nobodys(service: Service, tenant: Tenant, curse: list[str]) -> None:
    [letter] = set_aside(service, tenant, curse, "curse")
    other = service.tenant().tenant_id
    with pytest.raises(NotFound):
        dead_letter_replay.get(other, letter.letter_id)
    with pytest.raises(NotFound):
        dead_letter_replay.replay_letter(other, letter.letter_id)
    with pytest.raises(NotFound):
        dead_letter_replay.discard_letter(other, letter.letter_id, "x")
    assert dead_letter_replay.replay_many(other, None, "DataError").letters == 0
    assert dead_letter_replay.discard_many(other, None, "DataError", "x").letters == 0
    assert letters(tenant) == [letter]
