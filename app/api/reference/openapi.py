"""OpenAPI description: extend FastAPI's with the bodies decoded by msgspec and the response schemas."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute, iter_route_contexts

from app.api.http.idempotency import KEY_MAX_CHARACTERS
from app.api.http.problem_responses import MEDIA_TYPE
from app.api.http.request_body import BODIES, RouteBody
from app.api.reference import shapes
from app.api.reference.field_texts import describe_fields
from app.domain.ingest.bodies import LeftOut, Messages, Skipped
from app.domain.ingest.memory import MemoryIn
from app.domain.recall.request import Recalled
from app.domain.search.request import SearchResult

START: Final = "Start here"
FIRST_CALLS: Final = (
    "POST /v1/memories",
    "POST /v1/search",
    "POST /v1/recall",
    "POST /v1/observations",
    "DELETE /v1/memories/{memory_id}",
)
GROUPS: Final = {
    START: "The five calls that an application needs: store, search, recall before an answer, report what the answer "
    "used, and delete.",
    "memories": "Store, read, list, edit, restore and delete memories; see their history and what decides their tier.",
    "search": "Find memories: `search` for a query, `recall` for a conversation.",
    "reinforcement": "Report uses. A used memory becomes stronger and fades later.",
    "files": "Memories as files below `/memories`: each route takes the input of a call of Anthropic's memory tool and "
    "returns its result.",
    "reviews": "Memories that are due for review or about to be forgotten, and the results of self-tests.",
    "links": "Relations between memories. Uses of one also strengthen those that it is linked to.",
    "supersessions": "Memories that replace older ones: searches return only the newer one.",
    "consolidation": "Merges of similar memories into summaries: approve, reject and undo them.",
    "forecast": "Predict how many memories will be in each tier, under the current or another policy.",
    "policy": "The tenant's settings for forgetting, ranking, privacy and budgets, with versions and previews.",
    "schedule": "The nightly maintenance: its times, its runs, and a run on demand.",
    "maintenance": "Start single steps of the nightly maintenance, or preview them with `dry_run`.",
    "imports": "Files of memories from other products or from Ebbing: upload, progress and skipped records.",
    "webhooks": "Receivers that get each change as a signed message without texts, and the deliveries to them.",
    "jobs": "Background jobs and their progress.",
    "privacy": "Requests of people: erasures, exports, legal holds, the request log, the audit log. Requires the scope "
    "`privacy`.",
    "usage": "Calls of models, their costs and the remaining budget.",
    "dead letters": "Work that isn't retried, because it failed too often, because every retry would fail in the same "
    "way, or because it can't be read: replay or discard it.",
    "admin": "Tenants, API keys and the queue of the installation. Requires the scope `admin`.",
    "status": "Health checks, metrics and the tenant's numbers.",
}
"""The groups of operations, in the order in which the page shows them."""

_FILES = ("application/zip", "application/x-ndjson")
_KEY = {"type": "http", "scheme": "bearer", "description": "An API key, such as the one in `.ebbing/api-key`."}
_DESCRIPTIONS = {"200": "With `dry_run`: the number of affected memories", "503": "Not ready"}
_PROBLEM_ID = "b7ed3761c4b24774ad699c4cf931b58e"
_EXAMPLE_INVALID = {
    "type": "urn:ebbing:problem:invalid",
    "title": "A request field is invalid",
    "status": 422,
    "detail": "Unknown field `happened_at`; did you mean `occurred_at`?",
    "errors": [
        {
            "field": "happened_at",
            "message": "isn't a known field; did you mean `occurred_at`?",
            "suggestion": "occurred_at",
        }
    ],
    "request_id": _PROBLEM_ID,
    "call_id": _PROBLEM_ID,
}
_EXAMPLE_MISSING = {
    "type": "urn:ebbing:problem:not-found",
    "title": "Not found",
    "status": 404,
    "detail": "Memory not found",
    "errors": [],
    "request_id": _PROBLEM_ID,
    "call_id": _PROBLEM_ID,
}
_EXAMPLE_CONFLICT = {
    "type": "urn:ebbing:problem:conflict",
    "title": "Conflict",
    "status": 409,
    "detail": "this tenant's searches aren't recorded: set record_searches=true in its policy, and replay them later",
    "errors": [],
    "request_id": _PROBLEM_ID,
    "call_id": _PROBLEM_ID,
}
_EXAMPLE_KEYLESS = {
    "type": "urn:ebbing:problem:not-authenticated",
    "title": "A valid API key is required",
    "status": 401,
    "detail": "this key is invalid: unknown, revoked or expired",
    "errors": [],
    "request_id": _PROBLEM_ID,
    "call_id": _PROBLEM_ID,
}
_OPEN = ("/healthz", "/readyz", "/metrics")
_TEXT = {"type": "string"}
_ID = {"type": "string", "format": "uuid"}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | optional}


def _array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


_FIELD = _object(
    {"field": _TEXT, "message": _TEXT},
    value={"description": "A length or a number, never text of the request."},
    limit={"description": "The limit that the value exceeds."},
    suggestion=_TEXT | {"description": "The known field that an unknown one most likely means."},
)
_PROBLEM = _object(
    {
        "type": {"type": "string", "format": "uri"},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "errors": _array(_FIELD, description="All faults of the request, at most 20."),
        "request_id": _TEXT | {"description": "The `X-Request-Id` of this call if it had one, otherwise its call ID."},
        "call_id": _TEXT | {"description": "Call ID: the id of this call in the service's log."},
    },
    omitted_errors={"type": "integer", "description": "Number of faults beside those in `errors`."},
)
_INGEST = """Send one memory as an object, several as an array or as NDJSON, or the messages of a chat. The response
is sent as soon as the memories are durably queued.

