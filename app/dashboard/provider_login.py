"""Log in through the OpenID Connect provider: send the browser there, and start a session when it returns."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from typing import Final, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from app.dashboard import login, sessions
from app.dashboard.caller_address import caller_address
from app.dashboard.login_limit import LoginFailures
from app.dashboard.sessions import ATTEMPT_COOKIE, ATTEMPT_SECONDS, LogInAttempt, Session
from app.services.security import log_in_access, operators
from app.services.security.log_in_access import CALLBACK_PATH, LogInRefused, NoAccess, ProviderAway

CALLS_MAX: Final = 4
"""Maximum number of log-ins that wait for the provider, so that a slow one never takes all threads of the process."""
CALL_WAIT_SECONDS: Final = 10.0
"""Longest wait for one of these `CALLS_MAX` places."""

T = TypeVar("T")

router = APIRouter(prefix="/log-in/oidc")

bad_codes = LoginFailures("code")
"""Failed log-ins for which the provider was called. They are counted apart from other failures, so that answers without
a log-in attempt, which anybody can send, don't prevent a network's log-ins through the provider."""


@router.get("")
async def begin(request: Request) -> Response:
    """Redirect to the provider, with a cookie that binds its answer to this browser."""
    if not log_in_access.is_offered():
        raise HTTPException(404)
    from app.services.security import log_in  # noqa: PLC0415 - large libraries

    attempt = sessions.start_attempt()
    try:
        url = await _in_turn(request, lambda: log_in.authorization_url(attempt.state, attempt.nonce, attempt.verifier))
    except ProviderAway as away:
        return login.page_of_log_in(request, away.status, away.detail)
    answer = RedirectResponse(url, 303)
    answer.set_cookie(
        ATTEMPT_COOKIE,
        sessions.seal_attempt(attempt),
        max_age=ATTEMPT_SECONDS,
        path=CALLBACK_PATH,
        secure=True,
        httponly=True,
        samesite="lax",
    )
    return answer


@router.get("/callback")
async def receive(request: Request) -> Response:
    """Start a session if the provider's answer is valid.

    The response is a page instead of a redirect: browsers send the session's Strict cookie only with requests that
    begin on this site.

    Raises:
        TooManyLogins: The caller's network has too many recent failures.
    """
    if not log_in_access.is_offered():
        raise HTTPException(404)
    try:
        session = await _in_turn(request, lambda: _start_session(request))
    except (LogInRefused, NoAccess, ProviderAway) as error:
        if error.status == LogInRefused.status:
            await run_in_threadpool(login.failures.record, caller_address(request))
        answer = login.page_of_log_in(request, error.status, error.detail)
    else:
        answer = login.page_of_log_in(request, entered=True)
        login.set_session(answer, session)
    answer.delete_cookie(ATTEMPT_COOKIE, path=CALLBACK_PATH, secure=True, httponly=True, samesite="lax")
    answer.headers["referrer-policy"] = "no-referrer"  # the address contains the authorization code
    return answer


def _start_session(request: Request) -> Session:
    """Return a new session of the person whom the provider's answer identifies.

    The limit on bad codes is checked before the provider is called. Log-ins that are in progress at the same time, at
    most `CALLS_MAX` in a process, can exceed it.

    Raises:
        TooManyLogins: The caller's network has too many recent bad codes; the log-in attempt remains valid.
        LogInRefused: The answer isn't valid for this log-in.
        NoAccess: No rule grants the person access to an existing tenant.
        ProviderAway: The provider can't be used.
    """
    from app.services.security import log_in  # noqa: PLC0415 - large libraries

    address = caller_address(request)
    bad_codes.check(address)
    attempt = _open_attempt(request)
    code = request.query_params.get("code", "")
    if not 0 < len(code) <= log_in.CODE_MAX_CHARACTERS:
        raise LogInRefused("The log-in provider refused the log-in.")
    try:
        person = log_in.identify(code, attempt.nonce, attempt.verifier)
    except (LogInRefused, ProviderAway):
        bad_codes.record(address)
        raise
    entered = operators.record_log_in(log_in_access.find_access(person.rules), person.issuer, person.sub, person.name)
    if entered is None:
        raise NoAccess("EBBING_OIDC_SCOPES names no existing tenant for you.")
    tenant_id, operator_id = entered
    return sessions.start_session(str(operator_id), tenant_id, person.rules)


def _open_attempt(request: Request) -> LogInAttempt:
    """Return this browser's log-in attempt; raise `LogInRefused` unless this request is the first answer to it."""
    attempt = sessions.open_attempt(request.cookies.get(ATTEMPT_COOKIE))
    if attempt is None:
        raise LogInRefused("This log-in began in another browser, or more than ten minutes ago. Begin again.")
    state = request.query_params.get("state", "")
    if not hmac.compare_digest(state.encode(), attempt.state.encode()) or sessions.has_ended_attempt(attempt):
        raise LogInRefused("This answer doesn't belong to the log-in that this browser began. Begin again.")
    sessions.end_attempt(attempt)
    return attempt


async def _in_turn(request: Request, work: Callable[[], T]) -> T:
    """Call a function that may call the provider, while at most `CALLS_MAX` such calls run.

    Raises:
        ProviderAway: All places were taken for `CALL_WAIT_SECONDS`.
    """
    places: asyncio.Semaphore = request.app.state.provider_calls
    try:
        async with asyncio.timeout(CALL_WAIT_SECONDS):
            await places.acquire()
    except TimeoutError:
        message = "Too many log-ins wait for the log-in provider. Try again in a minute, or log in with an API key."
        raise ProviderAway(message) from None
    try:
        return await run_in_threadpool(work)
    finally:
        places.release()
