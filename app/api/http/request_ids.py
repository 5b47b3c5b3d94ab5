"""The two ids of an HTTP request: the one that its caller may choose, and the service's own."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import uuid4

from starlette.types import Scope

_STATE: Final = "request_ids"


class RequestIds(NamedTuple):
    """Ids of a request.

    Attributes:
        shown: The caller's `X-Request-ID`, otherwise the call ID. It is only returned to the caller: it may contain a
            person's name, so it is neither stored nor logged.
        call_id: The service's own id, for logs and stored records.
    """

    shown: str
    call_id: str

    @property
    def generated(self) -> str:
        """The call ID if it is the id that the caller sees, otherwise an empty string."""
        return self.call_id if self.shown == self.call_id else ""


def assign_ids(scope: Scope, given: str | None) -> RequestIds:
    """Set and return the ids of a request.

    A request that the service sends to itself has the call ID of the request that caused it, set by `carry_ids`.

    Args:
        given: A valid `X-Request-ID` of the caller.
    """
    state = scope.setdefault("state", {})
    outer = state.get(_STATE)
    call_id = uuid4().hex if outer is None else outer.call_id
    state[_STATE] = ids = RequestIds(given or call_id, call_id)
    return ids


def carry_ids(ids: RequestIds) -> dict[str, RequestIds]:
    """Return the state of the scope of a request that the service sends to itself because of this one."""
    return {_STATE: ids}


def get_ids(scope: Scope) -> RequestIds:
    """Return the ids of a request."""
    ids: RequestIds = scope["state"][_STATE]
    return ids
