"""Malformed entries written directly to the stream: each is set aside with its reason and blocks nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

import pytest
import redis

from app.domain.ingest.envelope import pack
from app.domain.ingest.ids import generate_base
from app.domain.ingest.memory import TEXT_MAX_BYTES
from tests.faults.fault_cluster import Plant
from tests.faults.load import Caller
from tests.past_the_door import push, push_raw
from tests.waiting import until

GOOD: Final = b'{"text": "fine"}'

BODIES: Final = {
    "bad JSON": (b"{oops", "Unreadable"),
    "nothing": (b"", "Unreadable"),
    "nested a million deep": (b"[" * 1_000_000, "Invalid"),
    "nested inside": (b'{"text": "x", "metadata": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001, "Unreadable"),
    "not UTF-8": (b'{"text": "\xff\xfe"}', "Unreadable"),
    "a NUL character": (b'{"text": "a\\u0000b"}', "Invalid"),
    "a lone surrogate": (b'{"text": "a\\ud800b"}', "Unreadable"),
    "a byte too long": (b'{"text": "' + b"x" * (TEXT_MAX_BYTES + 1) + b'"}', "Invalid"),
    "a number out of range": (b'{"text": "x", "salience": 1e999}', "Invalid"),
    "another number than it says": (
        b"[" + GOOD + b"," + GOOD + b"]",
        "envelope body and memory count differ",
    ),
}


def header(version: bytes = b"1") -> bytes:
    """Build an envelope header as the door does, with any version."""
    base = generate_base(time.time_ns() // 1_000_000, os.urandom(8))
    return version + bytes(pack(base, 1, "json", "", b"")[3])[1:]


ENVELOPES: Final = {
    "an unknown version": (b"1", header(b"9")),
    "no header": (b"1", b""),
    "half a header": (b"1", header()[:7]),
    "an unknown form": (b"1", b"1x" + header()[2:]),
    "no number": (b"", header()),
    "a negative number": (b"-5", header()),
    "an endless number": (b"9" * 5000, header()),
    "not a number": (b"nan", header()),
    "infinity": (b"inf", header()),
}


@pytest.fixture
def queue(plant: Plant) -> redis.Redis:
    return redis.Redis.from_url(plant.redis.url, protocol=2)


def test_poison_is_set_aside_and_its_neighbours_are_stored(
    plant: Plant, callers: Callable[[int], list[Caller]], queue: redis.Redis
) -> None:
    [caller] = callers(1)
    with queue, plant.paused("worker-ingest"):  # so that all arrive in one turn
        caller.send()
        for body, _ in BODIES.values():
            push(queue, caller.tenant_id, body)
        for number, head in ENVELOPES.values():
            push_raw(queue, caller.tenant_id, number, head, GOOD)
        caller.send()

    wanted = len(BODIES) + len(ENVELOPES)
    until(lambda: len(plant.books.dead_letters(caller)) >= wanted, "all poison is set aside")
    plant.books.wait_until_settled([caller])
    letters = plant.books.dead_letters(caller)
    for (stage, reason, attempts), (name, (_, expected)) in zip(letters, BODIES.items(), strict=False):
        assert (stage, attempts) == ("drain", 1), name
        assert reason == expected, name
    assert {reason for _, reason, _ in letters[len(BODIES) :]} == {
        "unknown envelope version",
        "envelope header out of shape",
    }
    plant.books.check([caller], dead_letters=wanted)
    plant.books.check_backlog_is_nought()


def test_the_consumer_is_alive_after_it(plant: Plant, callers: Callable[[int], list[Caller]]) -> None:
    sick, well = callers(2)
    with redis.Redis.from_url(plant.redis.url, protocol=2) as queue:
        for body, _ in BODIES.values():
            push(queue, sick.tenant_id, body)
            ids = well.send()
            until(lambda ids=ids: plant.books.stored(well).issuperset(ids), "others are stored")  # type: ignore[misc]
    until(lambda: len(plant.books.dead_letters(sick)) == len(BODIES), "all poison is set aside")
    plant.books.check([well])
