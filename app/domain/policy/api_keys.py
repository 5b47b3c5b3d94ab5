"""Create and check API keys, `ebb_<id>_<secret><checksum>`, without any store.

The prefix and the checksum let secret scanners recognise a leaked key, and let the API refuse a mistyped key without a
lookup. A secret has 256 random bits, so storing its plain SHA-256 is safe.
"""

from __future__ import annotations

import hashlib
import hmac
import zlib
from dataclasses import dataclass
from typing import Final

SCOPES: Final = ("ingest", "read", "maintain", "privacy", "admin")
SECRET_BYTES = 32
ID_BYTES = 9

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 13
_SECRET_LENGTH = 43
_CHECKSUM_LENGTH = 6
_LENGTH = len("ebb_") + _ID_LENGTH + 1 + _SECRET_LENGTH + _CHECKSUM_LENGTH


@dataclass(frozen=True)
class PresentedKey:
    """A well-formed key presented by a caller."""

    key_id: str
    secret: str


def make_key(id_bytes: bytes, secret_bytes: bytes) -> str:
    """Return a key's full text, from 9 and 32 random bytes."""
    key_id = _base62(id_bytes, _ID_LENGTH)
    secret = _base62(secret_bytes, _SECRET_LENGTH)
    return f"ebb_{key_id}_{secret}{_checksum(key_id, secret)}"


def parse(text: str) -> PresentedKey | None:
    """Return the parts of a key, or None if its form or checksum is invalid."""
    if len(text) != _LENGTH or not text.startswith("ebb_") or not text.isascii():
        return None
    key_id, separator, rest = text[4 : 4 + _ID_LENGTH], text[4 + _ID_LENGTH], text[5 + _ID_LENGTH :]
    secret, checksum = rest[:_SECRET_LENGTH], rest[_SECRET_LENGTH:]
    if separator != "_" or not key_id.isalnum() or checksum != _checksum(key_id, secret):
        return None
    return PresentedKey(key_id, secret)


def digest_secret(secret: str) -> bytes:
    """Return the digest stored for a secret: 32 bytes."""
    return hashlib.sha256(secret.encode()).digest()


def matches_digest(secret: str, stored_digest: bytes) -> bool:
    """Return whether a secret matches the stored digest, in constant time."""
    return hmac.compare_digest(digest_secret(secret), stored_digest)


def _checksum(key_id: str, secret: str) -> str:
    return _base62(zlib.crc32(f"{key_id}_{secret}".encode()).to_bytes(4, "big"), _CHECKSUM_LENGTH)


def _base62(value: bytes, length: int) -> str:
    number = int.from_bytes(value, "big")
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
