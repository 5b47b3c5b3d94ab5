"""Cursors of the change feed as text that callers store: no other tenant's feed accepts them."""

from __future__ import annotations

import base64
import hashlib
from typing import Final
from uuid import UUID

from app.errors import FieldError, Invalid

_PLACE_BYTES: Final = 8
_TENANT_BYTES: Final = 4


def encode_cursor(tenant_id: UUID, place: int) -> str:
    """Return a position in the tenant's feed as text that no other tenant's feed accepts."""
    return base64.urlsafe_b64encode(place.to_bytes(_PLACE_BYTES, "big") + _mark(tenant_id)).decode()


def decode_cursor(tenant_id: UUID, cursor: str) -> int:
    """Return the position in a cursor.

    Raises:
        Invalid: It isn't a cursor of this tenant's feed.
    """
    try:
        read_bytes = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except ValueError:
        read_bytes = b""
    if len(read_bytes) != _PLACE_BYTES + _TENANT_BYTES or read_bytes[_PLACE_BYTES:] != _mark(tenant_id):
        raise Invalid(errors=[FieldError("cursor", "must be a cursor from an earlier response, or `newest`")])
    return int.from_bytes(read_bytes[:_PLACE_BYTES], "big")


def _mark(tenant_id: UUID) -> bytes:
    return hashlib.blake2b(tenant_id.bytes, digest_size=_TENANT_BYTES).digest()
