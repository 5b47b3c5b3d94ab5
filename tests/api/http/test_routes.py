"""Every route against every kind of caller; a route that is missing from the table fails the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any
from uuid import uuid4

import pytest
from fastapi.openapi.models import OpenAPI

from app.clients.llm.responses import Usage
from app.domain.policy import api_keys
from app.domain.policy.api_keys import SCOPES
from app.services.tenants import budget, tenants
from tests.api.caller import Api, fields
from tests.api.http.created_objects import (
    a_held_erasure,
    a_hold,
    a_job,
    a_key,
    a_letter,
    a_merge,
    a_proposal,
    a_quarantine,
    a_request,
    a_schedule,
    a_webhook,
    an_erasure,
    an_export,
    an_extended_request,
    an_import,
    name_two,
)
from tests.api.http.deletable_tenants import another_tenant
from tests.api.http.route_table import OPEN, TABLE
from tests.service import Service

IDS = (
    *("job_id", "letter_id", "hold_id", "merge_id", "erasure_id", "supersession_id"),
    *("export_id", "import_id", "request_id", "webhook_id", "quarantine_id"),
)
GUARDED = {route: needs for route, needs in TABLE.items() if needs[0] != OPEN}


def path_of(api: Api, path: str) -> str:
    """Create the objects that the path names, for the caller's tenant, and return the path with their ids."""
    if path == "/v1/supersessions":
        name_two(api)
    if path == "/v1/webhooks":
        api.service.configure(webhook_hosts="127.0.0.1")
    made: dict[str, Callable[[Api], object]] = {
        "memory_id": lambda api: api.remember("mine")[0],
        "key_id": a_key,
        "job_id": a_job,
        "letter_id": a_letter,
        "hold_id": a_hold,
        "quarantine_id": a_quarantine,
        "erasure_id": an_erasure,
        "export_id": an_export,
        "import_id": an_import,
        "webhook_id": a_webhook,
        "request_id": {"notice": an_extended_request, "partial": a_held_erasure}.get(
            path.rpartition("/")[2], a_request
        ),
        "supersession_id": a_proposal,
        "merge_id": lambda api: a_merge(api, "done" if path.endswith("undo") else "waiting"),
        "subject": lambda _: "ann/of/here",
        "letter": lambda _: "acknowledgement",
        "name": a_schedule,
        "tenant_id": lambda api: another_tenant(api, path),
    }
    values = {name: make(api) for name, make in made.items() if f"{{{name}}}" in path}
    if values:
        return path.format(**values)
    if path == "/v1/links":
        name_two(api)
    return path


def key_with(api: Api, *scopes: str) -> str:
    return tenants.issue_key(api.tenant.tenant_id, "-".join(scopes), scopes)


_DESCRIPTION: dict[str, Any] = {}


def described(api: Api) -> dict[str, Any]:
    """Return the OpenAPI document, cached because generating it takes as long as the rest of a test."""
    if not _DESCRIPTION:
        answer = api.get("/openapi.json", key=None)
        assert answer.status_code == 200
        _DESCRIPTION.update(answer.json())
    return _DESCRIPTION


def test_every_route_is_in_the_table(api: Api) -> None:
    operations = {(method.upper(), path) for path, methods in described(api)["paths"].items() for method in methods}
    assert operations == set(TABLE), "add a row to TABLE for each new route"


def test_no_route_is_left_out_of_the_description(api: Api) -> None:
    # The pages under /ops have their own tests.
    shown = {path for _, path in TABLE} | {"/", "/docs", "/docs/{name}", "/openapi.json", "/ops"}
    assert {re.sub(r":\w+}", "}", path) for path in api.paths()} <= shown


def check_each(
    api: Api, routes: Iterable[tuple[str, str]], check: Callable[[str, str], None], *, change_tenant: bool = True
) -> None:
    """Check every route, each with a new tenant, and fail with the messages of all that fail."""
    failed = []
    for method, path in routes:
        if change_tenant:
            api.change_tenant()
        try:
            check(method, path)
        except AssertionError as error:
            failed.append(f"{method} {path}: {error}")
    assert not failed, "\n".join(failed)


@pytest.mark.essential
@pytest.mark.slow
def test_a_caller_who_may_is_served(api: Api) -> None:
    def check(method: str, path: str) -> None:
        scope, given, status = TABLE[method, path]
        key = None if scope == OPEN else key_with(api, scope)
        answer = api.request(method, path_of(api, path), key=key, **given)
        assert answer.status_code == status, answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-request-id"]

    check_each(api, TABLE, check)


@pytest.mark.essential
@pytest.mark.slow
@pytest.mark.parametrize("verb", sorted({method for method, _ in GUARDED}))
def test_a_caller_who_may_not_is_refused(api: Api, verb: str) -> None:
    # A refused request changes nothing, so one tenant is enough, and a key for each set of scopes.
    key_of = cache(partial(key_with, api))
    routes = [route for route in GUARDED if route[0] == verb]
    check_each(api, routes, lambda *route: check_refusals(api, key_of, *route), change_tenant=False)


UNKNOWN_KEY = api_keys.make_key(b"123456789", b"x" * 32)


