"""Error types of the service: which HTTP problem they are, and whether trying again can help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field of a request.

    `value` is never the caller's text: it is a length, a number or a name.
    """

    field: str
    message: str
    value: str | int | float | None = None
    limit: str | int | float | None = None


class EbbingError(Exception):
    """Base of the errors that callers see. The message holds names and numbers, never memory text."""

    status = 500
    type = "internal"
    title = "Something failed on our side"
    retryable = False

    def __init__(
        self, detail: str = "", *, errors: Sequence[FieldError] = (), retry_after_seconds: int | None = None
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_seconds = retry_after_seconds


class Unreadable(EbbingError):
    """The body can't be read at all."""

    status, type, title = 400, "unreadable", "The request can't be read"


class NotAuthenticated(EbbingError):
    """No key, or one that isn't valid."""

    status, type, title = 401, "not-authenticated", "A valid API key is needed"


class NotAllowed(EbbingError):
    """The key lacks the scope."""

    status, type, title = 403, "not-allowed", "This key lacks the scope"


class NotFound(EbbingError):
    """No such thing for this tenant."""

    status, type, title = 404, "not-found", "There is no such thing"


class Conflict(EbbingError):
    """The request contradicts what is there."""

    status, type, title = 409, "conflict", "The request contradicts an earlier one"


class TooLarge(EbbingError):
    """The body is over its limit."""

    status, type, title = 413, "too-large", "The request is too large"


class Invalid(EbbingError):
    """A field is wrong."""

    status, type, title = 422, "invalid", "A field is wrong"


class BacklogFull(EbbingError):
    """This tenant has too much waiting."""

    status, type, title, retryable = 429, "backlog-full", "Too much of this tenant's is waiting", True


class Unavailable(EbbingError):
    """We can't take it now."""

    status, type, title, retryable = 503, "unavailable", "Not possible right now", True


class NotReplayed(EbbingError):
    """The data is an older copy, in which persons are who were erased: nobody sees it until they are gone again."""

    status, type, title, retryable = 503, "not-replayed", "Erasures are to be replayed first", True


class ProfileMissing(EbbingError):
    """A tenant's policy names a model of forgetting that isn't installed; its memories are left as they are."""

    status, type, title = 503, "profile-missing", "The tenant's model of forgetting isn't installed"


class Misconfigured(EbbingError):
    """A setting or a dependency isn't as the service needs it. The message says what to do."""

    type, title = "misconfigured", "A setting or dependency isn't as needed"
