"""A caller's `X-Request-ID` is returned to the caller only; logs have the service's own call ID."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from app.api.http.middleware import Guard
from app.errors import NotReplayed
from app.services.erasure import ledger
from tests.api.caller import Api, fields

GIVEN = "req-orla-smith"
OWN = re.compile(r"[0-9a-f]{32}")


def test_without_an_id_of_the_caller_both_ids_are_the_call_id(api: Api) -> None:
    answer = api.get("/v1/memories/unknown")
    fields(answer)
    assert OWN.fullmatch(answer.json()["call_id"])
    assert answer.json()["request_id"] == answer.json()["call_id"]
    assert api.get("/v1/memories/unknown").json()["call_id"] != answer.json()["call_id"]


@pytest.mark.parametrize("given", ["", "two words", "x" * 65, "é"])
def test_an_id_out_of_shape_counts_as_none(api: Api, given: str) -> None:
    answer = api.get("/v1/stats", headers={"x-request-id": given.encode()})
    assert answer.headers["x-request-id"] == answer.headers["ebbing-call-id"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/memories", {"text": ""}),
        ("POST", "/v1/search", {"limit": 0}),
        ("GET", "/v1/memories/unknown", None),
        ("GET", "/v1/memories?limit=0", None),
        ("GET", "/v1/no-such-route", None),
        ("POST", "/memory-decay/search", {}),
    ],
)
def test_the_log_has_the_call_id_and_not_the_callers(api: Api, method: str, path: str, body: object) -> None:
    with capture_logs() as logged:
        answer = api.run(api.send(method, path, json=body, headers={"x-request-id": GIVEN}))
    assert answer.headers["x-request-id"] == GIVEN
    call_id = answer.headers["ebbing-call-id"]
    assert OWN.fullmatch(call_id)
    assert GIVEN not in repr(logged)
    assert [line["call_id"] for line in logged if line["event"] == "refused"] == [call_id]


def test_a_refusal_before_any_route_logs_the_call_id_too(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> None:
        raise NotReplayed

    monkeypatch.setattr(ledger, "is_clear", lambda: False)
    monkeypatch.setattr(ledger, "check", check)
    with capture_logs() as logged:
        answer = api.get("/v1/stats", headers={"x-request-id": GIVEN})
    fields(answer)
    assert [line["call_id"] for line in logged] == [answer.headers["ebbing-call-id"]]


def test_a_failure_after_the_response_began_logs_the_call_id(api: Api) -> None:
    sent = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def broken(_scope: object, _receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        raise ValueError(GIVEN)

    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": [(b"x-request-id", GIVEN.encode())]}
    with capture_logs() as logged:
        api.run(Guard(broken, broken, broken)(scope, None, send))  # type: ignore[arg-type]
    headers = dict(sent[0]["headers"])  # type: ignore[call-overload]
    assert headers[b"x-request-id"] == GIVEN.encode()
    [line] = logged
    assert (line["event"], line["call_id"]) == ("request_failed", headers[b"ebbing-call-id"].decode())
    assert GIVEN not in repr(logged)


def test_what_a_tool_calls_is_logged_with_the_call_id_of_its_request(api: Api) -> None:
    call = {"name": "get", "arguments": {"id": str(uuid4())}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"accept": "application/json, text/event-stream", "host": "localhost"}
    with capture_logs() as logged:
        answer = api.post("/mcp", json=message, headers=accept | {"x-request-id": GIVEN})
    call_id = answer.headers["ebbing-call-id"]
    assert [line["call_id"] for line in logged if line["event"] == "refused"] == [call_id]
    assert f"(request {call_id})" in json.dumps(answer.text)
    assert GIVEN not in repr(logged) + answer.text
