"""Define how tools reach the HTTP API, and the failure that a refused request becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from app.errors import EbbingError, FieldError

Json = dict[str, Any]
Params: TypeAlias = Mapping[str, str | int | Sequence[str]]
"""Query parameters; a list is a parameter that is repeated."""


class ToolFailure(Exception):
    """Failure that the caller sees as the result of a tool; its message names fields and limits, never memory text.

    Attributes:
        status: Status of the refused HTTP request, or 0 if no request was answered.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        """Create a failure with its message."""
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Reply:
    """Status and JSON of a successful request; the JSON is empty if the response has no body."""

    status: int
    body: Json


class Backend(Protocol):
    """Access to the API's routes with one API key."""

    @property
    def scopes(self) -> frozenset[str] | None:
        """The scopes of the key, or None if they aren't known before a request."""
        ...

    @property
    def owner(self) -> str:
        """The id of the key's tenant, or another string that identifies the tenant within this process."""
        ...

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request; a body is sent as JSON.

        Raises:
            ToolFailure: The API refused the request or didn't answer.
        """
        ...


async def read_pages(
    backend: Backend, path: str, noun: str, pages_max: int, **params: str | int
) -> tuple[list[Json], bool]:
    """Return the entries of a list's first pages, and True if these are all."""
    entries: list[Json] = []
    cursor: str | None = None
    for _ in range(pages_max):
        page = params | ({"cursor": cursor} if cursor else {})
        body = (await backend.call("GET", path, params=page)).body
        entries += body[noun]
        cursor = body["next_cursor"]
        if cursor is None:
            return entries, True
    return entries, False


def memory_path(memory_id: object, rest: str = "") -> str:
    """Return the path of a memory, or of something below it."""
    return f"/v1/memories/{quote(str(memory_id), safe='')}{rest}"


def describe_problem(status: int, problem: Mapping[str, Any]) -> ToolFailure:
    """Return the failure for an error response: its title, its fields with their limits, and the call ID."""
    errors = [item for item in problem.get("errors") or () if isinstance(item, dict)]
    fields = [
        str(FieldError(str(item.get("field", "")), str(item.get("message", "")), item.get("value"), item.get("limit")))
        for item in errors
    ]
    title = str(problem.get("title") or f"The API answered {status}")
    call_id = problem.get("call_id") or problem.get("request_id")  # earlier versions have only the latter
    return ToolFailure(_join(title, fields, problem.get("detail"), call_id), status)


def describe_error(error: EbbingError) -> ToolFailure:
    """Return the failure for arguments that were refused before any request."""
    return ToolFailure(_join(error.title, list(map(str, error.errors)), error.detail, None), error.status)


def _join(title: str, fields: list[str], detail: object, call_id: object) -> str:
    reason = "; ".join(fields) or (str(detail) if detail and detail != title else "")
    message = f"{title}: {reason}" if reason else title
    return f"{message} (request {call_id})" if call_id else message
