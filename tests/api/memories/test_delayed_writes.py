"""Writes that waited at their sender: those from before an erasure of their subject or thread aren't stored."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx
import pytest

from app.clients.redis.connection import COUNTERS, stream_key
from app.domain.ingest.envelope import decode_envelope, replay_header
from tests.api.caller import Api, fields
from tests.services.due_deletions import worked

HOUR = 3600.0


def post(api: Api, *memories: dict[str, Any], key: str = "") -> httpx.Response:
    """Post memories as sent now."""
    headers = {"Ebbing-Sent-At": str(time.time_ns() // 1_000_000)} | ({"Idempotency-Key": key} if key else {})
    return api.post("/v1/memories", json=list(memories), headers=headers)


def written(text: str, seconds_ago: float, after: str | None = None, **given: Any) -> dict[str, Any]:
    at = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat()
    return {"text": text, **given, "written": {"at": at, "after": after}}


def erase(api: Api, **scope: Any) -> None:
    asked = api.post("/v1/privacy/erasures", json={**scope, "grace_days": 0})
    assert asked.status_code == 202, asked.text
    worked(api.service)
    assert api.get(f"/v1/privacy/erasures/{asked.json()['id']}").json()["status"] == "verified"


def stored(api: Api) -> list[str]:
    api.service.work()
    return sorted(api.service.texts(api.tenant.tenant_id))


@pytest.mark.parametrize("named", ["subject", "thread"])
def test_a_write_from_before_the_erasure_is_dropped_and_reported(api: Api, named: str) -> None:
    api.remember({"text": "known", named: "ann"})
    erase(api, **{named: "ann"})
    answer = post(
        api,
        written("late", HOUR, **{named: "ann"}),
        written("other", HOUR, **{named: "bob"}),
        written("nobody's", HOUR),
        {"text": "new", named: "ann"},
    )
    assert answer.status_code == 202
    [first, *_] = answer.json()["ids"]
    assert answer.json()["dropped"] == [{"id": first, "erased": named}]
    assert stored(api) == ["new", "nobody's", "other"]
    counters = api.service.redis.hmget(COUNTERS, ["erased_on_arrival", "erased_delayed_writes"])
    assert counters == [b"1", b"1"]
    assert api.get(f"/v1/memories/{first}").status_code == 404


def test_a_write_from_after_the_erasure_is_stored(api: Api) -> None:
    """By its position, if its sender saw one after the erasure, or else by its time."""
    api.remember({"text": "known", "subject": "ann"})
    before = post(api, written("bob", 0, subject="bob")).headers["ebbing-position"]
    erase(api, subject="ann")
    since = post(api, written("by time", 0, subject="ann")).headers["ebbing-position"]
    answer = post(
        api,
        written("by position", HOUR, since, subject="ann"),
        written("too early", HOUR, before, subject="ann"),
        written("clock set back", -HOUR, before, subject="ann"),
        written("clock set back later", -HOUR, since, subject="ann"),
    )
    early, back = answer.json()["ids"][1:3]
    assert answer.json()["dropped"] == [{"id": early, "erased": "subject"}, {"id": back, "erased": "subject"}]
    assert stored(api) == ["bob", "by position", "by time", "clock set back later"]


def test_the_drain_drops_what_the_response_could_not_report(api: Api) -> None:
    """The erasure starts between acceptance and storage, or the entry is a dead letter that is replayed."""
    answer = post(api, written("late", HOUR, subject="ann", external_id="1"), written("kept", HOUR, subject="bob"))
    assert "dropped" not in answer.json()
    found = api.service.redis.xrange(stream_key(api.tenant.tenant_id))
    [(entry_id, entry)] = cast("list[tuple[bytes, dict[bytes, bytes]]]", found)
    envelope = decode_envelope(entry_id.decode(), entry[b"n"], entry[b"h"], entry[b"e"])
    assert envelope.sent_ms is not None
    replayed = decode_envelope("9-0", entry[b"n"], replay_header(entry[b"h"], entry_id.decode()), entry[b"e"])
    assert (replayed.position, replayed.sent_ms) == (envelope.position, envelope.sent_ms)
    erase(api, subject="ann")
    assert stored(api) == ["kept"]


def test_a_repeated_request_gets_the_same_report(api: Api) -> None:
    erase(api, subject="ann")
    body = written("late", HOUR, subject="ann")
    first, again = post(api, body, key="k"), post(api, body, key="k")
    assert first.json()["dropped"] == again.json()["dropped"] != []
    assert first.json()["ids"] == again.json()["ids"]


def test_a_cancelled_erasure_drops_nothing(api: Api) -> None:
    asked = api.post("/v1/privacy/erasures", json={"subject": "ann", "grace_days": 3}).json()
    assert "dropped" not in post(api, written("late", HOUR, subject="ann")).json()
    api.service.work()
    assert api.get("/v1/memories").json()["memories"] == []
    api.post(f"/v1/privacy/erasures/{asked['id']}/cancel")
    assert stored(api) == ["late"]


@pytest.mark.parametrize("header", [None, "soon", "-1", "9" * 16])
def test_the_time_of_sending_is_needed_beside_written(api: Api, header: str | None) -> None:
    headers = {} if header is None else {"Ebbing-Sent-At": header}
    answer = api.post("/v1/memories", json=[written("late", 1)], headers=headers)
    assert (answer.status_code, fields(answer)) == (400, ["Ebbing-Sent-At"])
    assert api.post("/v1/memories", json=[{"text": "ordinary"}], headers=headers).status_code == 202


def test_faults_of_written_are_named(api: Api) -> None:
    given = [
        {"text": "x", "written": {"at": "2026-11-20T18:00:00"}},
        {"text": "x", "written": {"at": "2026-11-20T18:00:00Z", "after": "yesterday"}},
        {"text": "x", "written": {}},
        {"text": "x", "written": {"at": "2026-11-20T18:00:00Z", "late": True}},
    ]
    answer = post(api, *given)
    expected = ["[0].written.at", "[1].written.after", "[2].written.at", "[3].written.late"]
    assert (answer.status_code, sorted(fields(answer))) == (422, expected)
    chat = {"messages": [{"role": "user", "content": "x"}], "written": {"at": "2026-11-20T18:00:00Z"}}
    assert fields(api.post("/v1/memories", json=chat)) == ["written"]
