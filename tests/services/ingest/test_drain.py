"""The drain stores each stream entry once, whatever dies in between; it sets poison aside and stores its neighbours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import msgspec
import psycopg
import pytest
from sqlalchemy.exc import DataError, OperationalError

from app.clients.redis.connection import HELD, stream_key
from app.clients.redis.stream import StreamEntry, TenantBatch, stream_reader
from app.domain.ingest.ids import generate_base
from app.services.ingest import drain
from app.services.transient_errors import is_transient
from app.store.ingest import envelopes
from tests.service import Service, Tenant
from tests.waiting import until

BASE = generate_base(1_760_000_000_000, bytes(8))


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def stored(service: Service, tenant: Tenant) -> list[str]:
    """Drain the stream, assert that it is empty, and return the stored texts."""
    drain.drain_streams()
    assert service.backlog()["entries"] == 0
    return service.texts(tenant.tenant_id)


def lapse(service: Service) -> None:
    held = cast("list[bytes]", service.redis.zrange(HELD, 0, -1))
    service.redis.zadd(HELD, dict.fromkeys(held, 0))


# --- Storing ---


def test_what_was_accepted_is_stored_as_it_was_given(service: Service, tenant: Tenant) -> None:
    given: dict[str, Any] = {
        "text": "Flüge nach Paris 😀",
        "subject": "ann",
        "thread": "t",
        "speaker": "Ann",
        "kind": "episodic",
        "occurred_at": "1583-10-05T12:00:00.000001+05:30",
        "tags": ["a", 'quote"d', "{brace}"],
        "categories": ["health"],
        "entities": ["Zoë", "NULL"],
        "metadata": {"n": [1, 2.5, None, {"x": "é"}]},
        "salience": 0.25,
        "multiplier": 1.5,
    }
    [memory_id, other_id] = service.send(tenant.tenant_id, given, "bare")
    assert drain.drain_streams() == 2
    columns = (
        "text, subject, thread, speaker, memories.kind, occurred_at, tags, categories, entities, metadata, salience, "
        "salience_source, multiplier, tier, external_id, text_version, deleted_at"
    )
    query = f"SELECT {columns} FROM memories JOIN memory_state USING (tenant_id, memory_id) WHERE memory_id = %s"  # noqa: S608 - constants
    [row] = service.rows(query, memory_id)
    occurred_at = datetime(1583, 10, 5, 6, 30, 0, 1, UTC)
    assert row == (
        *(given[name] for name in ("text", "subject", "thread", "speaker", "kind")),
        occurred_at,
        *(given[name] for name in ("tags", "categories", "entities", "metadata", "salience")),
        *("caller", 1.5, "active", None, 1, None),
    )
    [bare] = service.rows(query, other_id)
    assert bare == ("bare", *[None] * 5, [], [], [], None, None, None, 1.0, "active", None, 1, None)


def test_the_order_of_speaking_is_that_of_acceptance(service: Service, tenant: Tenant) -> None:
    said = [f"{request}.{place}" for request in range(8) for place in range(3)]
    for start in range(0, len(said), 3):
        service.send(tenant.tenant_id, *said[start : start + 3])
    assert stored(service, tenant) == said


def test_lines_are_stored_like_an_array(service: Service, tenant: Tenant) -> None:
    service.post(tenant.tenant_id, b'{"text":"one"}\n\n{"text":"two"}\n', memories=2, form="ndjson")
    assert stored(service, tenant) == ["one", "two"]


def test_stored_memories_wait_for_every_stage(service: Service, tenant: Tenant) -> None:
    service.send(tenant.tenant_id, *(f"{n}" for n in range(1500)))
    drain.drain_streams()
    found = service.rows(
        "SELECT stage, sum(cardinality(memory_ids))::int FROM tenant_work GROUP BY stage ORDER BY stage"
    )
    assert found == [("embed", 1500), ("index", 1500), ("score", 1500)]


def test_no_memory_is_created_later_than_the_databases_now(service: Service, tenant: Tenant) -> None:
    """Redis's clock may be ahead: an entry dated tomorrow is stored as of now."""
    tomorrow = int((time.time() + 86_400) * 1000)
    service.send(tenant.tenant_id, "real")
    for n, memory in enumerate([{"text": "plain"}, {"text": "keyed", "external_id": "k"}]):
        header = b"1j" + generate_base(n, bytes(8))
        body = msgspec.json.encode(memory)
        service.redis.xadd(stream_key(tenant.tenant_id), {"n": 1, "h": header, "e": body}, id=f"{tomorrow}-{n}")
    assert drain.drain_streams() == 3
    moments = service.rows("SELECT created_at, now() FROM memories")
    assert len(moments) == 3
    for created_at, now in moments:
        assert now - timedelta(minutes=1) < created_at <= now
    assert service.one("SELECT max(anchored_at) <= now() FROM memory_state")