A chat is an object with the field `messages` in the usual chat format: each message has a `role`, a `content` and
optionally a `name`. Every message with text becomes a memory with this role, the `name` as its speaker and a separate
id, in the order of the messages. Roles are user, assistant, system and tool; `human` is stored as user, `ai`, `bot`
and `model` as assistant, `developer` as system, `function` as tool. Other fields of the object, such as `thread`,
`subject` or `tags`, apply to every message; a message's own `occurred_at` takes precedence. A message
with any other field of a memory, such as `supersedes`, is refused; `metadata`, and fields of other APIs such as
`tool_calls`, are ignored.

`content` is a string or a list of parts. Parts of the types text, input_text and output_text are stored, joined by a
newline; `left_out` counts the other parts by type for each message. Messages without text, such as tool calls, aren't
stored: `skipped` lists them, and `ids` has one entry for each stored message.

Searches and recalls exclude memories with the roles system and tool unless `roles` includes them."""
_DROPPED = {
    "type": "array",
    "description": "Memories with `written` that won't be stored, because their subject or thread was erased after "
    "they were written and before this response. Present only if a memory waited at its sender for at least 5 "
    "seconds or an unknown time.",
    "items": {
        "type": "object",
        "properties": {"id": _ID, "erased": {"enum": ["subject", "thread"]}},
        "required": ["id", "erased"],
    },
}
_SUPERSEDING = {
    "type": "array",
    "description": "Outcome of each `supersedes` of these memories: active, proposed, waiting for a memory with that "
    "id, or rejected. Present only if `supersedes` was given and the response waited until the memories were stored.",
    "items": _object(
        {
            "id": _ID,
            "superseded_id": {"type": ["string", "null"], "format": "uuid"},
            "named": {"type": ["string", "null"]},
            "status": {"enum": ["active", "waiting", "proposed", "rejected"]},
            "reason": {"type": ["string", "null"]},
            "why": _TEXT,
        }
    ),
}

_LINKS_MISSING = {
    "type": "array",
    "description": "The links in `links` of these memories that couldn't be added: no memory has this id or external "
    "id yet (`missing`), the target is the memory `itself`, or one of the two memories has 1,000 links (`full`). "
    "Present only if `links` was given and the response waited until the memories were stored.",
    "items": _object(
        {
            "id": _ID,
            "to": _TEXT,
            "kind": _TEXT,
            "weight": {"type": "number"},
            "reason": {"enum": ["missing", "itself", "full"]},
        }
    ),
}


def install(app: FastAPI) -> None:
    """Make the application serve the extended description."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(plain(), bodies_by_route(app))
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]  # FastAPI's documented way to extend it


def serve(app: FastAPI) -> None:
    """Serve the description at `/openapi.json`, without a key. It is large, so it is serialized only once."""

    @cache
    def description() -> bytes:
        return msgspec.json.encode(app.openapi())

    async def show_description(_: Request) -> Response:
        return Response(description(), media_type="application/json")

    app.add_route("/openapi.json", show_description, include_in_schema=False)


def bodies_by_route(app: FastAPI) -> dict[tuple[str, str], RouteBody]:
    """Return the body of each path and method that has one."""
    return {
        (route.path_format, method.lower()): BODIES[dependency.call]
        for context in iter_route_contexts(app.routes)
        if isinstance(route := context.original_route, APIRoute)
        for dependency in route.dependant.dependencies
        if dependency.call in BODIES
        for method in route.methods or ()
    }


def _completed(schema: dict[str, Any], bodies: dict[tuple[str, str], RouteBody]) -> dict[str, Any]:
    kinds = [
        MemoryIn,
        Messages,
        Skipped,
        LeftOut,
        SearchResult,
        Recalled,
        *dict.fromkeys(body.shape for body in bodies.values()),
    ]
    references, components = msgspec.json.schema_components(kinds, ref_template=shapes.TEMPLATE)
    describe_fields(components)
    by_kind = dict(zip(kinds, references, strict=True))
    components |= shapes.describe_schemas()
    components |= {"Problem": _PROBLEM, "Accepted": _accepted(by_kind[Skipped], by_kind[LeftOut])}
    schema.setdefault("components", {}).setdefault("schemas", {}).update(components)
    schema["components"]["securitySchemes"] = {"key": _KEY}
    schema["info"]["description"] = _introduction()
    schema["tags"] = [{"name": name, "description": about} for name, about in GROUPS.items()]
    for (path, method), body in bodies.items():
        content = _json(by_kind[body.shape])
        schema["paths"][path][method]["requestBody"] = {"required": not body.is_optional, "content": content}
    schema["paths"]["/v1/observations"]["post"]["parameters"] = [_IDEMPOTENCY]
    schema["paths"]["/v1/memories"]["post"] = _ingest(by_kind[MemoryIn], by_kind[Messages])
    first = dict.fromkeys(name.partition(" ")[2] for name in FIRST_CALLS)
    schema["paths"] = {path: schema["paths"][path] for path in first} | schema["paths"]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            _complete_operation(f"{method.upper()} {path}", operation)
            if path not in _OPEN:
                operation["security"] = [{"key": []}]
    return schema


