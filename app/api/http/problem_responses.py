"""Convert errors to problem details (RFC 9457) and log why a request was refused."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from app.api.http.request_ids import RequestIds, get_ids
from app.clients.redis.connection import RedisError
from app.clients.redis.stream import as_unavailable
from app.domain.ingest import json_input
from app.domain.ingest.body_faults import LISTED_MAX
from app.errors import UNKNOWN_FIELD, EbbingError, FieldError, Invalid, Misconfigured, Unavailable
from app.services.transient_errors import is_transient

MEDIA_TYPE = "application/problem+json"
SERVER_ERROR = 500

_TITLES = {
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "Method not allowed for this path"),
}

log = structlog.get_logger(__name__)


def problem(error: EbbingError, ids: RequestIds) -> tuple[bytes, dict[str, str]]:
    """Return the body and the extra headers of an error response."""
    body: dict[str, Any] = {
        "type": f"urn:ebbing:problem:{error.type}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail or _summarise(error),
        "errors": [_field(field) for field in error.errors[:LISTED_MAX]],
        "request_id": ids.shown,
        "call_id": ids.call_id,
    }
    omitted = error.omitted + max(len(error.errors) - LISTED_MAX, 0)
    if omitted:
        body["omitted_errors"] = omitted
    headers = {}
    if error.retry_after_seconds is not None:
        headers["retry-after"] = str(error.retry_after_seconds)
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return msgspec.json.encode(body), headers


def _summarise(error: EbbingError) -> str:
    """Return the first field error as a sentence, and the number of others."""
    if not error.errors:
        return error.title
    others = len(error.errors) - 1 + error.omitted
    return f"{error.errors[0]}{f' ({others} more)' if others else ''}"


def respond(error: EbbingError, ids: RequestIds, asked: str = "") -> Response:
    """Build the response to a failed request; log its reasons and the names of fields, never their values.

    Args:
        error: The error.
        ids: Ids of the request; the call ID is logged.
        asked: Method and route template, without path parameters.
    """
    say = log.error if error.status == SERVER_ERROR else log.info
    say(
        "refused",
        call_id=ids.call_id,
        asked=asked,
        status=error.status,
        problem=error.type,
        fields=[_loggable(field) for field in error.errors],
        reasons=[field.message for field in error.errors] or [error.detail or error.title],
    )
    body, headers = problem(error, ids)
    return Response(body, status_code=error.status, headers=headers, media_type=MEDIA_TYPE)


def as_ours(error: Exception) -> EbbingError:
    """Convert any exception to an `EbbingError`; log unexpected ones by type and location."""
    if isinstance(error, EbbingError) and not isinstance(error, Misconfigured):
        return error
    if isinstance(error, RedisError):
        return as_unavailable(error)
    if is_transient(error):
        return Unavailable("a database is unreachable", retry_after_seconds=2)
    log.error("unexpected", error=type(error).__name__, exc_info=error)
    return EbbingError()


def install(app: FastAPI) -> None:
    """Register handlers that answer every error with problem details."""

    async def ours(request: Request, error: Exception) -> Response:
        return respond(as_ours(error), get_ids(request.scope), _asked(request))

    async def http(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        made = EbbingError(str(error.detail))
        made.status = error.status_code
        made.type, made.title = _TITLES.get(error.status_code, ("http", "The request failed"))
        response = respond(made, get_ids(request.scope), _asked(request))
        response.headers.update(error.headers or {})
        if error.status_code == 405:
            response.headers["allow"] = _methods(request) or response.headers["allow"]
        return response

    async def parameters(request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            raise error
        fields = [_parameter(found) for found in error.errors()]
        return respond(Invalid(errors=fields), get_ids(request.scope), _asked(request))

    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, parameters)
    app.add_exception_handler(EbbingError, ours)
    app.add_exception_handler(Exception, ours)


def _parameter(found: Mapping[str, Any]) -> FieldError:
    """Describe an invalid query parameter; the value is reported only as a number or a length."""
    limit, given = json_input.violated_limit(found), found["input"]
    value = None
    if limit is not None:
        with suppress(ValueError):
            value = len(given) if "length" in str(found["ctx"]) else float(given)
    return FieldError(str(found["loc"][-1]), json_input.reword_error(found), value, limit)


def _loggable(field: FieldError) -> str:
    """Return the field name for logs; of unknown fields only the parent, because the name may contain anything."""
    return field.field.rpartition(".")[0] or "body" if field.message == UNKNOWN_FIELD else field.field


def _asked(request: Request) -> str:
    route = request.scope.get("route")
    return f"{request.method} {getattr(route, 'path', '(no route)')}"


def _methods(request: Request) -> str:
    """Return all methods of the path, from OpenAPI.

    Each route knows only its own method. The ingest endpoint is served before the routes are consulted, so no route
    knows the ingest endpoint's method.
    """
    path = getattr(request.scope.get("route"), "path_format", None)
    return ", ".join(sorted(method.upper() for method in request.app.openapi()["paths"].get(path, ())))


def _field(field: FieldError) -> dict[str, Any]:
    shown: dict[str, Any] = {"field": field.field, "message": field.advice}
    if field.value is not None:
        shown["value"] = field.value
    if field.limit is not None:
        shown["limit"] = field.limit
    if field.suggestion is not None:
        shown["suggestion"] = field.suggestion
    return shown