def test_many_turns_of_many_tenants_end_in_one_drain(service: Service) -> None:
    service.configure(drain_entries=3)
    tenants = [service.tenant() for _ in range(3)]
    for n in range(10):
        for tenant in tenants:
            service.send(tenant.tenant_id, f"{n}")
    assert drain.drain_streams() == 30
    for tenant in tenants:
        assert service.texts(tenant.tenant_id) == [f"{n}" for n in range(10)]


def test_a_slice_ends_in_time_and_asks_for_another(service: Service, tenant: Tenant) -> None:
    service.configure(slice_seconds=0.000001, drain_entries=1)
    for n in range(3):
        service.send(tenant.tenant_id, f"{n}")
    service.redis.delete("ebbing:{s0}:celery:ingest")
    assert drain.drain_streams() == 1
    assert service.redis.llen("ebbing:{s0}:celery:ingest")
    until(lambda: not drain.drain_streams(), "the stream is empty")
    assert service.texts(tenant.tenant_id) == ["0", "1", "2"]


# --- Idempotence ---


def replay(service: Service, tenant: Tenant, *bodies: bytes, base: bytes = BASE) -> None:
    for body in bodies:
        service.post(tenant.tenant_id, body, base=base)


@pytest.mark.parametrize("body", [b'{"text":"x"}', b'{"text":"x","external_id":"k"}'], ids=["plain", "keyed"])
@pytest.mark.parametrize("in_one_turn", [True, False])
def test_an_envelope_that_comes_again_is_stored_once(
    service: Service, tenant: Tenant, body: bytes, in_one_turn: bool
) -> None:
    replay(service, tenant, body, body)
    if not in_one_turn:
        service.configure(drain_entries=1)
    assert drain.drain_streams() == 1
    replay(service, tenant, body)
    assert drain.drain_streams() == 0
    assert service.texts(tenant.tenant_id) == ["x"]
    assert service.letters(tenant.tenant_id) == []
    assert service.one("SELECT count(*) FROM tenant_work") == 3


class Killed(BaseException):
    """Simulates SIGKILL: nothing after it runs."""


