"""Fuzz every route with requests generated from the served OpenAPI description: none may break the service.

The requests are deterministic. For a longer search with different ones:
`EBBING_TEST_EXAMPLES=1000 EBBING_TEST_SEED=7 make test ARGS="tests/api/http/test_fuzz.py"`.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import uuid4

import httpx
import msgspec
import pytest
import schemathesis
from schemathesis.engine import events, from_schema
from schemathesis.python import asgi
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.domain.policy.api_keys import SCOPES
from app.main import build
from tests.api.caller import Api, fields
from tests.api.http.route_table import TABLE
from tests.api.http.test_routes import described, path_of
from tests.service import Service, Tenant

EXAMPLES = max(int(float(os.environ.get("EBBING_TEST_EXAMPLES") or 15)), 3)
SEED = int(os.environ.get("EBBING_TEST_SEED") or 0)
CASES = 10_000
ROUNDS_MAX = 10
BODY_MAX_BYTES = 64 * 1024

DEEP = b"[" * 5_000 + b"]" * 5_000
BODIES: Final = {
    "nothing": b"",
    "a blank": b" ",
    "half an object": b'{"text": "x"',
    "a text": b'"text"',
    "a number": b"5",
    "null": b"null",
    "no memories": b"[]",
    "not a number": b'{"text": NaN, "limit": NaN}',
    "infinity": b"[1e999]",
    "an endless number": b"[" + b"9" * 10_000 + b"]",
    "nested deeply": DEEP,
    "nested deeply inside": b'{"text": "x", "metadata": {"a": ' + DEEP + b"}}",
    "a NUL byte": b'{"text": "a\0b"}',
    "not UTF-8": b'{"text": "\xff\xfe"}',
    "UTF-16": '{"text": "x"}'.encode("utf-16"),
    "a lone surrogate": b'{"text": "\\ud800", "name": "\\ud800", "query": "\\ud800"}',
    "an unknown field": b'{"\\u0000": 1}',
    "too many bytes": b'"' + b"x" * BODY_MAX_BYTES + b'"',
}
VALUES: Final[list[Any]] = [
    *("", " ", "\0", "\x1b[2J", "\u202e", "é" * 8_000, "'; DROP TABLE memories; --", "%00", "../../..", "${x}", "nan"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30T00:00:00Z", "2026-11-20T18:00:00"),
    *(0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, math.nan, -math.inf, 0.5, -0.0, 1e308, 5e-324),
    *(None, True, [], {}, [None], [[]], {"": None}, [0] * 5_000, ["x"] * 1_000, {"a": {"a": {"a": []}}}),
    *(str(uuid4()), "00000000-0000-0000-0000-000000000000", ["\0"], {"\0": "\0"}, [1e39], {"tokens": 10**30}),
]
MESSAGE: Final = {"role": "user", "content": "x"}
PATHS: Final = ["%00", "%ff%fe", "%ed%a0%80", "..%2f..", "%20", "x" * 5_000, "%F0%9F%90%98", "-1", "*", str(uuid4())]
HEADERS: Final = ("X-Request-Id", "Traceparent", "Content-Encoding", "Content-Type", "Range", "Accept")
HEADER_VALUES: Final = (b"", b"\t", b"x" * 8_000, b"wait=99999999999", b"wait=-1", b"\xe9", b"\0", b"a,b;c=d", b"\x7f")
MEDIA_TYPES: Final = ("application/json", "application/x-ndjson", "text/plain", "")
KEPT: Final = """
WITH sent AS (SELECT memory_id FROM memories WHERE NOT starts_with(coalesce(external_id, ''), '/memories')
    AND NOT 'file_version' = ANY (tags))
SELECT memory_id FROM sent UNION ALL SELECT alias_id FROM memory_aliases JOIN sent USING (memory_id)
"""
"""Ids of the memories that weren't created as files."""
pytestmark = pytest.mark.no_cover  # thousands of requests to routes tested elsewhere; tracing would double the time


class Answer(NamedTuple):
    """A response and the request line it answers."""

    method: str
    path: str
    response: httpx.Response


