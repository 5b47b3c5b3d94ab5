"""Access control of the dashboard: which API key or person may view and do what.

Each session belongs to an API key, or to a person who logged in through a provider. Every scope except `ingest` may log
in; `read` shows memories, `maintain` allows maintenance, `privacy` allows privacy requests, and `admin` selects the
tenant. GET requests never change anything, except that the provider's answer logs a person in; a POST needs the
session's token and the same origin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from app.api.http.auth import Caller, cache
from app.api.http.request_body import header, read
from app.dashboard import sessions
from app.dashboard.sessions import Session
from app.errors import EbbingError, FieldError, Invalid, NotAllowed, NotAuthenticated, TenantClosed
from app.services.erasure import ledger
from app.services.privacy import retained_texts
from app.services.security import log_in_access, operator_log
from app.services.tenants import tenants
from app.services.transient_errors import is_transient

T = TypeVar("T")

FIELDS_MAX: Final = 50


class LoggedOut(Exception):
    """Missing or expired session; the browser is redirected to the log-in page."""


class FormNotAccepted(NotAllowed):
    """A form that no page of this session sent."""

    title = "The form wasn't accepted"


@dataclass(frozen=True, slots=True)
class Viewer:
    """Logged-in user of a page.

    Attributes:
        tenant_id: Tenant shown on the pages: the key's own, or one selected by an admin.
        own_id: The key's own tenant, or the first one that a person's rules name.
        key_id: Id of the API key, or of the person who logged in through a provider.
        tenants: Tenants that a person's rules name; empty for a key.
    """

    session: Session
    tenant_id: UUID
    own_id: UUID
    key_id: str
    scopes: frozenset[str]
    tenants: tuple[UUID, ...] = ()

    @property
    def is_admin(self) -> bool:
        """True if the viewer may see every tenant."""
        return "admin" in self.scopes

    def may(self, scope: str) -> bool:
        """Return True if the viewer has this scope."""
        return scope in self.scopes

    @property
    def token(self) -> str:
        """CSRF token for forms."""
        return sessions.csrf_token(self.session)


@dataclass(frozen=True, slots=True)
class Action:
    """Submitted action: the viewer, the reason and the form fields."""

    viewer: Viewer
    reason: str
    form: Mapping[str, str]

    @property
    def tenant_id(self) -> UUID:
        """Tenant that the action applies to."""
        return self.viewer.tenant_id

    @property
    def key_id(self) -> str:
        """Id of the API key or the person that performs the action."""
        return self.viewer.key_id

    def record(self, act: str, word: str = "") -> None:
        """Record an action without an object, with key and reason, before it is performed.

        Args:
            act: Fixed name of the action.
            word: A fixed word that describes the action further.
        """
        operator_log.record_action(self.tenant_id, self.key_id, act, word, self.reason)

    def record_on(self, act: str, target: T, look_up: Callable[[UUID, T], object]) -> None:
        """Record an action on an object, with key and reason, before it is performed.

        Args:
            act: Fixed name of the action.
            target: Id or name of the object, from the request.
            look_up: Function that raises `NotFound` if the tenant has no such object. It is called first, so that the
                audit log contains no action on an object that doesn't exist.

        Raises:
            Invalid: The reason names the person that the object is about.
        """
        look_up(self.tenant_id, target)
        retained_texts.check_about(self.tenant_id, str(target), reason=self.reason)
        operator_log.record_action(self.tenant_id, self.key_id, act, str(target), self.reason)


LOOKS: Final = ("read", "maintain", "privacy", "admin")
"""Scopes that allow a log-in; any one is enough."""


async def load_viewer(request: Request) -> Viewer:
    """Return the viewer of a session, after checking the key or the person's access again.

    Raises:
        LoggedOut: There is no session, it has ended, or its key or the person's access is no longer valid.
    """
    session = sessions.open_session(request.cookies.get(sessions.COOKIE))
    if session is None or await run_in_threadpool(sessions.has_ended, session):
        raise LoggedOut
    try:
        caller = await find_caller(session)
    except (NotAuthenticated, TenantClosed):
        raise LoggedOut from None
    is_foreign = bool(session.rules) or session.shown != caller.tenant_id
    is_closed = is_foreign and await run_in_threadpool(tenants.is_closed, session.shown)
    if session.rules:
        # A person sees no pages of a tenant that is being deleted, except those that can select another tenant.
        scopes = caller.scopes & {"admin"} if is_closed else caller.scopes
        named = tuple(log_in_access.find_access(session.rules))
        return Viewer(session, session.shown, caller.tenant_id, caller.key_id, scopes, named)
    shown = session.shown if "admin" in caller.scopes and not is_closed else caller.tenant_id
    return Viewer(session, shown, caller.tenant_id, caller.key_id, caller.scopes)


async def find_caller(session: Session) -> Caller:
    """Return the key of a session, or the person with the scopes on the tenant shown.

    Raises:
        NotAuthenticated: The key is no longer valid, or the settings no longer grant the person access to the tenant.
    """
    if not session.rules:
        return await cache.known(session.key_id)
    access = log_in_access.find_access(session.rules)
    scopes = access.get(session.shown) or log_in_access.find_fleet_scopes(session.rules)
    if not scopes:
        raise NotAuthenticated("no rule grants access to this tenant")
    return Caller(next(iter(access)), session.key_id, scopes)


async def find_viewer(request: Request) -> Viewer | None:
    """Return the viewer of a session for pages that don't require one; None without a session, or if it can't be read.

    Transient errors of the database yield None, because an unavailable database may be why an error page is shown.
    """
    try:
        return await load_viewer(request)
    except (LoggedOut, EbbingError):
        return None
    except Exception as error:
        if not is_transient(error):
            raise
        return None


def require_viewer(*scopes: str) -> Callable[[Request], Awaitable[Viewer]]:
    """Return a dependency for pages with tenant data: requires one of the scopes and no pending erasure replay.

    Raises:
        NotAllowed: The key has none of the scopes.
        NotReplayed: The database was restored from a backup and erasures aren't replayed yet.
    """

    async def viewer(request: Request) -> Viewer:
        found = await load_viewer(request)
        if not any(found.may(scope) for scope in scopes):
            raise NotAllowed(f"this page requires a key with the scope {' or '.join(scopes)}")
        if not ledger.is_clear():
            await run_in_threadpool(ledger.check)
        return found

    return viewer


def require_action(scope: str, *, asks_why: bool = True) -> Callable[[Request], Awaitable[Action]]:
    """Return a dependency for actions that change something.

    Args:
        scope: Required scope; empty for none.
        asks_why: True if the form must contain a reason.

    Raises:
        NotAllowed: The key lacks the scope.
        FormNotAccepted: The form wasn't submitted from a page of this session.
        Invalid: The reason is missing or too long.
    """

    async def acting(request: Request) -> Action:
        viewer = await load_viewer(request)
        form = await read_form(request)
        check_origin(request)
        if not sessions.is_csrf_token(viewer.session, form.get("token", "")):
            what = "the form belongs to a session that has ended. Open its page again and send it from there"
            raise FormNotAccepted(f"Nothing was changed: {what}.")
        if scope and not viewer.may(scope):
            raise NotAllowed(f"this action requires a key with the scope {scope!r}")
        if not ledger.is_clear():
            await run_in_threadpool(ledger.check)
        reason = form.get("reason", "").strip()
        if asks_why and not 0 < len(reason) <= operator_log.REASON_MAX:
            raise Invalid(errors=[FieldError("reason", "must be given", len(reason), operator_log.REASON_MAX)])
        return Action(viewer, reason, form)

    return acting


AnyViewer = Annotated[Viewer, Depends(require_viewer(*LOOKS))]
Reading = Annotated[Viewer, Depends(require_viewer("read"))]
Planning = Annotated[Viewer, Depends(require_viewer("maintain"))]
Operating = Annotated[Viewer, Depends(require_viewer("maintain", "admin"))]
PrivacyViewer = Annotated[Viewer, Depends(require_viewer("privacy"))]
Writing = Annotated[Action, Depends(require_action("ingest"))]
Maintaining = Annotated[Action, Depends(require_action("maintain"))]
Guarding = Annotated[Action, Depends(require_action("privacy"))]


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a submitted form; of repeated fields, the last value.

    Raises:
        Invalid: The body isn't a form, has too many fields or contains NUL characters.
    """
    body = await read(request.scope, request.receive)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Invalid(errors=[FieldError("body", "must be a URL-encoded form")]) from None
    form = dict(pairs)
    if any("\0" in value for value in form.values()):
        raise Invalid(errors=[FieldError("body", "contains a NUL character, which can't be stored")])
    return form


def check_origin(request: Request) -> None:
    """Reject requests from other sites.

    Raises:
        FormNotAccepted: The Origin header is missing or names another host.
    """
    origin = header(request.scope, b"origin")
    here = header(request.scope, b"host")
    if not origin or urlsplit(origin).netloc != here:
        what = "the form was sent from another site. Open its page in this dashboard and send it from there"
        raise FormNotAccepted(f"Nothing was changed: {what}. A proxy in front must pass on the header Host.")