def die_before_settling(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drain, and die between the commit and the acknowledgement of the stream entries."""

    def reach(name: str, *_: object) -> None:
        if name == "drain.before_settle":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("app.failpoints.trigger", reach)
        with pytest.raises(Killed):
            drain.drain_streams()
    lapse(service)


def test_a_crash_between_commit_and_settling_stores_nothing_twice(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        service.send(tenant.tenant_id, f"{n}")
    service.post(tenant.tenant_id, b"no JSON")
    die_before_settling(service, monkeypatch)
    assert service.backlog()["entries"] == 4
    assert drain.drain_streams() == 0
    assert service.backlog()["entries"] == 0
    assert service.texts(tenant.tenant_id) == ["0", "1", "2"]
    assert len(service.letters(tenant.tenant_id)) == 1


# --- Poison ---

GOOD = b'{"text":"good"}'
HEADER = b"1j" + BASE
POISON: dict[str, tuple[dict[bytes, bytes], str]] = {
    "bad JSON": ({b"n": b"1", b"h": HEADER, b"e": b'{"text":'}, "Unreadable"),
    "nested": ({b"n": b"1", b"h": HEADER, b"e": b'{"text":"x","metadata":{"a":' + b"[" * 10**6}, "Unreadable"),
    "nested, but not so deeply": (
        {b"n": b"1", b"h": HEADER, b"e": b'{"text":"x","metadata":{"a":' + b"[" * 700 + b"]" * 700 + b"}}"},
        "Un",
    ),
    "NUL": ({b"n": b"1", b"h": HEADER, b"e": rb'{"text":"a\u0000"}'}, "Invalid"),
    "NUL in metadata": ({b"n": b"1", b"h": HEADER, b"e": rb'{"text":"a","metadata":{"b":[1.5,"\u0000"]}}'}, "Invalid"),
    "surrogate": ({b"n": b"1", b"h": HEADER, b"e": rb'{"text":"\ud800"}'}, "Unreadable"),
    "a byte too long": ({b"n": b"1", b"h": HEADER, b"e": b'{"text":"' + b"x" * 32_769 + b'"}'}, "Invalid"),
    "empty text": ({b"n": b"1", b"h": HEADER, b"e": b'{"text":""}'}, "Invalid"),
    "nothing": ({b"n": b"1", b"h": HEADER, b"e": b""}, "Unreadable"),
    "no memories": ({b"n": b"1", b"h": HEADER, b"e": b"[]"}, "envelope body and memory count differ"),
    "wrong count": ({b"n": b"2", b"h": HEADER, b"e": GOOD}, "envelope body and memory count differ"),
    "unknown version": ({b"n": b"1", b"h": b"9j" + BASE, b"e": GOOD}, "unknown envelope version"),
    "unknown form": ({b"n": b"1", b"h": b"1z" + BASE, b"e": GOOD}, "envelope header out of shape"),
    "short base": ({b"n": b"1", b"h": HEADER[:9], b"e": GOOD}, "envelope header out of shape"),
    "no fields of ours": ({b"x": b"y"}, "unknown envelope version"),
    "no body": ({b"n": b"1", b"h": HEADER}, "Unreadable"),
    **{
        f"{count[:9]!r} memories": ({b"n": count, b"h": HEADER, b"e": GOOD}, "envelope header out of shape")
        for count in (b"", b"nan", b"inf", b"-5", b"1e30", b"9" * 30, b"9" * 5000, b"0x10", b"\xff")
    },
}


@pytest.mark.parametrize(("poison", "reason"), POISON.values(), ids=POISON)
def test_poison_is_set_aside_with_its_reason_and_its_neighbours_are_stored(
    service: Service, tenant: Tenant, poison: dict[bytes, bytes], reason: str
) -> None:
    service.send(tenant.tenant_id, "before")
    service.push(tenant.tenant_id, poison)
    service.send(tenant.tenant_id, "after")
    other = service.tenant()
    service.send(other.tenant_id, "elsewhere")
    assert drain.drain_streams() == 3
    assert service.texts(tenant.tenant_id) == ["before", "after"]
    assert service.texts(other.tenant_id) == ["elsewhere"]
    [(stage, said, attempts)] = service.letters(tenant.tenant_id)
    assert (stage, attempts) == ("drain", 1)
    assert said == reason or (reason == "Un" and said in {"Unreadable", "Invalid"})
    payload, entry_id = service.rows("SELECT payload, entry_id FROM dead_letters")[0]
    assert payload == poison.get(b"e", b"")
    assert entry_id
    assert service.backlog()["entries"] == 0
    assert service.redis.exists(HELD) == 0
    assert drain.drain_streams() == 0
    assert len(service.letters(tenant.tenant_id)) == 1


def test_poison_beside_a_failure_is_one_dead_letter(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.post(tenant.tenant_id, b"no JSON")
    service.send(tenant.tenant_id, "curse")
    service.send(tenant.tenant_id, "good")
    curse(monkeypatch, "curse")
    assert drain.drain_streams() == 1
    assert sorted(service.letters(tenant.tenant_id)) == [("drain", "DataError", 3), ("drain", "Unreadable", 1)]
    assert service.texts(tenant.tenant_id) == ["good"]


# --- Failures ---


def curse(monkeypatch: pytest.MonkeyPatch, text: str, error: Exception | None = None) -> list[int]:
    """Make the database refuse transactions with this text; return the list of their sizes, which fills up."""
    refused: list[int] = []
    copy = envelopes.copy_fresh

    def copy_fresh(tx: Any, tenant_id: UUID, given: Sequence[Any]) -> int:
        if any(memory.text == text for arrival in given for memory in arrival.memories):
            refused.append(len(given))
            raise error or DataError("COPY", {}, psycopg.errors.DataException("refused"))
        return copy(tx, tenant_id, given)

    monkeypatch.setattr("app.store.ingest.envelopes.copy_fresh", copy_fresh)
    return refused


def test_an_entry_that_fails_three_times_is_a_dead_letter_and_its_neighbours_are_stored(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("one", "curse", "two"):
        service.send(tenant.tenant_id, text)
    refused = curse(monkeypatch, "curse")
    assert stored(service, tenant) == ["one", "two"]
    assert refused == [3, 1, 1]
    assert service.letters(tenant.tenant_id) == [("drain", "DataError", 3)]
    assert service.redis.exists("ebbing:{s0}:attempts") == 0


def test_the_number_of_tries_is_a_setting(service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    service.configure(deliveries_max=5)
    service.send(tenant.tenant_id, "curse")
    assert len(curse(monkeypatch, "curse")) == 0
    drain.drain_streams()
    assert service.letters(tenant.tenant_id) == [("drain", "DataError", 5)]


def test_an_entry_that_kills_its_worker_is_a_dead_letter_after_three_deliveries(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(entry: StreamEntry) -> Any:
        if b"killer" in entry.body:
            raise Killed
        return read_as_ever(entry)

    read_as_ever = drain._read
    monkeypatch.setattr(drain, "_read", read)
    for text in ("one", "killer", "two"):
        service.send(tenant.tenant_id, text)
    deaths = 0
    while True:
        try:
            drain.drain_streams()
        except Killed:
            deaths += 1
            assert deaths <= 3
            lapse(service)
        else:
            break
    assert deaths == 3
    assert service.texts(tenant.tenant_id) == ["one", "two"]
    assert service.letters(tenant.tenant_id) == [("drain", drain.KILLED, 3)]
    assert service.backlog()["entries"] == 0


def away() -> OperationalError:
    return OperationalError("COPY", {}, psycopg.OperationalError("the connection is closed"))


def test_while_the_database_is_away_no_try_counts(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.send(tenant.tenant_id, "patient")
    with monkeypatch.context() as patched:
        curse(patched, "patient", away())
        for _ in range(10):
            with pytest.raises(OperationalError):
                drain.drain_streams()
    assert service.backlog()["entries"] == 1
    assert service.redis.exists(HELD) == 0
    assert stored(service, tenant) == ["patient"]
    assert service.letters(tenant.tenant_id) == []


def test_a_suspect_isnt_counted_while_the_database_is_away(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.send(tenant.tenant_id, "patient")
    stream_reader().claim(first=True)
    lapse(service)
    with monkeypatch.context() as patched:
        curse(patched, "patient", away())
        for _ in range(10):
            with pytest.raises(OperationalError):
                drain.drain_streams()
    assert stored(service, tenant) == ["patient"]
    assert service.letters(tenant.tenant_id) == []


def test_one_tenants_failure_leaves_the_others_turn(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = service.tenant()
    service.send(tenant.tenant_id, "patient")
    service.send(other.tenant_id, "fine")
    curse(monkeypatch, "patient", away())
    for _ in range(2):
        with pytest.raises(OperationalError):
            drain.drain_streams()
    assert service.texts(other.tenant_id) == ["fine"]


@pytest.mark.parametrize("state", ["57P01", "08006", "53300", "40001", "40P01", "25006"])
def test_states_that_pass_are_told_from_those_that_dont(state: str) -> None:
    passing = psycopg.errors.lookup(state)("gone")
    assert is_transient(OperationalError("SELECT", {}, passing))
    assert is_transient(passing)
    for lasting in ("23505", "22P02", "42P01"):
        assert not is_transient(psycopg.errors.lookup(lasting)("wrong"))


def test_suspects_after_a_death_are_stored_and_the_tenant_goes_on(service: Service, tenant: Tenant) -> None:
    service.send(tenant.tenant_id, "in hand")
    assert isinstance(stream_reader().claim(first=True), TenantBatch)
    service.send(tenant.tenant_id, "came later")
    lapse(service)
    assert drain.drain_streams() == 2
    assert service.texts(tenant.tenant_id) == ["in hand", "came later"]