@dataclass
class Witness:
    """ASGI middleware that records every response and keeps the caller's own key from being revoked."""

    inner: ASGIApp
    key_id: str
    answers: list[Answer] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve and record one request."""
        start: Message = {}
        body = b""

        async def record_message(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
            body += message.get("body", b"")
            await send(message)

        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        path = scope["path"].replace(self.key_id, "nobodys")
        # The same idempotency key comes with many bodies; all but the first would be refused as conflicts.
        headers = [pair for pair in scope["headers"] if pair != (b"idempotency-key", b"0")]
        await self.inner({**scope, "path": path, "headers": headers}, receive, record_message)
        response = httpx.Response(start["status"], headers=start["headers"], content=body)
        self.answers.append(Answer(scope["method"], scope["path"], response))

    def responses(self, method: str, path: str, *statuses: int) -> list[Any]:
        """Return the bodies of the route's responses with one of these statuses."""
        found = [one.response for one in self.answers if (one.method, one.path) == (method, path)]
        return [response.json() for response in found if response.status_code in statuses]


@schemathesis.serializer("application/x-ndjson")
def line(_: schemathesis.SerializationContext, value: Any) -> bytes:
    return msgspec.json.encode(value)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_every_request_is_answered_as_described_and_none_breaks_the_service(service: Service) -> None:
    """All scopes, 10,000 cases: rounds with further seeds follow until there are as many."""
    service.configure(wait_max_seconds=0.05)  # of files and `Prefer: wait`: workers run between scenarios
    caller = service.tenant(scopes=SCOPES)
    witness = Witness(build(), caller.key_id)
    known = send_known(service, caller)
    failures: list[str] = []
    try:
        for seed in range(SEED, SEED + ROUNDS_MAX):
            failures += fuzz(service, witness, caller, known, seed)
            if failures or len(witness.answers) >= CASES:
                break
    finally:
        asgi.shutdown_lifespans()

    assert not failures, "\n\n".join(failures)
    assert len(witness.answers) >= CASES
    for answer in witness.answers:
        if answer.response.status_code >= 400:
            fields(answer.response)
    assert len(witness.responses("POST", "/v1/memories", 202)) > 10
    check_what_is_kept(service, witness)


def fuzz(service: Service, witness: Witness, caller: Tenant, known: list[str], seed: int) -> list[str]:
    """Send generated requests to every route while the workers run; return failures with commands to reproduce them."""
    config = schemathesis.Config.from_dict(
        {
            "seed": seed,
            "headers": {"Authorization": f"Bearer {caller.key}"},
            "generation": {"max-examples": EXAMPLES, "no-shrink": True, "database": "none"},
            "dictionaries": {"known": {"values": known}},
            "parameters": {"path.memory_id": {"dictionary": "known", "probability": 0.5}},
            # The description can't express all reasons for a refusal: bytes, NUL characters, names in use.
            "checks": {"positive_data_acceptance": {"enabled": False}},
        }
    )
    schema = schemathesis.openapi.from_asgi("/openapi.json", witness, config=config)
    failures: list[str] = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            failures += wrong(event)
            service.work()
        elif isinstance(event, events.NonFatalError | events.FatalError):
            failures.append(repr(event.value if isinstance(event, events.NonFatalError) else event.exception))
    return failures


def send_known(service: Service, caller: Tenant) -> list[str]:
    """Send memories whose ids the generated requests use; leave one unprocessed, and return all ids."""
    known = service.send(caller.tenant_id, "a memory", "another")
    service.work()
    return [str(memory_id) for memory_id in known + service.send(caller.tenant_id, "one that waits")]


def wrong(scenario: events.ScenarioFinished) -> list[str]:
    failed = [check.failure_info for checks in scenario.recorder.checks.values() for check in checks]
    return [f"{info.failure.title}: {info.failure.message}\n{info.code_sample}" for info in failed if info is not None]


def check_what_is_kept(service: Service, witness: Witness) -> None:
    """Check that every accepted memory is stored, and nothing else."""
    service.work()
    assert service.is_idle()
    assert service.rows("SELECT stage, reason FROM dead_letters") == []
    accepted = {one for answer in witness.responses("POST", "/v1/memories", 200, 202) for one in answer["ids"]}
    kept = service.rows(KEPT)
    assert len(kept) == 3 + len(accepted)
    assert accepted <= {str(one) for (one,) in kept}
    tenants = witness.responses("POST", "/v1/admin/tenants", 201)
    assert service.one("SELECT count(*) FROM tenants") == 1 + len(tenants)
    keys = witness.responses("POST", "/v1/admin/keys", 201)
    assert service.one("SELECT count(*) FROM api_keys") == 1 + len(tenants) + len(keys)


# --- Requests that the description can't generate ---


