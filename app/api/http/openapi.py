"""OpenAPI description: extend FastAPI's with the bodies decoded by msgspec and the response schemas."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from app.api.http.idempotency import KEY_MAX_CHARACTERS
from app.api.http.problem_responses import MEDIA_TYPE
from app.api.http.request_body import BODIES, RouteBody
from app.domain.ingest.bodies import LeftOut, Messages, Skipped
from app.domain.ingest.memory import MemoryIn
from app.domain.recall.request import Recalled
from app.domain.search.request import SearchResult

_OPEN = ("/healthz", "/readyz", "/metrics")
_TEMPLATE = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
_ID = {"type": "string", "format": "uuid"}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | optional}


def _array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


_FIELD = _object({"field": _TEXT, "message": _TEXT}, value={}, limit={})
_PROBLEM = _object(
    {
        "type": {"type": "string", "format": "uri"},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "errors": _array(_FIELD),
        "request_id": _TEXT,
    }
)
_INGEST = """Send one memory as an object, several as an array or as NDJSON, or the messages of a chat. The response
is sent as soon as the memories are durably queued.

A chat is an object with the field `messages` in the usual chat format: each message has a `role`, a `content` and
optionally a `name`. Every message with text becomes a memory with this role, the `name` as its speaker and a separate
id, in the order of the messages. Roles are user, assistant, system and tool; `developer` is stored as system,
`function` as tool. Other fields of the object, such as `thread`, `subject` or `tags`, apply to every message; a
message's own `occurred_at` takes precedence. Other fields of a message, such as `tool_calls`, are ignored.

`content` is a string or a list of parts. Parts of the types text, input_text and output_text are stored, joined by a
newline; `left_out` counts the other parts by type for each message. Messages without text, such as tool calls, aren't
stored: `skipped` lists them, and `ids` has one entry for each stored message.

Searches and recalls exclude memories with the roles system and tool unless `roles` includes them."""
_MESSAGES_EXAMPLE = {
    "thread": "support-4711",
    "subject": "ann",
    "messages": [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "name": "Ann", "content": "Please book the 9 o'clock train on Friday."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function"}]},
        {"role": "assistant", "content": "Done: the train leaves Friday at 9:00."},
    ],
}
_SUPERSEDING = {
    "type": "array",
    "description": "Outcome of each `supersedes` of these memories: active, waiting for a memory with that id, or "
    "rejected. Present only if `supersedes` was given and the response waited until the memories were stored.",
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


def install(app: FastAPI) -> None:
    """Make the application serve the extended description."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(plain(), _bodies(app))
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]  # FastAPI's documented way to extend it


def _bodies(app: FastAPI) -> dict[tuple[str, str], RouteBody]:
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
    shapes = [
        MemoryIn,
        Messages,
        Skipped,
        LeftOut,
        SearchResult,
        Recalled,
        *dict.fromkeys(body.shape for body in bodies.values()),
    ]
    references, components = msgspec.json.schema_components(shapes, ref_template=_TEMPLATE)
    by_shape = dict(zip(shapes, references, strict=True))
    components |= {"Problem": _PROBLEM, "Accepted": _accepted(by_shape[Skipped], by_shape[LeftOut])}
    schema.setdefault("components", {}).setdefault("schemas", {}).update(components)
    schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for (path, method), body in bodies.items():
        content = _json(by_shape[body.shape])
        schema["paths"][path][method]["requestBody"] = {"required": not body.is_optional, "content": content}
    schema["paths"]["/v1/observations"]["post"]["parameters"] = [_IDEMPOTENCY]
    schema["paths"]["/v1/memories"]["post"] = _ingest(by_shape[MemoryIn], by_shape[Messages])
    schema["paths"]["/v1/search"]["post"]["responses"]["200"]["content"] = _json(_found(by_shape[SearchResult]))
    schema["paths"]["/v1/recall"]["post"]["responses"]["200"]["content"] = _json(_brought(by_shape[Recalled]))
    problem = {"description": "A problem (RFC 9457)", "content": {MEDIA_TYPE: {"schema": _named("Problem")}}}
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = problem
            if path not in _OPEN:
                operation["security"] = [{"key": []}]
    return schema


def _json(shape: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": shape}}


def _named(name: str) -> dict[str, Any]:
    return {"$ref": _TEMPLATE.format(name=name)}


def _found(result: dict[str, Any]) -> dict[str, Any]:
    return _object({"results": _array(result), "reranked": {"type": "boolean"}, "took_ms": {"type": "number"}})


def _brought(recalled: dict[str, Any]) -> dict[str, Any]:
    return _object(
        {
            "memories": _array(recalled),
            "context": _TEXT,
            "ids": _array(_ID),
            "tokens": {"type": "integer"},
            "took_ms": {"type": "number"},
        }
    )


def _accepted(skipped: dict[str, Any], left_out: dict[str, Any]) -> dict[str, Any]:
    return _object(
        {"ids": _array(_ID, minItems=1), "request_id": _TEXT},
        skipped=_array(skipped, description="Only for chats: messages that were not stored."),
        left_out=_array(left_out, description="Only for chats: content parts that were not stored."),
        supersedes=_SUPERSEDING,
    )


def _ingest(shape: dict[str, Any], messages: dict[str, Any]) -> dict[str, Any]:
    body = {"anyOf": [shape, {"type": "array", "items": shape, "minItems": 1}, messages]}
    examples = {
        "memory": {"summary": "One memory", "value": {"text": "Ann's train leaves Friday at 9:00.", "subject": "ann"}},
        "messages": {"summary": "Messages of a chat", "value": _MESSAGES_EXAMPLE},
    }
    return {
        "tags": ["memories"],
        "summary": "Send memories",
        "description": _INGEST,
        "operationId": "ingest",
        "parameters": [
            _IDEMPOTENCY,
            _header(
                "Prefer", "`wait=5` delays the response until all memories are searchable, for at most 5 seconds.", {}
            ),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": body, "examples": examples},
                "application/x-ndjson": {"schema": shape},
            },
        },
        "responses": {
            "202": {"description": "Accepted: ids in the order of the memories", "content": _json(_named("Accepted"))},
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
