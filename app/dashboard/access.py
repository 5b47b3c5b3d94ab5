"""Who may see and do what on the dashboard.

A session is one of an API key. Any but `ingest` may look; `read` shows memories, `maintain` acts on
maintenance, `privacy` on people's rights, and `admin` chooses the tenant. GET never changes anything; a POST needs the
session's token and comes from here.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from app.api.http.auth import cache
from app.api.http.body import header, read
from app.dashboard import sessions
from app.dashboard.sessions import Session
from app.errors import FieldError, Invalid, NotAllowed, NotAuthenticated
from app.services.erasure import ledger
from app.services.security import operators

FIELDS_MAX: Final = 50


class LoggedOut(Exception):
    """There is no session; the browser is sent to the log-in."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks.

    Attributes:
        tenant_id: The tenant whose pages are shown: the key's own, or one that an admin has chosen.
        own_id: The key's own.
    """

    session: Session
    tenant_id: UUID
    own_id: UUID
    key_id: str
    scopes: frozenset[str]

    @property
    def is_admin(self) -> bool:
        """Whether every tenant is shown."""
        return "admin" in self.scopes

    def may(self, scope: str) -> bool:
        """Whether the key has a scope."""
        return scope in self.scopes

    @property
    def token(self) -> str:
        """For forms."""
        return sessions.token(self.session)


@dataclass(frozen=True, slots=True)
class Acting:
    """Who acts, why, and what the form says besides."""

    viewer: Viewer
    reason: str
    form: Mapping[str, str]

    @property
    def tenant_id(self) -> UUID:
        """Whose."""
        return self.viewer.tenant_id

    @property
    def key_id(self) -> str:
        """Who."""
        return self.viewer.key_id

    def note(self, act: str, target: str = "") -> None:
        """Write down that this was asked for, by whom, and why; before it is done.

        Args:
            act: A fixed word.
            target: An id, or a fixed word, of what it is done to.
        """
        operators.record(self.tenant_id, self.key_id, act, target, self.reason)


LOOKS: Final = ("read", "maintain", "privacy", "admin")
"""Any of these scopes lets a key in."""


async def viewer_of(request: Request) -> Viewer:
    """The session's viewer, looked up anew.

    Raises:
        LoggedOut: There is no session, or its key is no longer valid.
    """
    session = sessions.opened(request.cookies.get(sessions.COOKIE))
    if session is None:
        raise LoggedOut
    try:
        caller = await cache.known(session.key_id)
    except NotAuthenticated:
        raise LoggedOut from None
    shown = session.shown if "admin" in caller.scopes else caller.tenant_id
    return Viewer(session, shown, caller.tenant_id, caller.key_id, caller.scopes)


def sees(*scopes: str) -> Callable[[Request], Awaitable[Viewer]]:
    """A dependency for pages that show what a tenant has: needs one of the scopes, and that nothing erased is back.

    Raises:
        NotAllowed: The key has none of them.
        NotReplayed: The database is an older copy, and who was erased since is still in it.
    """

    async def viewer(request: Request) -> Viewer:
        found = await viewer_of(request)
        if not any(found.may(scope) for scope in scopes):
            raise NotAllowed(f"this page needs a key of the scope {' or '.join(scopes)}")
        if not ledger.is_clear():
            await run_in_threadpool(ledger.check)
        return found

    return viewer


def acts(scope: str, *, asks_why: bool = True) -> Callable[[Request], Awaitable[Acting]]:
    """A dependency for what changes something.

    Args:
        scope: What the key needs; nothing where it is empty.
        asks_why: Whether the form must give a reason.

    Raises:
        NotAllowed: The key lacks the scope, or the form didn't come from a page of this session.
        Invalid: There is no reason.
    """

    async def acting(request: Request) -> Acting:
        viewer = await viewer_of(request)
        form = await form_of(request)
        check_origin(request)
        if not hmac.compare_digest(form.get("token", "").encode(), viewer.token.encode()):
            raise NotAllowed("the form is of another session: load the page again")
        if scope and not viewer.may(scope):
            raise NotAllowed(f"this needs a key of the scope {scope!r}")
        if not ledger.is_clear():
            await run_in_threadpool(ledger.check)
        reason = form.get("reason", "").strip()
        if asks_why and not 0 < len(reason) <= operators.REASON_MAX:
            raise Invalid(errors=[FieldError("reason", "must be given", len(reason), operators.REASON_MAX)])
        return Acting(viewer, reason, form)

    return acting


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a posted form, each once.

    Raises:
        Invalid: It isn't a form, or has too many fields.
    """
    body = await read(request.scope, request.receive)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Invalid(errors=[FieldError("body", "isn't a form")]) from None
    form = dict(pairs)
    if any("\0" in value for value in form.values()):
        raise Invalid(errors=[FieldError("body", "holds a NUL character, which can't be stored")])
    return form


def check_origin(request: Request) -> None:
    """Refuse what another site has sent.

    Raises:
        NotAllowed: It comes from elsewhere, or doesn't say from where.
    """
    origin = header(request.scope, b"origin")
    here = header(request.scope, b"host")
    if not origin or urlsplit(origin).netloc != here:
        raise NotAllowed("this was sent from another site")
