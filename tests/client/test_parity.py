"""The Python client and the service name the same fields, roles and problems."""

from __future__ import annotations

import inspect
from typing import get_args

from app import errors
from app.api.http.content_filters import read_content_filters
from app.api.memories import memories
from app.domain.ingest.bodies import TEXT_PARTS, Messages
from app.domain.ingest.memory import PATCH, TEXT_MAX_BYTES, MemoryIn
from app.domain.ingest.roles import MessageRole, read_message_role
from app.domain.recall.request import RecallRequest
from app.domain.search.request import SearchRequest
from ebbing_client import fields, records
from ebbing_client.errors import make_api_error


def test_every_problem_type_of_the_service_has_a_class() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.EbbingError)]
    mapped = {
        kind.__name__: type(make_api_error(kind.status, {"type": f"urn:ebbing:problem:{kind.type}"}, None)).__name__
        for kind in kinds
        if kind is not errors.Misconfigured  # never part of a response
    }
    renamed = {"EbbingError": "ServerError", "Unreadable": "BadRequest"}
    assert mapped == {name: renamed.get(name, name) for name in mapped}
    assert len(mapped) >= 12


def test_the_client_knows_the_fields_of_the_api() -> None:
    """A field added to the API belongs into `fields.py`, so that type checkers know it."""
    classes = inspect.getmembers(fields, inspect.isclass)
    known = {name: set(kind.__annotations__) for name, kind in classes if kind.__module__ == fields.__name__}
    assert known["MemoryFields"] == set(MemoryIn.__struct_fields__) - {
        "text",
        "written",
    }  # the client itself sets `written`
    assert known["SharedFields"] == set(Messages.__struct_fields__) - {"messages"}
    assert known["MemoryEdit"] >= set(PATCH.__struct_fields__)
    assert known["SearchFilters"] == set(SearchRequest.__struct_fields__) - {"query", "limit"}
    assert known["RecallFilters"] == set(RecallRequest.__struct_fields__) - {"messages"}
    listed = {*inspect.signature(memories.page).parameters, *inspect.signature(read_content_filters).parameters}
    assert known["ListFilters"] == listed - {"caller", "content", "limit", "cursor"}
    assert {role: read_message_role(role) for role in get_args(MessageRole)} == records.ROLES
    assert (records.TEXT_PARTS, records.TEXT_MAX_BYTES) == (TEXT_PARTS, TEXT_MAX_BYTES)