def test_a_body_that_is_no_request_is_refused_by_every_route(service: Service) -> None:
    service.configure(request_body_max_bytes=BODY_MAX_BYTES)
    with Api(service) as api:
        api.tenant = api.admin
        for method, path, operation in with_body(api):
            asked = path_of(api, path)
            before = rows_of_all(service)
            for name, body in BODIES.items():
                if body.strip() or operation["requestBody"].get("required"):
                    for media_type in MEDIA_TYPES:
                        answer = ask(api, method, asked, content=body, headers={"content-type": media_type})
                        assert 400 <= answer.status_code < 500, (method, path, name, answer.text)
            assert service.is_idle()
            assert rows_of_all(service) == before, (method, path)


@pytest.mark.long
def test_no_value_of_a_field_breaks_a_route(api: Api) -> None:
    api.tenant = api.admin
    json_routes = [found for found in with_body(api) if "application/json" in found[2]["requestBody"]["content"]]
    routes = [(method, path, path_of(api, path), operation) for method, path, operation in json_routes]
    letters = reasons(api.service)  # dead letters that the paths refer to
    for method, path, asked, operation in routes:
        given = TABLE[method, path][1].get("json", {})
        names, *others = properties(described(api), operation)
        for name, value in itertools.product(names, VALUES):
            ask(api, method, asked, content=json.dumps(given | {name: value}))
            if "external_id" in names:  # memories with an external id take another code path
                ask(api, method, asked, content=json.dumps({"external_id": "x"} | given | {name: value}))
        for name, value in itertools.product(itertools.chain(*others), VALUES):
            ask(api, method, asked, content=json.dumps({"messages": [MESSAGE], name: value}))
    for name, value in itertools.product(described(api)["components"]["schemas"]["ChatMessage"]["properties"], VALUES):
        ask(api, "POST", "/v1/memories", content=json.dumps({"messages": [MESSAGE, MESSAGE | {name: value}]}))
    api.service.work()
    assert reasons(api.service) <= letters
    for method, path in TABLE:  # accepted values can be read back
        if method == "GET":
            ask(api, method, path_of(api, path))


@pytest.mark.long
def test_no_value_of_a_parameter_breaks_a_route(api: Api) -> None:
    api.service.configure(wait_max_seconds=0.05)  # of `Prefer: wait`; no worker runs
    api.tenant = api.admin
    for method, path, operation in operations(api):
        asked = path_of(api, path)
        given = TABLE[method, path][1]
        parameters = operation.get("parameters", ())
        for name in (one["name"] for one in parameters if one["in"] == "path"):
            for value in PATHS:
                ask(api, method, path.replace(f"{{{name}}}", value), **given)
        for name in (one["name"] for one in parameters if one["in"] == "query"):
            for value in VALUES:
                if isinstance(value, str | int | float):
                    ask(api, method, asked, **given | {"params": {**given.get("params", {}), name: value}})
        for name in (*HEADERS, *(one["name"] for one in parameters if one["in"] == "header")):
            for header in HEADER_VALUES:
                ask(api, method, asked, headers={name: header}, **given)


def ask(api: Api, method: str, path: str, **given: Any) -> httpx.Response:
    """Send a request, check that it isn't a 5xx and that a refusal is a problem response, and return the response."""
    answer = api.request(method, path, **given)
    assert answer.status_code < 500, (method, path, given, answer.text)
    if answer.status_code >= 400:
        fields(answer)
    return answer


def operations(api: Api) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in described(api)["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def with_body(api: Api) -> Iterator[tuple[str, str, dict[str, Any]]]:
    return (found for found in operations(api) if "requestBody" in found[2])


def properties(document: dict[str, Any], operation: dict[str, Any]) -> list[list[str]]:
    """Return the field names of each object schema that a route accepts."""
    shape = operation["requestBody"]["content"]["application/json"]["schema"]
    references = [one["$ref"] for one in (shape, *shape.get("anyOf", ())) if "$ref" in one]
    schemas = document["components"]["schemas"]
    return [list(schemas[reference.rpartition("/")[2]]["properties"]) for reference in references]


def reasons(service: Service) -> set[tuple[str, str]]:
    """Return the stage and reason of all dead letters."""
    return {(stage, reason) for stage, reason in service.rows("SELECT stage, reason FROM dead_letters")}


def rows_of_all(service: Service) -> dict[str, int]:
    """Count the rows of every table, without the witness of accepted requests, which is written a second later."""
    names = [name for (name,) in service.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    names.remove("accepted_requests")
    return {name: service.one(f"SELECT count(*) FROM {name}") for name in names}  # noqa: S608 - names from the catalogue
