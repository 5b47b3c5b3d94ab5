"""Errors that callers see: each class carries its HTTP status and problem type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

UNKNOWN_FIELD: Final = "isn't a known field"
EMPTY: Final = "must not be empty"


@dataclass(frozen=True)
class FieldError:
    """Validation error for one request field.

    Attributes:
        field: Path of the field, such as `messages[2].content`.
        message: A predicate of which the field is the subject, such as "is too long".
        value: A length, a number or a name, never the caller's text.
        limit: The limit that the value exceeds.
        suggestion: The known field that an unknown one most likely means.
    """

    field: str
    message: str
    value: str | int | float | None = None
    limit: str | int | float | None = None
    suggestion: str | None = None

    @property
    def advice(self) -> str:
        """The message, with the suggested field."""
        return self.message if self.suggestion is None else f"{self.message}; did you mean `{self.suggestion}`?"

    def __str__(self) -> str:
        """Return the field, the message and the numbers as one sentence."""
        if self.message == UNKNOWN_FIELD:
            named = f"Unknown field `{self.field}`"
            return named if self.suggestion is None else f"{named}; did you mean `{self.suggestion}`?"
        shown = () if self.message == EMPTY else (("value", self.value), ("limit", self.limit))
        numbers = [f"{name} {found}" for name, found in shown if found is not None]
        return f"{self.field} {self.message}" + (f" ({', '.join(numbers)})" if numbers else "")


class EbbingError(Exception):
    """Base class of errors shown to callers. Messages contain names and numbers, never memory text."""

    status = 500
    type = "internal"
    title = "Internal server error"

    def __init__(
        self,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        omitted: int = 0,
        retry_after_seconds: int | None = None,
    ) -> None:
        """Create an error; `omitted` is the number of further faults, which `errors` doesn't list."""
        super().__init__(detail or self.title)
        self.detail = detail
        self.errors = tuple(errors)
        self.omitted = omitted
        self.retry_after_seconds = retry_after_seconds


def stored_name(error: BaseException) -> str:
    """Return the name under which dead letters, jobs, nightly runs and logs record an error, for searches by error.

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


class TenantClosed(EbbingError):
    """Tenant whose deletion was requested: its keys are refused until the deletion is cancelled."""

    status, type, title = 403, "tenant-deleted", "The tenant is being deleted"


class NotFound(EbbingError):
    """Resource that doesn't exist for this tenant."""

    status, type, title = 404, "not-found", "Not found"


def require_found(found: T | None, noun: str) -> T:
    """Return what was found.

    Raises:
        NotFound: It is None; the message names the kind of resource.
    """
    if found is None:
        raise NotFound(f"{noun[:1].upper()}{noun[1:]} not found")
    return found


class Conflict(EbbingError):
    """Conflict between the request and the current state."""

    status, type, title = 409, "conflict", "Conflict"


class CursorGone(EbbingError):
    """Cursor of the change feed that is too old: later changes are gone. `errors` contains the oldest usable cursor."""

    status, type, title = 410, "cursor-gone", "Changes after this cursor are no longer available"


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
