"""`GET /v1/changes`: pages, types, cursors, retention, and the stream of events."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app import shutdown
from app.api.memories import changes
from app.domain.changes.cursors import encode_cursor
from app.domain.changes.types import MEANINGS, SCORED, STORED, TYPES
from app.services.jobs import housekeeping
from app.store.changes import feed
from app.store.core import database
from app.store.erasure import whole_tenant
from tests.api.caller import Api, fields
from tests.waiting import until

PATH = "/v1/changes"
EVENTS = {"accept": "text/event-stream"}


def record(api: Api, change_type: str = STORED, count: int = 1) -> list[str]:
    ids = [uuid4() for _ in range(count)]
    with database.tenant(api.tenant.tenant_id) as tx:
        feed.record(tx, api.tenant.tenant_id, change_type, ids)
    return [str(each) for each in ids]


def page(api: Api, **params: Any) -> dict[str, Any]:
    answer = api.get(PATH, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ids_of(found: dict[str, Any]) -> list[str]:
    return [change["id"] for change in found["changes"]]


def test_pages_follow_each_other_and_wait_for_news(api: Api) -> None:
    ids = record(api, count=5)
    first = page(api, limit=3)
    assert (ids_of(first), first["has_more"]) == (ids[:3], True)
    second = page(api, limit=3, cursor=first["next_cursor"])
    assert (ids_of(second), second["has_more"]) == (ids[3:], False)
    empty = page(api, cursor=second["next_cursor"])
    assert empty == {"changes": [], "next_cursor": second["next_cursor"], "has_more": False}
    later = record(api)
    assert ids_of(page(api, cursor=empty["next_cursor"])) == later
    assert ids_of(page(api, cursor=first["changes"][0]["cursor"])) == [*ids[1:], *later]


def test_a_change_has_its_type_time_and_id_and_nothing_else(api: Api) -> None:
    [memory_id] = api.remember({"text": "Ann drinks tea", "subject": "ann", "tags": ["drinks"], "thread": "kitchen"})
    found = page(api)
    assert {change["type"] for change in found["changes"]} == {STORED, SCORED}
    assert all(change.keys() == {"cursor", "type", "at", "id"} for change in found["changes"])
    assert set(ids_of(found)) == {memory_id}


def test_types_are_chosen(api: Api) -> None:
    stored, scored = record(api, STORED), record(api, SCORED)
    assert ids_of(page(api, types=STORED)) == stored
    assert ids_of(page(api, types=f"{SCORED}, {STORED}")) == [*stored, *scored]
    assert ids_of(page(api, types=[SCORED, "night.finished"])) == scored
    past = page(api, types=STORED)["next_cursor"]
    assert past == page(api)["next_cursor"]  # behind the changes of other types


def test_an_unknown_type_names_the_near_one(api: Api) -> None:
    for given, near in (("memory.store", STORED), ("memory_scored", SCORED), ("export", "export.ready")):
        answer = api.get(PATH, params={"types": f"{STORED},{given}"})
        assert answer.status_code == 422
        [fault] = answer.json()["errors"]
        assert (fault["field"], fault["suggestion"]) == ("types", near)


def test_the_description_lists_every_type(api: Api) -> None:
    assert tuple(MEANINGS) == TYPES
    described = str(api.get("/openapi.json").json()["paths"][PATH])
    assert [name for name in TYPES if name not in described] == []


def test_newest_begins_after_everything(api: Api) -> None:
    record(api, count=3)
    begin = page(api, cursor="newest")
    assert begin["changes"] == []
    later = record(api)
    assert ids_of(page(api, cursor=begin["next_cursor"])) == later


def test_a_cursor_of_another_feed_or_none_at_all_is_refused(api: Api) -> None:
    record(api)
    cursor = page(api)["next_cursor"]
    other = api.service.tenant()
    for key, given in ((other.key, cursor), ("", "x"), ("", cursor[:-4]), ("", "%%%%"), ("", cursor + "AAAA")):
        answer = api.get(PATH, key=key, params={"cursor": given})
        assert (answer.status_code, fields(answer)) == (422, ["cursor"]), given
    assert api.get(PATH, headers={"last-event-id": "x"} | EVENTS).status_code == 422


def test_changes_expire_and_the_oldest_cursor_is_named(api: Api) -> None:
    record(api, count=4)
    first = page(api, limit=1)["next_cursor"]
    last = page(api)["next_cursor"]
    with database.tenant(api.tenant.tenant_id) as tx:
        tomorrow = database.now(tx) + timedelta(days=8)
    housekeeping.run_slice(api.tenant.tenant_id, tomorrow, {}, time.monotonic() + 60)
    answer = api.get(PATH, params={"cursor": first})
    assert (answer.status_code, answer.json()["type"]) == (410, "urn:ebbing:problem:cursor-gone")
    [fault] = answer.json()["errors"]
    assert (fault["field"], fault["limit"]) == ("cursor", last)
    later = record(api)
    assert ids_of(page(api, cursor=fault["limit"])) == ids_of(page(api, cursor=last)) == ids_of(page(api)) == later


def test_a_cursor_ahead_of_the_feed_shows_a_restored_backup(api: Api) -> None:
    record(api)
    ahead = encode_cursor(api.tenant.tenant_id, 9)
    answer = api.get(PATH, params={"cursor": ahead})
    assert answer.status_code == 410
    assert "restored" in answer.json()["errors"][0]["message"]


def test_a_feed_that_was_off_invalidates_its_cursors(api: Api) -> None:
    def set_days(days: int) -> None:
        answer = api.put("/v1/policy", json={"policy": {"changes": {"keep_days": days}}})
        assert answer.status_code == 200, answer.text

    record(api)
    cursor = page(api)["next_cursor"]
    set_days(3)
    assert page(api, cursor=cursor)["changes"] == []
    set_days(0)
    record(api)
    answer = api.get(PATH, params={"cursor": cursor})
    assert (answer.status_code, "changes.keep_days" in answer.json()["detail"]) == (409, True)
    set_days(7)
    assert api.get(PATH, params={"cursor": cursor}).status_code == 410
    later = record(api)
    assert ids_of(page(api)) == later


@contextmanager
def streaming(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Make streams look for changes often, and end once the event is set."""
    ended = threading.Event()
    monkeypatch.setattr(changes, "EVERY_SECONDS", 0.02)
    monkeypatch.setattr(shutdown, "is_near", ended.is_set)
    yield ended
    ended.set()


