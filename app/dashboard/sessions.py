"""Sessions of the dashboard: a signed cookie that names an API key, never its secret.

Nothing is stored: who may is looked up by the key's id at each request, so a revoked key ends its sessions within
seconds, and the pages work while Redis or PostgreSQL are away.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from dataclasses import dataclass
from functools import cache
from typing import Final
from uuid import UUID

import msgspec

from app.domain.ingest.decoding import prepared
from app.errors import Misconfigured
from app.services.security import key_store

COOKIE: Final = "__Host-ebbing"
"""A browser takes a cookie of this prefix only if it is Secure, of this host alone, and for every path."""
SESSION_SECONDS: Final = 12 * 3600
_MAC_BYTES: Final = 32


@prepared
@dataclass(frozen=True, slots=True)
class Session:
    """Who has logged in.

    Attributes:
        key_id: The API key.
        shown: The tenant whose pages are shown.
        began: When, in seconds of Unix time.
        nonce: Random; what forms must bring back is made of it.
    """

    key_id: str
    shown: UUID
    began: int
    nonce: str


def begun(key_id: str, shown: UUID) -> Session:
    """A new session."""
    return Session(key_id, shown, int(time.time()), os.urandom(16).hex())


def sealed(session: Session) -> str:
    """The cookie's value."""
    said = msgspec.json.encode(session)
    return base64.urlsafe_b64encode(_mac(b"session", said) + said).decode().rstrip("=")


def opened(value: str | None) -> Session | None:
    """The session of a cookie's value; None where it isn't one of ours, or is too old."""
    try:
        held = base64.urlsafe_b64decode((value or "") + "=" * (-len(value or "") % 4))
        said = held[_MAC_BYTES:]
        if not hmac.compare_digest(held[:_MAC_BYTES], _mac(b"session", said)):
            return None
        session = msgspec.json.decode(said, type=Session)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        return None
    return session if 0 <= time.time() - session.began < SESSION_SECONDS else None


def token(session: Session) -> str:
    """What each form of this session must bring back, so that no other site can send it."""
    return _mac(b"form", session.nonce.encode()).hex()


def _mac(purpose: bytes, said: bytes) -> bytes:
    return hmac.digest(_key(), purpose + b" " + said, "sha256")


@cache
def _key() -> bytes:
    """Of the installation, so that each of its processes knows the others' sessions; else of this process."""
    try:
        master = key_store.master_key()
    except Misconfigured:
        return os.urandom(32)
    return hashlib.sha256(b"ebbing dashboard " + master).digest()
