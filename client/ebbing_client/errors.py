"""Errors that the client raises. Their messages contain names, numbers and limits, never the text of a memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROBLEM_PREFIX = "urn:ebbing:problem:"


@dataclass(frozen=True)
class FieldProblem:
    """Fault of one field of a request.

    Attributes:
        field: Path of the field, such as `messages[2].content`.
        message: Predicate of which the field is the subject, such as "is too long".
        value: A length, a number or a name, never the caller's text.
        limit: The limit that the value exceeds.
        suggestion: The known field that an unknown one most likely means.
    """

    field: str
    message: str
    value: str | int | float | None = None
    limit: str | int | float | None = None
    suggestion: str | None = None

    def __str__(self) -> str:
        """Return the field, the message and the numbers as one sentence."""
        numbers = [
            f"{name} {found}" for name, found in (("value", self.value), ("limit", self.limit)) if found is not None
        ]
        return f"{self.field} {self.message}" + (f" ({', '.join(numbers)})" if numbers else "")


class EbbingError(Exception):
    """Base class of all errors of this package."""


class Misconfigured(EbbingError):
    """Missing or unusable argument or environment variable."""


class LocalServiceError(EbbingError):
    """The service of `Ebbing.local` isn't installed, or couldn't be started; the message has the reason."""


class ApiError(EbbingError):
    """Error response of the service.

    Attributes:
        status: HTTP status.
        type: Name of the problem, such as `invalid`.
        title: The problem in a few words.
        detail: The problem of this request.
        fields: The invalid fields.
        request_id: Id under which the service logged the request.
        retry_after_seconds: Wait that the service asks for; None if it asks for none.
    """

    def __init__(
        self,
        status: int,
        problem: Mapping[str, Any],
        *,
        retry_after_seconds: float | None = None,
        fields: tuple[FieldProblem, ...] = (),
    ) -> None:
        self.status = status
        self.type = str(problem.get("type") or "").removeprefix(PROBLEM_PREFIX)
        self.title = str(problem.get("title") or f"HTTP status {status}")
        self.detail = str(problem.get("detail") or "")
        self.fields = fields
        # Versions of the service without call IDs log the request id.
        self.request_id = str(problem.get("call_id") or problem.get("request_id") or "")
        self.retry_after_seconds = retry_after_seconds
        # True if the service wrote the response, false if a proxy did.
        self.is_from_service = str(problem.get("type") or "").startswith(PROBLEM_PREFIX)
        super().__init__(self._describe())

    def _describe(self) -> str:
        said = "; ".join(map(str, self.fields)) or (self.detail if self.detail != self.title else "")
        parts = [f"{self.status} {self.title}", *([said] if said else [])]
        return ": ".join(parts) + (f" (request {self.request_id})" if self.request_id else "")


class BadRequest(ApiError):
    """Request body or header that can't be parsed (400)."""


class NotAuthenticated(ApiError):
    """Missing or invalid API key (401)."""


class NotAllowed(ApiError):
    """API key without the required scope (403)."""


class TenantClosed(NotAllowed):
    """Tenant whose deletion was requested (403)."""


class NotFound(ApiError):
    """Resource that doesn't exist for this key's tenant (404)."""


class Conflict(ApiError):
    """Conflict with the current state, such as a legal hold (409)."""


class CursorGone(ApiError):
    """Feed cursor after which changes were removed; `fields[0].limit` is the oldest cursor to continue from (410)."""


class TooLarge(ApiError):
    """Request body over its size limit (413)."""


class Invalid(ApiError):
    """Invalid field; `fields` names it with limit and value (422)."""


class RateLimited(ApiError):
    """Tenant at a limit; try again later (429)."""


class BacklogFull(RateLimited):
    """Tenant whose ingest backlog is at its limit (429)."""


class ServerError(ApiError):
    """Failure of the service or of a proxy (5xx)."""


class Unavailable(ServerError):
    """Service that is temporarily unavailable (502, 503, 504)."""


class NotReplayed(Unavailable):
    """Service whose database was restored from a backup: erasures are replayed before it answers (503)."""


class ProfileMissing(Unavailable):
    """Tenant whose forgetting profile isn't installed (503)."""


class ServiceUnreachable(EbbingError):
    """No connection to the service, or a connection that broke."""


class DeadlinePassed(ServiceUnreachable):
    """Call without a response before its deadline."""


class UnexpectedAnswer(EbbingError):
    """Response that isn't from an Ebbing service: check the URL."""


class ClientClosed(EbbingError):
    """Use of a client after `close`."""


class QueueFull(EbbingError):
    """Buffer of background writes that stayed full until the deadline."""


class NotSent(EbbingError):
    """Writes that wait in the buffer after the deadline of a flush; `__cause__` is the last failure."""


class WritesRejected(EbbingError):
    """Buffered writes that the service refused; `__cause__` is the first refusal."""


class SpoolError(EbbingError):
    """Spool file that can't be used."""


class SpoolFull(SpoolError):
    """Spool at its limit, or on a full disk: the write was not accepted."""


class SpoolInUse(SpoolError):
    """Spool that another client or process has open."""


class SpoolCorrupt(SpoolError):
    """Spool whose content is damaged."""


class SpoolKeyWrong(SpoolError):
    """Spool that was written under another key, or without one."""


_BY_TYPE: dict[str, type[ApiError]] = {
    "tenant-deleted": TenantClosed,
    "backlog-full": BacklogFull,
    "not-replayed": NotReplayed,
    "profile-missing": ProfileMissing,
}
_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: NotAuthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: CursorGone,
    413: TooLarge,
    422: Invalid,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def make_api_error(status: int, problem: object, retry_after_seconds: float | None) -> ApiError:
    """Return the error for a response; without details if the body isn't a problem details object."""
    body = problem if isinstance(problem, dict) else {}
    kind = _BY_TYPE.get(str(body.get("type") or "").removeprefix(PROBLEM_PREFIX)) or _BY_STATUS.get(
        status, ServerError if status >= 500 else ApiError
    )
    given = body.get("errors")
    fields = tuple(
        FieldProblem(
            str(item.get("field", "")),
            str(item.get("message", "")),
            item.get("value"),
            item.get("limit"),
            item.get("suggestion"),
        )
        for item in (given if isinstance(given, list) else ())
        if isinstance(item, dict)
    )
    return kind(status, body, retry_after_seconds=retry_after_seconds, fields=fields)


def invalid_field(field: str, message: str, value: str | int | None = None, limit: int | None = None) -> Invalid:
    """Return the error for a field that the client itself finds invalid, in the form of the service's own."""
    problem = {"type": f"{PROBLEM_PREFIX}invalid", "title": "A request field is invalid"}
    return Invalid(422, problem, fields=(FieldProblem(field, message, value, limit),))