def events(answer: httpx.Response) -> list[dict[str, str]]:
    blocks = answer.text.strip().split("\n\n")
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


def test_a_stream_sends_old_and_new_changes_and_ends_at_shutdown(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    old = record(api, count=2)
    answers: list[httpx.Response] = []
    with streaming(monkeypatch) as ended:
        thread = threading.Thread(target=lambda: answers.append(api.get(PATH, headers=EVENTS)))
        thread.start()
        until(lambda: changes._open[api.tenant.tenant_id] == 1, "an open stream")
        new = record(api, SCORED)
        until(lambda: _are_numbered(api), "a stream that has looked for changes")
        ended.set()
        thread.join()
    [answer] = answers
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    sent = events(answer)
    assert sent[0] == {"retry": "3000"}
    assert [event["event"] for event in sent[1:]] == [STORED, STORED, SCORED]
    assert [each in event["data"] for each, event in zip([*old, *new], sent[1:], strict=True)] == [True] * 3
    assert not changes._open
    with streaming(monkeypatch) as ended:
        ended.set()
        resumed = api.get(PATH, headers=EVENTS | {"last-event-id": sent[2]["id"]})
    assert [event.get("event") for event in events(resumed)] == [None, SCORED]


def _are_numbered(api: Api) -> bool:
    return bool(api.service.one("SELECT count(*) FROM changes WHERE last IS NULL") == 0)


def test_a_ping_moves_the_position_past_other_types(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    record(api, SCORED)
    monkeypatch.setattr(changes, "PING_SECONDS", 0.0)
    monkeypatch.setattr(changes, "STREAM_SECONDS", 0.0)
    answer = api.get(PATH, headers=EVENTS, params={"types": STORED})
    assert f": ping\nid: {page(api)['next_cursor']}\n\n" in answer.text


def test_a_stream_ends_with_its_key(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.service.configure(key_cache_seconds=0)
    answers: list[httpx.Response] = []
    with streaming(monkeypatch):
        thread = threading.Thread(target=lambda: answers.append(api.get(PATH, headers=EVENTS)))
        thread.start()
        until(lambda: changes._open[api.tenant.tenant_id] == 1, "an open stream")
        api.service.rows("UPDATE api_keys SET revoked_at = now() WHERE tenant_id = %s", api.tenant.tenant_id)
        thread.join()
    assert answers[0].status_code == 200
    assert not changes._open


def test_streams_of_a_tenant_are_bounded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.service.configure(change_streams_max=0)
    answer = api.get(PATH, headers=EVENTS)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    assert page(api)["changes"] == []
    api.service.configure(change_streams_max=1)
    monkeypatch.setattr(changes, "STREAM_SECONDS", 0.0)
    assert [api.get(PATH, headers=EVENTS, params=each).status_code for each in ({"cursor": "x"}, {}, {})] == [
        *(422, 200, 200)
    ]


def test_a_deleted_tenants_changes_are_part_of_its_data(api: Api) -> None:
    record(api)
    page(api)
    with database.tenant(api.tenant.tenant_id) as tx:
        assert whole_tenant.count_rows(tx, api.tenant.tenant_id, UUID(int=0), ["changes", "change_heads"]) == {
            "changes": 1,
            "change_heads": 1,
        }
    assert {"changes", "change_heads"} <= set(whole_tenant.DATA)
