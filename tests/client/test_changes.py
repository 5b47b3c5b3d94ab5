"""The feed of changes in both clients: pages, the place to go on from, and lost cursors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from ebbing_client import AsyncEbbing, Change, CursorGone, Ebbing
from tests.cli.stub import Reply, Stub, problem

KEY = f"ebb_{'a' * 12}_{'b' * 43}"


@pytest.fixture
def api() -> Iterator[Stub]:
    stub = Stub()
    yield stub
    stub.close()


def page(first: int, count: int, *, more: bool = False) -> Reply:
    listed: list[dict[str, Any]] = [
        {"cursor": f"c{number}", "type": "memory.stored", "at": "2026-11-21T09:12:44Z", "id": f"m{number}"}
        for number in range(first, first + count)
    ]
    return Reply(200, {"changes": listed, "next_cursor": f"c{first + count - 1}", "has_more": more})


def paths(api: Stub) -> list[str]:
    return [asked.path for asked in api.asked]


def test_changes_are_read_to_the_end(api: Stub) -> None:
    api.replies["GET /v1/changes"] = [page(1, 2, more=True), page(3, 1)]
    with Ebbing(api.url, KEY) as client:
        found = list(client.changes(types=["memory.stored", "memory.deleted"]))
    assert [(change.cursor, change.type, change.id) for change in found] == [
        (f"c{number}", "memory.stored", f"m{number}") for number in (1, 2, 3)
    ]
    assert found[0].at is not None
    types = "types=memory.stored%2Cmemory.deleted"
    assert paths(api) == [f"/v1/changes?limit=500&{types}", f"/v1/changes?limit=500&cursor=c2&{types}"]


def test_a_reader_goes_on_after_the_last_change_and_waits(api: Stub) -> None:
    api.replies["GET /v1/changes"] = [page(1, 2), page(3, 0), page(3, 2)]
    with Ebbing(api.url, KEY) as client:
        found = list(islice(client.changes("c0", follow=True, every=0), 4))
    assert [change.id for change in found] == ["m1", "m2", "m3", "m4"]
    assert paths(api) == [f"/v1/changes?limit=500&cursor={cursor}" for cursor in ("c0", "c2", "c2")]


def test_a_lost_cursor_names_the_oldest(api: Stub) -> None:
    gone = {"field": "cursor", "message": "is older than the oldest retained change", "limit": "c7"}
    api.replies["GET /v1/changes"] = Reply(410, problem(410, "cursor-gone", gone))
    with Ebbing(api.url, KEY) as client, pytest.raises(CursorGone) as raised:
        next(client.changes("c0"))
    assert raised.value.fields[0].limit == "c7"


def test_the_async_client_reads_the_same(api: Stub) -> None:
    api.replies["GET /v1/changes"] = [page(1, 1, more=True), page(2, 0), page(2, 1)]

    async def read() -> list[Change]:
        found: list[Change] = []
        async with AsyncEbbing(api.url, KEY) as client:
            async for change in client.changes(follow=True, every=0):
                found.append(change)
                if len(found) == 2:
                    break
        return found

    assert [json.dumps([change.cursor, change.id]) for change in asyncio.run(read())] == [
        '["c1", "m1"]',
        '["c2", "m2"]',
    ]
