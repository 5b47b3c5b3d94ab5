"""Redaction of erased subjects from dead letters."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import msgspec

from app.domain.ingest.bodies import decode
from app.domain.ingest.envelope import Form, pack
from app.domain.ingest.ids import generate_base
from app.domain.ingest.uses import Touches, Use, encode
from app.domain.ingest.uses import decode as decode_touches
from app.domain.privacy import dead_letter_redaction
from app.domain.privacy.dead_letter_redaction import RedactedLetter, RedactionScope
from app.domain.privacy.legal_hold import Scope

AT = 1_790_000_000_000
BASE = generate_base(AT, b"x" * 8)
ERASURE = UUID(int=7)


def taken(
    body: bytes, form: Form = "json", *, erased: tuple[UUID, ...] = (), position: str = "", **scope: object
) -> RedactedLetter:
    header = pack(BASE, 1, form, "", b"")[3]
    assert isinstance(header, bytes)
    meant = RedactionScope(ERASURE, Scope(**scope), erased, f"{AT}-5")  # type: ignore[arg-type]
    return dead_letter_redaction.redact_letter(meant, position or f"{AT}-0", header, body)


ANN, BOB = (
    {"text": "gooseberries", "subject": "ann"},
    {"text": "laughs", "subject": "bob", "metadata": {"z": 1, "a": 2}},
)


def test_the_others_keep_their_places_and_their_bytes() -> None:
    bob = json.dumps(BOB).encode()
    done = taken(b"[" + json.dumps(ANN).encode() + b" , " + bob + b"]", subject="ann")
    assert done.removed == 1
    assert done.payload is not None
    assert bob in done.payload
    [gone, left] = decode(done.payload, "json", None)
    assert (gone.text, gone.subject, gone.thread) == ("erased", None, dead_letter_redaction.placeholder_thread(ERASURE))
    assert left.subject == "bob"
    assert b"gooseberries" not in done.payload


def test_lines_stay_lines() -> None:
    done = taken(b"\n".join(json.dumps(each).encode() for each in (BOB, ANN)), "ndjson", subject="ann")
    assert [each.subject for each in decode(done.payload or b"", "ndjson", None)] == ["bob", None]


def test_where_that_is_all_nothing_is_left() -> None:
    assert taken(json.dumps(ANN).encode(), subject="ann") == RedactedLetter(1, None)
    once = taken(json.dumps([ANN, BOB]).encode(), subject="ann").payload or b""
    assert taken(once, subject="bob") == RedactedLetter(1, None)


def test_what_came_after_the_cut_is_somebody_new() -> None:
    body = json.dumps(ANN).encode()
    assert taken(body, subject="ann", position=f"{AT}-6") == RedactedLetter(0, body)


def test_what_can_be_no_memory_goes_by_the_names_it_gives() -> None:
    bad = json.dumps([{"subject": "ann", "salience": 7}, BOB]).encode()
    assert taken(bad, subject="ann").removed == 1
    assert taken(bad, subject="ann", thread="t").removed == 0
    assert taken(b"no JSON of \xff ann", subject="ann") == RedactedLetter(1, None)
    assert taken(b'no JSON of "\\u00c4nn', subject="Änn") == RedactedLetter(1, None)
    assert taken(b"no JSON of bob", subject="ann").removed == 0


def test_ids_that_were_answered_and_never_stored_can_be_meant() -> None:
    second = UUID(bytes=BASE[:-1] + b"\1")
    done = taken(json.dumps([BOB, ANN]).encode(), memory_ids=[second])
    assert [each.subject for each in decode(done.payload or b"", "json", None)] == ["bob", None]


def test_uses_of_what_is_erased_go() -> None:
    one, other = uuid4(), uuid4()
    body = encode(Touches([Use(one), Use(other)], 3))
    done = taken(body, "touches", erased=(one,), subject="ann")
    assert [use.id for use in decode_touches(done.payload or b"").uses] == [other]
    assert taken(body, "touches", erased=(one, other), subject="ann") == RedactedLetter(2, None)
    assert taken(body, "touches", subject="ann") == RedactedLetter(0, body)


def test_conditions_are_all_wanted() -> None:
    tagged = msgspec.json.encode([ANN | {"tags": ["a", "b"]}, ANN])
    assert taken(tagged, subject="ann", tags=["a"]).removed == 1


TAIL = {"role": "user", "content": "laughs"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
CHAT: dict[str, object] = {"messages": [{"role": "system", "content": "gooseberries"}, CALL, TAIL], "subject": "ann"}


def test_messages_of_an_erased_subject_go_with_the_letter() -> None:
    body = json.dumps(CHAT).encode()
    assert taken(body, subject="ann") == RedactedLetter(2, None)
    assert taken(body, subject="bob") == RedactedLetter(0, body)
    assert taken(body, subject="ann", position=f"{AT}-6") == RedactedLetter(0, body)


def test_of_messages_the_others_become_memories_with_the_ids_that_were_answered() -> None:
    second = UUID(bytes=BASE[:-1] + b"\1")
    body = json.dumps(CHAT | {"multiplier": 0, "occurred_at": "2026-03-07T12:00:00+02:00"}).encode()
    _, before = decode(body, "json", None)
    done = taken(body, memory_ids=[UUID(bytes=BASE)])
    assert done.removed == 1
    assert b"gooseberries" not in (done.payload or b"")
    gone, left = decode(done.payload or b"", "json", None)
    assert (gone.text, gone.thread, gone.role) == ("erased", dead_letter_redaction.placeholder_thread(ERASURE), None)
    assert left == before
    assert taken(done.payload or b"", memory_ids=[second]) == RedactedLetter(1, None)


def test_messages_that_cant_be_stored_go_by_any_name_in_them() -> None:
    bad = json.dumps(CHAT | {"messages": [{"role": "robot", "content": "gooseberries"}]}).encode()
    assert taken(bad, subject="ann") == RedactedLetter(1, None)
    assert taken(bad, subject="bob") == RedactedLetter(0, bad)
