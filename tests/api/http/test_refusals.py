"""A refusal names the field, its limit and its value, wherever the value was in the request."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any
from uuid import UUID

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


def test_a_refusal_proposes_the_known_field_and_lists_every_fault(api: Api) -> None:
    problem = api.post("/v1/memories", json={"content": "secret", "happened_at": "x", "tags": 1, "date": "x"}).json()
    assert problem["detail"] == "Unknown field `content`; did you mean `text`? (3 more)"
    assert problem["errors"][0] == {
        "field": "content",
        "message": "isn't a known field; did you mean `text`?",
        "suggestion": "text",
    }
    assert [error["field"] for error in problem["errors"]] == ["content", "happened_at", "date", "tags"]
    assert "omitted_errors" not in problem
    many = api.post("/v1/memories", json=[{"text": 5}] * 57).json()
    assert (len(many["errors"]), many["omitted_errors"]) == (20, 37)
    assert many["detail"] == "[0].text must be a string (56 more)"
    empty = api.post("/v1/recall", json={"messages": [{}] * 30}).json()
    assert (len(empty["errors"]), empty["omitted_errors"]) == (20, 10)


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("/v1/search", {"q": "tea"}, "Unknown field `q`; did you mean `query`?"),
        ("/v1/recall", {"messages": ["x"], "user_id": "ann"}, "Unknown field `user_id`; did you mean `subject`?"),
        ("/v1/recall", {"messages": []}, "messages must not be empty"),
        ("/v1/observations", {"memory_ids": []}, "Unknown field `memory_ids`; did you mean `ids`?"),
        ("/v1/observations", {}, "ids is missing: give `ids`, or `memories` with times"),
        ("/v1/forecast", {"days": "ten"}, "days must be a whole number"),
    ],
)
def test_the_detail_is_a_sentence_about_the_first_fault(api: Api, path: str, body: dict[str, Any], detail: str) -> None:
    answer = api.post(path, json=body)
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


def test_a_policy_field_that_is_unknown_proposes_the_known_one(api: Api) -> None:
    answer = api.put("/v1/policy", json={"policy": {"tiers": {"archived_bellow": 0.1}}})
    [error] = answer.json()["errors"]
    assert (error["field"], error["suggestion"]) == ("policy.tiers.archived_bellow", "archived_below")


def test_what_isnt_found_is_named_and_a_conflict_says_its_cause(api: Api) -> None:
    missing = api.get(f"/v1/memories/{UUID(int=7)}").json()
    assert (missing["title"], missing["detail"]) == ("Not found", "Memory not found")
    api.post("/v1/admin/tenants", json={"name": "acme"}, key=api.admin.key)
    taken = api.post("/v1/admin/tenants", json={"name": "acme"}, key=api.admin.key).json()
    assert (taken["title"], taken["detail"]) == ("Conflict", 'tenant "acme" already exists')


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


def test_an_unknown_query_parameter_is_refused_and_proposes_the_known_one(api: Api) -> None:
    answer = api.get("/v1/memories?user_id=ann&limt=5&limit=1")
    assert answer.status_code == 422
    assert [(error["field"], error.get("suggestion")) for error in answer.json()["errors"]] == [
        ("user_id", "subject"),
        ("limt", None),  # `limit` is given already
    ]
    assert api.get("/healthz?probe=1").status_code == 200
    assert api.get("/v1/memories?subject=ann&limit=1").status_code == 200