def _complete_operation(name: str, operation: dict[str, Any]) -> None:
    """Add the examples, the schemas of the responses, and the group of the first calls."""
    shape = shapes.load_examples().operations.get(name, shapes.OperationShape(answers={}))
    if name in FIRST_CALLS:
        operation["tags"] = [*operation["tags"], START]
    if shape.request is not None:
        operation["requestBody"]["content"]["application/json"]["example"] = shape.request
    if shape.requests:
        examples = {each: msgspec.to_builtins(one) for each, one in shape.requests.items()}
        operation["requestBody"]["content"]["application/json"]["examples"] = examples
    responses = operation["responses"]
    responses.pop("422", None)
    for status, answer in shape.answers.items():
        response = responses.setdefault(status, {"description": _DESCRIPTIONS.get(status, "Successful Response")})
        if shape.media_type in _FILES:
            media = shape.media_type
            response["content"] = {media: {"schema": {"type": "string", "contentMediaType": media}}}
        elif answer is not None:
            known = response.get("content", {}).get(shape.media_type, {}).get("schema")
            content = {"schema": known or shapes.describe(answer, shape), "example": shapes.expand_example(answer)}
            others = {kind: {"schema": {"type": "string"}, "example": text} for kind, text in shape.also.items()}
            response["content"] = {shape.media_type: content, **others}
    problem = _EXAMPLE_INVALID if "requestBody" in operation else _EXAMPLE_MISSING if "{" in name else _EXAMPLE_KEYLESS
    responses["default"] = {"description": "A problem (RFC 9457)", "content": _problem(problem)}
    if "409" in responses:
        responses["409"]["content"] = _problem(_EXAMPLE_CONFLICT)


def _problem(example: dict[str, Any]) -> dict[str, Any]:
    return {MEDIA_TYPE: {"schema": _named("Problem"), "example": example}}


def _introduction() -> str:
    return (resources.files(__package__) / "introduction.md").read_text()


def _json(shape: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": shape}}


def _named(name: str) -> dict[str, Any]:
    return {"$ref": shapes.TEMPLATE.format(name=name)}


def _accepted(skipped: dict[str, Any], left_out: dict[str, Any]) -> dict[str, Any]:
    return _object(
        {"ids": _array(_ID, minItems=1), "request_id": _TEXT},
        skipped=_array(skipped, description="Only for chats: messages that were not stored."),
        left_out=_array(left_out, description="Only for chats: content parts that were not stored."),
        supersedes=_SUPERSEDING,
        links_missing=_LINKS_MISSING,
        dropped=_DROPPED,
    )


def _ingest(shape: dict[str, Any], messages: dict[str, Any]) -> dict[str, Any]:
    body = {"anyOf": [shape, {"type": "array", "items": shape, "minItems": 1}, messages]}
    return {
        "tags": ["memories"],
        "summary": "Store memories",
        "description": _INGEST,
        "operationId": "ingest",
        "parameters": [
            _IDEMPOTENCY,
            _header(
                "Prefer",
                "`wait=5` delays the response until all memories are searchable, for at most 5 seconds. A longer wait "
                "than the operator allows (`EBBING_WAIT_MAX_SECONDS`, 30 by default) is shortened; "
                "`Preference-Applied` in the response has the seconds that apply.",
                {},
            ),
            _header(
                "Ebbing-Sent-At",
                "Time of sending by the sender's clock, in milliseconds since 1970; required if `written` is given.",
                {},
            ),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": body},
                "application/x-ndjson": {
                    "schema": shape,
                    "example": {"text": "Ann prefers green tea.", "subject": "ann"},
                },
            },
        },
        "responses": {
            "202": {
                "description": "Accepted: ids in the order of the memories. The header `Ebbing-Position` has the "
                "request's place in the order of acceptance, for `written.after` of later writes.",
                "content": _json(_named("Accepted")),
            },
            "200": {
                "description": "With `Prefer: wait`: all memories are searchable",
                "content": _json(_named("Accepted")),
            },
        },
    }


def _header(name: str, description: str, limits: dict[str, int]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": _TEXT | limits,
    }


_IDEMPOTENCY = _header(
    "Idempotency-Key",
    "Repeating a request with the same key and body within a day has no further effect.",
    {"minLength": 1, "maxLength": KEY_MAX_CHARACTERS},
)