def check_refusals(api: Api, key_of: Callable[..., str], method: str, path: str) -> None:
    scope, given, _ = GUARDED[method, path]
    path = path_of(api, path)
    own = api.tenant.key
    as_basic = {"headers": {"authorization": f"Basic {own}"}}
    refused = {
        "none": (None, {}),
        "no key": ("x", {}),
        "a character wrong": (own[:-1] + ("A" if own[-1] != "A" else "B"), {}),
        "unknown": (UNKNOWN_KEY, {}),
        "another scheme": (None, as_basic),
    }
    for name, (key, more) in refused.items():
        answer = api.request(method, path, key=key, **given, **more)
        assert answer.status_code == 401, name
        assert answer.headers["www-authenticate"] == "Bearer"
        fields(answer)
    for other in set(SCOPES) - {scope}:
        answer = api.request(method, path, key=key_of(other), **given)
        assert answer.status_code == 403, other
        assert scope in answer.json()["detail"]
        fields(answer)
    everything_else = key_of(*(other for other in SCOPES if other != scope))
    assert api.request(method, path, key=everything_else, **given).status_code == 403


@pytest.mark.essential
@pytest.mark.parametrize("state", ["pending", "stored"])
def test_another_tenants_memory_is_404_on_every_route(api: Api, state: str) -> None:
    def check(method: str, path: str) -> None:
        [memory_id] = api.remember("mine", work=state == "stored")
        other = api.service.tenant()
        answer = api.request(method, path.format(memory_id=memory_id), key=other.key, **GUARDED[method, path][1])
        assert answer.status_code == 404
        nobodys = api.request(method, path.format(memory_id=uuid4()), key=other.key, **GUARDED[method, path][1])
        no_ids = {"request_id": "", "call_id": ""}
        assert answer.json() | no_ids == nobodys.json() | no_ids, "the response reveals that the memory exists"
        assert api.get(f"/v1/memories/{memory_id}").json()["text"] == "mine"

    check_each(api, [route for route in GUARDED if "{memory_id}" in route[1]], check)


@pytest.mark.slow
def test_another_tenants_job_letter_or_hold_is_404_on_every_route(api: Api) -> None:
    def check(method: str, path: str) -> None:
        mine = path_of(api, path)
        other = api.service.tenant()
        given = GUARDED[method, path][1]
        others = ({**dict.fromkeys(IDS, unknown), "letter": "acknowledgement"} for unknown in (uuid4(), "x"))
        for name in (mine, *(path.format(**names) for names in others)):
            answer = api.request(method, name, key=other.key, **given)
            assert answer.status_code == 404
            fields(answer)
        assert api.request(method, mine, **given).is_success

    check_each(api, [route for route in GUARDED if any(f"{{{name}}}" in route[1] for name in IDS)], check)


def test_lists_searches_and_numbers_are_of_the_own_tenant(api: Api) -> None:
    api.remember("mine", {"text": "also mine", "external_id": "k", "subject": "ann", "thread": "t"})
    other = api.service.tenant()
    assert api.get("/v1/memories", key=other.key).json()["memories"] == []
    assert api.get("/v1/memories", key=other.key, params={"subject": "ann"}).json()["memories"] == []
    assert api.post("/v1/search", key=other.key, json={"query": "mine"}).json()["results"] == []
    a_job(api)
    a_letter(api)
    assert api.get("/v1/jobs", key=other.key).json()["jobs"] == []
    letters = api.get("/v1/admin/dead-letters", key=other.key).json()
    assert (letters["dead_letters"], letters["reasons"]) == ([], [])
    stats = api.get("/v1/stats", key=other.key).json()
    assert (stats["dead_letters"], stats["lanes"]["maintain"]["depth"]) == (0, 0)
    assert set(stats["memories"].values()) == {0}
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", Usage(calls=1, input_tokens=5))
    assert api.get("/v1/usage").json()["usage"]
    assert api.get("/v1/usage", key=other.key).json()["usage"] == []
    cursor = api.get("/v1/memories", params={"limit": 1}).json()["next_cursor"]
    assert api.get("/v1/memories", key=other.key, params={"cursor": cursor}).json()["memories"] == []


# --- The OpenAPI description ---


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    if isinstance(value, list):
        return set().union(*map(references, value))
    return set()


def test_the_description_is_valid_and_whole(api: Api) -> None:
    document = described(api)
    OpenAPI.model_validate(document)
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= schemas
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids)
    assert all(operation["summary"] and operation["responses"] for operation in operations)


def test_the_description_tells_parameters_key_and_answer(api: Api) -> None:
    for (method, path), (scope, given, status) in TABLE.items():
        name, operation = f"{method} {path}", described(api)["paths"][path][method.lower()]
        assert str(status) in operation["responses"], name
        assert "application/problem+json" in operation["responses"]["default"]["content"], name
        assert ("security" in operation) == (scope != OPEN), name
        assert ("requestBody" in operation) == bool({"json", "content"} & given.keys()), name
        in_path = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"}
        assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}, name


def test_the_description_may_be_off(service: Service) -> None:
    service.configure(docs_enabled=False)
    with Api(service) as api:
        for path in ("/docs", "/docs/docs.js", "/openapi.json", "/redoc"):
            answer = api.get(path)
            assert answer.status_code == 404
            fields(answer)
        assert api.get("/healthz").status_code == 200
        assert api.get("/", follow_redirects=False).headers["location"] == "ops/"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "has no API key"),
        ({"Authorization": "Basic YTpi"}, "must begin with `Bearer`"),
        ({"Authorization": "Bearer ebb_half"}, "copy the whole key"),
        ({"Authorization": f"Bearer {UNKNOWN_KEY}"}, "unknown, revoked or expired"),
    ],
)
def test_a_refused_key_is_told_what_is_wrong_with_it(api: Api, given: dict[str, str], reason: str) -> None:
    answer = api.request("GET", "/v1/memories", headers=given, key=None)
    assert answer.status_code == 401
    assert reason in answer.json()["detail"]
