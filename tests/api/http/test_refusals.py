"""A refusal names the field, its limit and its value, wherever the value was in the request."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from starlette.types import Message

from tests.api.caller import Api
from tests.waiting import until


@pytest.mark.parametrize(
    ("path", "field", "value", "limit"),
    [
        ("/v1/memories?limit=0", "limit", 0, 1),
        ("/v1/links?limit=1001", "limit", 1001, 1000),
        ("/v1/memories?strength_below=1.5", "strength_below", 1.5, 1),
        ("/v1/reviews?subject=", "subject", 0, 1),
        (f"/v1/links?kind={'x' * 200}", "kind", 200, 64),
    ],
)
def test_a_parameter_out_of_its_bounds(api: Api, path: str, field: str, value: float, limit: float) -> None:
    answer = api.get(path)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert (error["field"], error["value"], error["limit"]) == (field, value, limit)
    assert "should" in error["message"]


@pytest.mark.parametrize(
    ("path", "body", "field", "word"),
    [
        ("/v1/reviews/0198a7c2-5e4b-7d31-9c06-3f2b8e1a4d57", {"result": "ok"}, "result", "passed"),
        ("/v1/search", {"query": "x", "kinds": ["semantic", "odd"]}, "kinds[1]", "procedural"),
        ("/v1/search", {"query": "x", "mode": "odd"}, "mode", "hybrid"),
    ],
)
def test_a_word_that_is_none_of_those_allowed(api: Api, path: str, body: dict[str, Any], field: str, word: str) -> None:
    answer = api.post(path, json=body)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["field"] == field
    assert word in error["message"]


@pytest.mark.parametrize("path", ["/v1/search", "/v1/maintenance/sweep"])
def test_an_empty_body_is_called_so(api: Api, path: str) -> None:
    answer = api.post(path)
    assert (answer.status_code, answer.json()["detail"]) == (400, "the body is empty")


class Stopping:
    """A request body that begins and then stalls."""

    async def __call__(self) -> Message:
        if self.begun:
            await asyncio.Event().wait()
        self.begun = True
        return {"type": "http.request", "body": b"{", "more_body": True}

    begun = False


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/search"])
def test_nothing_keeps_a_request_that_was_refused_and_with_it_its_connection(api: Api, path: str) -> None:
    api.service.configure(request_body_timeout_seconds=0.1)
    receive = Stopping()
    kept = weakref.ref(receive)
    gc.collect()
    gc.disable()
    try:
        assert api.serve("POST", path, receive) == 408
        del receive

        def is_gone() -> bool:
            api.run(asyncio.sleep(0))  # the loop drops its reference to the last finished task
            return kept() is None

        until(is_gone, "nothing keeps the request")
    finally:
        gc.enable()
