"""One call of the API: the request, the reading of its answer, and the decision to try again. No input or output."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from ebbing_client.errors import (
    ApiError,
    DeadlinePassed,
    EbbingError,
    ServiceUnreachable,
    UnexpectedAnswer,
    invalid_field,
    make_api_error,
)

T = TypeVar("T")

FIRST_WAIT_SECONDS: Final = 0.2
LONGEST_WAIT_SECONDS: Final = 5.0
SHORTEST_WAIT_SECONDS: Final = 0.05
ASKED_JITTER: Final = 0.1
"""Maximum random addition to the wait that `Retry-After` asks for, as a share of it, to spread clients' retries."""
RETRYABLE_STATUSES: Final = frozenset({429, 502, 503, 504})
SHORTEST_ATTEMPT_SECONDS: Final = 0.001


@dataclass(frozen=True)
class Answer:
    """A successful response; `position` is the place of an accepted write in the service's order of acceptance."""

    status: int
    content: bytes
    request_id: str = ""
    position: str = ""

    def json(self) -> dict[str, Any]:
        """Return the JSON object of the body; an empty body is an empty object.

        Raises:
            UnexpectedAnswer: The body is something other than a JSON object.
        """
        try:
            found = json.loads(self.content) if self.content else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UnexpectedAnswer("the response isn't JSON as an Ebbing service sends it: check the URL")
        return found


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and the function that reads its answer.

    Attributes:
        params: Query parameters; those that are None are left out.
        is_repeatable: True if a repetition has no further effect.
        timeout: Seconds until the deadline, all attempts included; None uses the client's.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    is_repeatable: bool = True
    timeout: float | None = None


class Attempts:
    """Deadline and attempts of one call.

    A call is repeated after 429, 502, 503, 504 and broken connections, as long as the deadline permits the wait that
    `Retry-After` asks for, or else exponential backoff with jitter. A call that isn't repeatable is repeated only if
    it never left this machine, or if the service itself asked for it.
    """

    def __init__(self, call: Call[Any], timeout: float, *, is_retried: bool = True) -> None:
        self._call = call
        self._timeout = call.timeout if call.timeout is not None else timeout
        self._ends = time.monotonic() + self._timeout
        self._is_retried = is_retried
        self._tries = 0
        self._reason: EbbingError | None = None

    def remaining(self) -> float:
        """Return the seconds until the deadline, at least a millisecond."""
        return max(self._ends - time.monotonic(), SHORTEST_ATTEMPT_SECONDS)

    def wait_after(self, failure: EbbingError, *, was_sent: bool) -> float:
        """Return the wait before the next attempt in seconds, or raise the failure if there is none.

        Args:
            was_sent: False if no connection was established.
        """
        self._tries += 1
        if isinstance(failure, DeadlinePassed) and self._reason is not None:
            raise self._reason  # says more than the deadline
        self._reason = failure
        if not self._is_retried or not self._may_repeat(failure, was_sent=was_sent):
            raise failure
        wait = choose_wait(failure, self._tries)
        if time.monotonic() + wait >= self._ends:
            raise failure
        return wait

    def passed(self) -> DeadlinePassed:
        """Return the error of a call without a response before its deadline."""
        return DeadlinePassed(f"no response to {self._call.method} {self._call.path} within {self._timeout:g} s")

    def _may_repeat(self, failure: EbbingError, *, was_sent: bool) -> bool:
        if isinstance(failure, ApiError):
            if failure.status == 429 or (failure.status == 503 and failure.is_from_service):
                return True  # the service did nothing
            return self._call.is_repeatable and failure.status in RETRYABLE_STATUSES
        return isinstance(failure, ServiceUnreachable) and (self._call.is_repeatable or not was_sent)


def choose_wait(failure: object, tries: int) -> float:
    """Return the wait in seconds after this many attempts, with jitter, so that clients don't retry in step.

    It is at least what `Retry-After` asks for, or else grows exponentially.
    """
    asked = failure.retry_after_seconds if isinstance(failure, ApiError) else None
    if asked is not None:
        return asked + random.uniform(0, ASKED_JITTER * asked + SHORTEST_WAIT_SECONDS)  # noqa: S311 - not a secret
    longest = min(FIRST_WAIT_SECONDS * 2.0 ** min(tries - 1, 10), LONGEST_WAIT_SECONDS)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


def read_refusal(status: int, content: bytes, retry_after: str | None) -> ApiError:
    """Return the error of a response with an error status."""
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    try:
        wait = None if retry_after is None else max(float(retry_after), 0.0)
    except ValueError:  # a date, which Ebbing never sends
        wait = None
    return make_api_error(status, problem, wait)


def encode(value: object) -> bytes:
    """Return JSON in UTF-8; datetimes become ISO 8601.

    Raises:
        Invalid: A value has no JSON form, or a datetime has no offset.
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_as_json, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        # Neither message quotes the value: it could be the text of a memory.
        reason = "isn't valid Unicode" if isinstance(error, UnicodeEncodeError) else "has a value without a JSON form"
        raise invalid_field("body", reason) from None


def _as_json(value: object) -> object:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise invalid_field("body", "has a time without an offset: use datetime.now(timezone.utc)")
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(type(value).__name__)
