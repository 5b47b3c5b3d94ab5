"""Dashboard sessions: a signed cookie with the id of an API key, never its secret.

Sessions aren't stored on the server. Each request looks the key up by its id, so revoking a key ends its sessions
within seconds. A log-out stores a digest of the session in Redis until its cookie expires. While Redis is down, pages
work, and only the process that served the log-out knows of it.
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
from typing import Final
from uuid import UUID

import msgspec
import structlog

from app.clients.redis import ended_sessions
from app.clients.redis.connection import RedisError
from app.domain.ingest.json_input import precompile
from app.services.security import encryption_keys
from app.settings import settings

COOKIE: Final = "__Host-ebbing"
"""Browsers accept the `__Host-` prefix only for Secure, host-only cookies with the path `/`."""
SESSION_SECONDS: Final = 12 * 3600
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
        key_id: Id of the API key.
        shown: Tenant shown on the pages.
        began: Start of the session, in Unix seconds.
        nonce: Random value from which the form token is derived.
    """

    key_id: str
    shown: UUID
    began: int
    nonce: str


def start_session(key_id: str, shown: UUID) -> Session:
    """Start a session."""
    return Session(key_id, shown, int(time.time()), os.urandom(16).hex())


def seal_session(session: Session) -> str:
    """Return the signed cookie value of a session."""
    said = msgspec.json.encode(session)
    return base64.urlsafe_b64encode(_mac(b"session", said) + said).decode().rstrip("=")


def open_session(value: str | None) -> Session | None:
    """Return the session of a cookie value; None if the signature is invalid or the session has expired."""
    try:
        held = base64.urlsafe_b64decode((value or "") + "=" * (-len(value or "") % 4))
        said = held[_MAC_BYTES:]
        if not _is_mac(held[:_MAC_BYTES], b"session", said):
            return None
        session = msgspec.json.decode(said, type=Session)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        return None
    return session if 0 <= time.time() - session.began < SESSION_SECONDS else None


def end_session(session: Session) -> None:
    """End a session for all processes; while Redis is unavailable, for this process."""
    digest = _digest(session)
    _ended_here[digest] = None
    while len(_ended_here) > _ENDED_HERE_MAX:
        _ended_here.popitem(last=False)
    try:
        ended_sessions.add(digest, session.began + SESSION_SECONDS - int(time.time()))
    except RedisError as error:
        log.warning("log_out_not_stored", error=type(error).__name__)


def has_ended(session: Session) -> bool:
    """Return whether the session's user has logged out."""
    digest = _digest(session)
    if digest in _ended_here:
        return True
    try:
        return ended_sessions.contains(digest)
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)
        return False


def _digest(session: Session) -> str:
    return hashlib.sha256(session.nonce.encode()).hexdigest()


def csrf_token(session: Session) -> str:
    """Return the CSRF token that every form of this session must submit."""
    return _mac(b"form", session.nonce.encode()).hex()


def is_csrf_token(session: Session, given: str) -> bool:
    """Return whether a form has the session's CSRF token, also from a page of before a rotation of the master key."""
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

    The keys are derived from the master keys and shared by all processes; without one, a random key per process.
    """
    if settings().master_key is None:
        return (os.urandom(32),)
    return tuple(
        hashlib.sha256(b"ebbing dashboard " + master.key).digest() for master in encryption_keys.list_master_keys()
    )
