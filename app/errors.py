"""Errors that callers see: each class carries its HTTP status and problem type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    """Validation error for one request field.

    `value` never contains the caller's text: only a length, a number or a name.
    """

    field: str
    message: str
    value: str | int | float | None = None
    limit: str | int | float | None = None


class EbbingError(Exception):
    """Base class of errors shown to callers. Messages contain names and numbers, never memory text."""

    status = 500
    type = "internal"
    title = "Internal server error"

    def __init__(
        self, detail: str = "", *, errors: Sequence[FieldError] = (), retry_after_seconds: int | None = None
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_seconds = retry_after_seconds


def stored_name(error: BaseException) -> str:
    """Return the name under which rows and logs record an error: dead letters, jobs and nights are found by it.

    It is the class's name, or its attribute `stored_name`, which keeps the name of a class that was renamed.
    """
    return str(vars(type(error)).get("stored_name", type(error).__name__))


class Unreadable(EbbingError):
    """Request body that can't be parsed."""

    status, type, title = 400, "unreadable", "The request body can't be parsed"


class NotAuthenticated(EbbingError):
    """Missing or invalid API key."""

    status, type, title = 401, "not-authenticated", "A valid API key is required"


class NotAllowed(EbbingError):
    """API key without the required scope."""

    status, type, title = 403, "not-allowed", "The API key lacks the required scope"


class NotFound(EbbingError):
    """Resource that doesn't exist for this tenant."""

    status, type, title = 404, "not-found", "Resource not found"


class Conflict(EbbingError):
    """Conflict between the request and the current state."""

    status, type, title = 409, "conflict", "The request conflicts with the current state"


class TooLarge(EbbingError):
    """Request body over its size limit."""

    status, type, title = 413, "too-large", "The request body is too large"


class Invalid(EbbingError):
    """Invalid request field."""

    status, type, title = 422, "invalid", "A request field is invalid"


class BacklogFull(EbbingError):
    """Tenant whose ingest backlog is at its limit."""

    status, type, title = 429, "backlog-full", "Tenant backlog limit reached"


class Unavailable(EbbingError):
    """Temporary failure: a dependency is down or the service is at its limit."""

    status, type, title = 503, "unavailable", "Temporarily unavailable"


class NotReplayed(EbbingError):
    """Database restored from a backup with erased subjects; requests are refused until the erasures are replayed."""

    status, type, title = 503, "not-replayed", "Waiting for erasures to be replayed"


class ProfileMissing(EbbingError):
    """Tenant policy that names a forgetting profile that isn't installed; its memories stay unchanged."""

    status, type, title = 503, "profile-missing", "The tenant's forgetting profile isn't installed"


class Misconfigured(EbbingError):
    """Setting or dependency that prevents the service from working. The message says how to fix it."""

    type, title = "misconfigured", "A setting or dependency is misconfigured"
