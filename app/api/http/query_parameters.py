"""Refuse unknown query parameters: a misspelled filter that was ignored would return the wrong memories."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant

from app.domain.ingest.body_faults import BodyFaults
from app.domain.ingest.near_names import suggest_field
from app.errors import UNKNOWN_FIELD, FieldError

_NAME_MAX_CHARACTERS = 64  # maximum length of an unknown parameter's name in errors


def refuse_unknown(request: Request) -> None:
    """Compare the query parameters with those that the route and its dependencies declare.

    Raises:
        Invalid: Parameters are unknown; the error proposes the known name that each most likely means.
    """
    if not request.scope["query_string"]:
        return
    known = set(_names(request.scope["route"].dependant))
    unused = sorted(known - request.query_params.keys())
    faults = BodyFaults()
    for name in request.query_params:
        if name not in known:
            faults.add([FieldError(name[:_NAME_MAX_CHARACTERS], UNKNOWN_FIELD, suggestion=suggest_field(name, unused))])
    if refusal := faults.refusal():
        raise refusal


def _names(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the declared query parameters."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _names(dependency)
