"""Logging in with an API key, and out; which tenant an admin looks at."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from app.api.http.auth import cache
from app.dashboard import rendering, sessions
from app.dashboard.access import LOOKS, Acting, acts, check_origin, form_of
from app.dashboard.rendering import PREFIX
from app.errors import EbbingError, FieldError, Invalid, NotAuthenticated

TRIES: Final = 10
"""Failed log-ins from an address in `TRIES_SECONDS`."""
TRIES_SECONDS: Final = 60.0
_ADDRESSES_MAX: Final = 10_000

router = APIRouter()


class TooMany(EbbingError):
    """Too many log-ins have failed."""

    status, type, title = 429, "too-many-log-ins", "Too many log-ins have failed"


class Failures:
    """Failed log-ins of the last minute, by address."""

    def __init__(self) -> None:
        """None yet."""
        self._by_address: OrderedDict[str, list[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Refuse an address that has failed too often.

        Raises:
            TooMany: It has.
        """
        recent = self._recent(address)
        if len(recent) >= TRIES:
            wait = round(TRIES_SECONDS - (time.monotonic() - recent[0])) + 1
            raise TooMany(f"wait {wait} s", retry_after_seconds=wait)

    def note(self, address: str) -> None:
        """One more has failed."""
        self._by_address[address] = [*self._recent(address), time.monotonic()]
        self._by_address.move_to_end(address)
        while len(self._by_address) > _ADDRESSES_MAX:
            self._by_address.popitem(last=False)

    def _recent(self, address: str) -> list[float]:
        since = time.monotonic() - TRIES_SECONDS
        return [moment for moment in self._by_address.get(address, []) if moment > since]


failures = Failures()


@router.get("/log-in")
async def asked(request: Request) -> Response:
    """The form."""
    return rendering.page(request, None, "log_in", wrong=None)


@router.post("/log-in")
async def log_in(request: Request) -> Response:
    """A session, where the key is one that may look."""
    check_origin(request)
    address = request.client.host if request.client else ""
    failures.check(address)
    form = await form_of(request)
    try:
        caller = await cache.presented(form.get("key", "").strip())
    except NotAuthenticated:
        failures.note(address)
        return rendering.page(request, None, "log_in", 401, wrong="This key isn't valid: unknown, revoked or expired.")
    if not caller.scopes & set(LOOKS):
        return rendering.page(
            request,
            None,
            "log_in",
            403,
            wrong="This key may only send.",
        )
    return _with(sessions.sealed(sessions.begun(caller.key_id, caller.tenant_id)), "")


@router.post("/log-out", dependencies=[Depends(acts("", asks_why=False))])
async def log_out() -> Response:
    """The cookie is gone."""
    answer = RedirectResponse(f"{PREFIX}/log-in", 303)
    answer.delete_cookie(sessions.COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    return answer


@router.post("/tenant")
async def look_at(acting: Annotated[Acting, Depends(acts("admin", asks_why=False))]) -> Response:
    """Another tenant's pages from now on."""
    try:
        shown = UUID(acting.form.get("tenant", ""))
    except ValueError:
        raise Invalid(errors=[FieldError("tenant", "isn't an id")]) from None
    session = acting.viewer.session
    return _with(sessions.sealed(sessions.Session(session.key_id, shown, session.began, session.nonce)), "?done=tenant")


def _with(cookie: str, query: str) -> Response:
    answer = RedirectResponse(f"{PREFIX}/{query}", 303)
    answer.set_cookie(
        sessions.COOKIE,
        cookie,
        max_age=sessions.SESSION_SECONDS,
        path="/",
        secure=True,
        httponly=True,
        samesite="strict",
    )
    return answer
