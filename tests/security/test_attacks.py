"""Attacks that failed once and have to fail for ever: hostile bodies, races of 200 requests, and a planted session."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from app.dashboard.sessions import COOKIE
from app.services.tenants import tenants
from tests.api.caller import Api, fields
from tests.api.conftest import api
from tests.dashboard.visitor import Visitor

__all__ = ["api"]

RACERS: Final = 200


def text(value: str) -> bytes:
    return json.dumps({"text": value}).encode()


def field(name: str, value: str) -> bytes:
    """Return a memory with this field, written as JSON by hand."""
    return b'{"text": "x", "%s": %s}' % (name.encode(), value.encode())


LONG = 32 * 1024
BODIES: Final[dict[str, bytes]] = {
    "a million arrays": b"[" * 1_000_000,
    "a million arrays, closed": b"[" * 500_000 + b"]" * 500_000,
    "a million objects": b'{"text":' * 200_000,
    "metadata nested deeply": field("metadata", '{"a":' * 5_000 + "1" + "}" * 5_000),
    "metadata just too deep": field("metadata", '{"a":' * 40 + "1" + "}" * 40),
    "a field twice": b'{"text": "x", "text": "y"}',
    "a field in two spellings": b'{"text": "x", "te\\u0078t": "y"}',
    "a field in capitals": b'{"TEXT": "x"}',
    "a prototype": field("__proto__", '{"text": "y"}'),
    "a constructor": field("constructor", '{"prototype": {}}'),
    "NaN": field("salience", "NaN"),
    "infinity": field("salience", "Infinity"),
    "minus infinity": field("salience", "-1e999"),
    "1e999": field("salience", "1e999"),
    "an endless number": field("salience", "9" * 10_000),
    "a tiny number": field("salience", "5e-324"),
    "minus nought": field("salience", "-0.0"),
    "a number in words": field("salience", '"1"'),
    "a hexadecimal number": field("salience", "0x10"),
    "a leading nought": field("salience", "01"),
    "true as a number": field("salience", "true"),
    "a lone high surrogate": b'{"text": "\\ud800"}',
    "a lone low surrogate": b'{"text": "\\udc00 x"}',
    "surrogates in the wrong order": b'{"text": "\\udc00\\ud800"}',
    "NUL, escaped": b'{"text": "a\\u0000b"}',
    "NUL, raw": b'{"text": "a\0b"}',
    "NUL in metadata's key": field("metadata", '{"\\u0000": 1}'),
    "a line feed, raw": b'{"text": "a\nb"}',
    "not UTF-8": b'{"text": "\xff\xfe"}',
    "an overlong encoding": b'{"text": "\xc0\xaf"}',
    "UTF-16": '{"text": "x"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"text": "x"}',
    "text that runs backwards": text("\u202egnirts\u202c \u2066x\u2069"),
    "combining characters": text("a" + "\u0301" * 5_000),
    "invisible characters": text("\u200b" * 1_000),
    "noncharacters": text("\uffff\ufdd0"),
    "the first year": field("occurred_at", '"0001-01-01T00:00:00+14:00"'),
    "the last year": field("occurred_at", '"9999-12-31T23:59:59-14:00"'),
    "a leap second": field("occurred_at", '"2016-12-31T23:59:60Z"'),
    "no such day": field("occurred_at", '"2026-02-30T00:00:00Z"'),
    "a moment without an offset": field("occurred_at", '"2026-02-01T00:00:00"'),
    "a vector of noughts": field("embedding", json.dumps([0] * 256)),
    "a vector of 1e308": field("embedding", json.dumps([1e308] * 256)),
    "a vector of one": field("embedding", "[1]"),
    "a vector of words": field("embedding", json.dumps(["x"] * 256)),
    "32 KiB of a@": text("a@" * (LONG // 2)),
    "32 KiB of 1-": text("1-" * (LONG // 2)),
    "32 KiB of AKIA": text("AKIA" * (LONG // 4)),
    "32 KiB of brackets": text("([{<" * (LONG // 4)),
    "SQL": field("external_id", json.dumps("'; DROP TABLE memories; --")),
    "a thousand tags": field("tags", json.dumps([f"t{number}" for number in range(1_000)])),
    "an id of another's": field("supersedes", json.dumps([str(uuid4())])),
}


def test_52_hostile_bodies_are_refused_or_stored_whole(api: Api) -> None:
    assert len(BODIES) == 52
    accepted: list[str] = []
    for name, body in BODIES.items():
        answer = api.post("/v1/memories", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in {202, 400, 413, 422}, (name, answer.status_code, answer.text)
        if answer.status_code == 202:
            accepted += answer.json()["ids"]
        else:
            assert fields(answer) or answer.status_code != 422, name
    api.service.work()
    assert api.service.letters(api.tenant.tenant_id) == []
    assert {str(one) for (one,) in api.service.rows("SELECT memory_id FROM memories")} == set(accepted)
    assert api.service.is_idle()
    for memory_id in accepted:
        assert api.get(f"/v1/memories/{memory_id}").status_code == 200
    assert 10 < len(accepted) < len(BODIES) - 20


def at_once(api: Api, requests: Iterator[dict[str, Any]]) -> list[httpx.Response]:
    api.tenant  # noqa: B018 - creates the tenant outside the loop

    async def send() -> list[httpx.Response]:
        return list(await asyncio.gather(*(api.send("POST", "/v1/memories", **given) for given in requests)))

    return api.run(send())


def test_200_requests_at_once_with_one_idempotency_key_are_one_request(api: Api) -> None:
    given = {"json": {"text": "x"}, "headers": {"idempotency-key": "once"}}
    answers = at_once(api, (given for _ in range(RACERS)))
    assert Counter(answer.status_code for answer in answers) == {202: RACERS}
    assert len({answer.json()["ids"][0] for answer in answers}) == 1
    api.service.work()
    assert api.service.texts(api.tenant.tenant_id) == ["x"]


def test_of_200_bodies_at_once_under_one_idempotency_key_one_is_accepted(api: Api) -> None:
    headers = {"idempotency-key": "once"}
    answers = at_once(api, ({"json": {"text": f"{number}"}, "headers": headers} for number in range(RACERS)))
    assert Counter(answer.status_code for answer in answers) == {202: 1, 409: RACERS - 1}
    api.service.work()
    [stored] = api.service.texts(api.tenant.tenant_id)
    assert answers[int(stored)].status_code == 202


def test_200_requests_at_once_with_one_external_id_are_one_memory_to_which_every_id_leads(api: Api) -> None:
    answers = at_once(api, ({"json": {"text": f"{number}", "external_id": "one"}} for number in range(RACERS)))
    assert {answer.status_code for answer in answers} == {202}
    ids = [answer.json()["ids"][0] for answer in answers]
    assert len(set(ids)) == RACERS
    api.service.work()
    assert len(api.service.texts(api.tenant.tenant_id)) == 1
    assert len({api.get(f"/v1/memories/{memory_id}").json()["id"] for memory_id in ids}) == 1


@pytest.mark.parametrize("planted", ["planted", "A" * 64, ""])
def test_a_session_that_was_planted_before_the_log_in_is_not_taken_over(api: Api, planted: str) -> None:
    key = tenants.issue_key(api.tenant.tenant_id, "visitor", ("read",))
    headers = {"origin": "http://test", "cookie": f"{COOKIE}={planted}"}
    answer = api.post("/ops/log-in", key=None, data={"key": key}, headers=headers)
    assert answer.status_code == 303
    made = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
    assert made
    assert made != planted
    assert api.get("/ops/", key=None, headers={"cookie": f"{COOKIE}={planted}"}).status_code == 303
    first, second = (Visitor(api, key).cookie for _ in range(2))
    assert len({made, first, second}) == 3, "each log-in has a session of its own"
