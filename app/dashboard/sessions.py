"""Dashboard sessions: a signed cookie with the id of an API key, never its secret, or with a person's id and rules.

Sessions aren't stored on the server. Each request looks the key up by its id, so revoking a key ends its sessions
within seconds; for a person who logged in through a provider, it looks up the rules in the settings. A log-out stores a
digest of the session in Redis until its cookie expires. While Redis is down, pages work, and only the process that
served the log-out knows of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar
from uuid import UUID

import msgspec
import structlog

from app.clients.redis import ended_sessions
from app.clients.redis.connection import RedisError
from app.domain.ingest.json_input import precompile
from app.services.security import encryption_keys
from app.settings import settings

T = TypeVar("T")

COOKIE: Final = "__Host-ebbing"
"""Browsers accept the `__Host-` prefix only for Secure, host-only cookies with the path `/`."""
SESSION_SECONDS: Final = 12 * 3600
ATTEMPT_COOKIE: Final = "__Secure-ebbing-oidc"
"""Cookie of a log-in at the provider. It is Lax, because the provider sends the browser back from another site, and has
a narrow path, which `__Host-` doesn't allow."""
ATTEMPT_SECONDS: Final = 600
_MAC_BYTES: Final = 32
_ENDED_HERE_MAX: Final = 10_000

log = structlog.get_logger(__name__)

_ended_here: OrderedDict[str, None] = OrderedDict()
"""Digests of the sessions that ended in this process."""


@precompile
@dataclass(frozen=True, slots=True)
class Session:
    """Content of the session cookie.

    Attributes:
        key_id: Id of the API key, or of the person who logged in through a provider.
        shown: Tenant shown on the pages.
        began: Start of the session, in Unix seconds.
        nonce: Random value from which the form token is derived.
        rules: Digests of the rules that grant the person access; empty for an API key.
    """

    key_id: str
    shown: UUID
    began: int
    nonce: str
    rules: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Duration of the session."""
        return min(SESSION_SECONDS, settings().oidc_session_hours * 3600) if self.rules else SESSION_SECONDS


@precompile
@dataclass(frozen=True, slots=True)
class LogInAttempt:
    """Content of the cookie that binds a log-in at the provider to this browser.

    The nonce and the PKCE secret are derived from the state by the service's key, so the cookie doesn't contain them.
    """

    state: str
    began: int

    @property
    def nonce(self) -> str:
        """Value that the ID token must contain."""
        return _mac(b"oidc nonce", self.state.encode()).hex()

    @property
    def verifier(self) -> str:
        """PKCE secret, of 64 characters."""
        return _mac(b"oidc verifier", self.state.encode()).hex()


def start_session(key_id: str, shown: UUID, rules: tuple[str, ...] = ()) -> Session:
    """Start a session."""
    return Session(key_id, shown, int(time.time()), os.urandom(16).hex(), rules)


def start_attempt() -> LogInAttempt:
    """Begin a log-in at the provider."""
    return LogInAttempt(os.urandom(16).hex(), int(time.time()))


def seal_session(session: Session) -> str:
    """Return the signed cookie value of a session."""
    return _seal(b"session", msgspec.json.encode(session))


def seal_attempt(attempt: LogInAttempt) -> str:
    """Return the signed cookie value of a log-in at the provider."""
    return _seal(b"oidc", msgspec.json.encode(attempt))


def open_session(value: str | None) -> Session | None:
    """Return the session of a cookie value; None if the signature is invalid or the session has expired."""
    session = _unseal(b"session", value, Session)
    return session if session and 0 <= time.time() - session.began < session.seconds else None


def open_attempt(value: str | None) -> LogInAttempt | None:
    """Return the log-in of a cookie value; None if the signature is invalid or the log-in began too long ago."""
    attempt = _unseal(b"oidc", value, LogInAttempt)
    return attempt if attempt and 0 <= time.time() - attempt.began < ATTEMPT_SECONDS else None


def _seal(purpose: bytes, said: bytes) -> str:
    return base64.urlsafe_b64encode(_mac(purpose, said) + said).decode().rstrip("=")


def _unseal(purpose: bytes, value: str | None, shape: type[T]) -> T | None:
    try:
        held = base64.urlsafe_b64decode((value or "") + "=" * (-len(value or "") % 4))
        said = held[_MAC_BYTES:]
        if not _is_mac(held[:_MAC_BYTES], purpose, said):
            return None
        return msgspec.json.decode(said, type=shape)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        return None


def end_session(session: Session) -> None:
    """End a session for all processes; while Redis is unavailable, for this process."""
    _end(session.nonce, session.began + SESSION_SECONDS - int(time.time()))


def end_attempt(attempt: LogInAttempt) -> None:
    """End a log-in at the provider, so that its answer is accepted once."""
    _end(attempt.state, ATTEMPT_SECONDS)


def end_sessions_of(operator_id: UUID) -> None:
    """End all sessions of a person in a tenant."""
    _end(str(operator_id), SESSION_SECONDS)


def has_ended(session: Session) -> bool:
    """Return whether the session's user has logged out, or all sessions of the person have ended."""
    return _is_ended(session.nonce, *([session.key_id] if session.rules else []))


def has_ended_attempt(attempt: LogInAttempt) -> bool:
    """Return whether an answer to this log-in at the provider was received before."""
    return _is_ended(attempt.state)


def _end(name: str, seconds: int) -> None:
    digest = _digest(name)
    _ended_here[digest] = None
    while len(_ended_here) > _ENDED_HERE_MAX:
        _ended_here.popitem(last=False)
    try:
        ended_sessions.add(digest, seconds)
    except RedisError as error:
        log.warning("log_out_not_stored", error=type(error).__name__)


def _is_ended(*names: str) -> bool:
    digests = list(map(_digest, names))
    if any(digest in _ended_here for digest in digests):
        return True
    try:
        return ended_sessions.contains(*digests)
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)
        return False


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def csrf_token(session: Session) -> str:
    """Return the CSRF token that every form of this session must submit."""
    return _mac(b"form", session.nonce.encode()).hex()


def is_csrf_token(session: Session, given: str) -> bool:
    """Return whether a form's token is the session's CSRF token, computed with any key of `_keys`."""
    try:
        return _is_mac(bytes.fromhex(given), b"form", session.nonce.encode())
    except ValueError:
        return False


def _mac(purpose: bytes, said: bytes) -> bytes:
    return hmac.digest(_keys()[0], purpose + b" " + said, "sha256")


def _is_mac(given: bytes, purpose: bytes, said: bytes) -> bool:
    return any(hmac.compare_digest(given, hmac.digest(key, purpose + b" " + said, "sha256")) for key in _keys())


@cache
def _keys() -> tuple[bytes, ...]:
    """Return the signing key, then those of the other master keys, which only verify.

    The keys are derived from the master keys and shared by all processes. Without a master key, each process uses
    a random key.
    """
    if settings().master_key is None:
        return (os.urandom(32),)
    return tuple(
        hashlib.sha256(b"ebbing dashboard " + master.key).digest() for master in encryption_keys.list_master_keys()
    )
