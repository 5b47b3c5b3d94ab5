"""Log in with an API key, log out, and select the tenant shown to an admin."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from app.api.http.auth import cache
from app.api.http.middleware import find_refusal
from app.dashboard import rendering, sessions
from app.dashboard.access import LOOKS, Action, check_origin, read_form, require_action
from app.dashboard.caller_address import caller_address
from app.dashboard.login_limit import LoginFailures
from app.dashboard.rendering import PREFIX
from app.dashboard.sessions import Session
from app.errors import FieldError, Invalid, NotAllowed, NotAuthenticated, NotReplayed, TenantClosed
from app.services.security import operators
from app.services.security.log_in_access import is_offered
from app.services.tenants import tenants

router = APIRouter()

failures = LoginFailures("log-in")


@router.get("/log-in")
async def asked(request: Request) -> Response:
    """Show the log-in form; while the database waits for a replay of erasures, with the reason."""
    refusal = await find_refusal()
    return page_of_log_in(request, wrong=_describe_replay(refusal) if refusal else None)


@router.post("/log-in")
async def log_in(request: Request) -> Response:
    """Start a session if the key is valid and has a suitable scope.

    Only failures are limited: a log-in with a valid key is never refused because of them.
    """
    check_origin(request)
    form = await read_form(request)
    try:
        caller = await cache.presented(form.get("key", "").strip())
    except NotAuthenticated:
        await run_in_threadpool(failures.record, caller_address(request))
        if refusal := await find_refusal():  # the keys, too, are those of the restored copy
            what = "The copy doesn't contain this key: log in with a key that was made before the backup."
            return page_of_log_in(request, 503, f"{_describe_replay(refusal)} {what}")
        return page_of_log_in(request, 401, "This key is invalid: unknown, revoked or expired.")
    if not caller.scopes & set(LOOKS):
        return page_of_log_in(request, 403, "This key has only the `ingest` scope and cannot open the dashboard.")
    return _redirect_with_session(sessions.start_session(caller.key_id, caller.tenant_id), "")


def page_of_log_in(request: Request, status: int = 200, wrong: str | None = None, *, entered: bool = False) -> Response:
    """Render the log-in page, with the reason why a log-in failed.

    Args:
        entered: True after a log-in at the provider: the page redirects the browser to the overview.
    """
    url, offered = None, is_offered()
    if offered:
        from app.services.security.log_in import log_out_url  # noqa: PLC0415 - large libraries

        url = log_out_url()
    context = {"offered": offered, "log_out_url": url, "entered": entered}
    return rendering.page(request, None, "log_in", status, wrong=wrong, **context)


def _describe_replay(refusal: NotReplayed) -> str:
    return f"{refusal.detail[:1].upper()}{refusal.detail[1:]}."


@router.post("/log-out")
def log_out(acting: Annotated[Action, Depends(require_action("", asks_why=False))]) -> Response:
    """End the session: the server refuses its cookie from now on, and the browser deletes it."""
    sessions.end_session(acting.viewer.session)
    answer = RedirectResponse(f"{PREFIX}/log-in", 303)
    answer.delete_cookie(sessions.COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    return answer


@router.post("/tenant")
def look_at(acting: Annotated[Action, Depends(require_action("", asks_why=False))]) -> Response:
    """Switch to another tenant."""
    viewer = acting.viewer
    try:
        shown = UUID(acting.form.get("tenant", ""))
    except ValueError:
        raise Invalid(errors=[FieldError("tenant", "must be an id")]) from None
    if not viewer.is_admin and shown not in viewer.tenants:
        raise NotAllowed("this action requires a key with the scope 'admin'")
    if tenants.is_closed(shown):
        raise TenantClosed("this tenant is being deleted, so no page shows it")
    session = replace(viewer.session, shown=shown)
    if session.rules:
        operator_id = operators.enter_tenant(viewer.tenant_id, UUID(session.key_id), shown)
        session = replace(session, key_id=str(operator_id))
    return _redirect_with_session(session, "?done=tenant")


def set_session(answer: Response, session: Session) -> None:
    """Set the cookie of a session."""
    answer.set_cookie(
        sessions.COOKIE,
        sessions.seal_session(session),
        max_age=int(session.seconds),
        path="/",
        secure=True,
        httponly=True,
        samesite="strict",
    )


def _redirect_with_session(session: Session, query: str) -> Response:
    answer = RedirectResponse(f"{PREFIX}/{query}", 303)
    set_session(answer, session)
    return answer
