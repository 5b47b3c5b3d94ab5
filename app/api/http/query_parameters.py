"""Refuse unknown query parameters: a misspelled filter that was ignored would return the wrong memories."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from app.domain.ingest.body_faults import BodyFaults
from app.domain.ingest.near_names import suggest_field
from app.errors import UNKNOWN_FIELD, FieldError

_NAME_MAX_CHARACTERS = 64  # maximum length of an unknown parameter's name in errors


def refuse_unknown(request: Request) -> None:
    """Compare the query parameters with those in the route's description.

    Raises:
        Invalid: Parameters are unknown; the error proposes the known name that each most likely means.
    """
    if not request.scope["query_string"]:
        return
    operation = _operation(request)
    if operation is None:
        return
    known = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    unused = sorted(known - request.query_params.keys())
    faults = BodyFaults()
    for name in request.query_params:
        if name not in known:
            faults.add([FieldError(name[:_NAME_MAX_CHARACTERS], UNKNOWN_FIELD, suggestion=suggest_field(name, unused))])
    if refusal := faults.refusal():
        raise refusal


def _operation(request: Request) -> dict[str, Any] | None:
    """Return the description of the requested operation, or None for a route without one."""
    path = getattr(request.scope.get("route"), "path_format", None)
    found: dict[str, Any] | None = request.app.openapi()["paths"].get(path, {}).get(request.method.lower())
    return found
