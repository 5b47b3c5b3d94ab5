"""Idempotent requests: a repeated Idempotency-Key has one effect and returns the original response."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from starlette.types import Scope

from app.api.http.request_body import header
from app.clients.redis.stream import AppendResult
from app.domain.ingest.envelope import Form
from app.domain.ingest.json_input import precompile
from app.errors import Conflict, FieldError, Invalid

KEY_MAX_CHARACTERS: Final = 255


def key_of(scope: Scope) -> str | None:
    """Return the Idempotency-Key of a request, or None.

    Raises:
        Invalid: The key is empty or too long.
    """
    key = header(scope, b"idempotency-key")
    if key is not None and not 0 < len(key) <= KEY_MAX_CHARACTERS:
        message = "has the wrong length"
        raise Invalid(errors=[FieldError("Idempotency-Key", message, len(key), KEY_MAX_CHARACTERS)])
    return key


@precompile
class Outcome(msgspec.Struct, frozen=True):
    """Record stored under a key: enough to repeat the response, without content."""

    body: str
    base: str
    memories: int
    request_id: str

    @staticmethod
    def for_request(body: bytes, form: Form, base: bytes, memories: int, request_id: str) -> Outcome:
        """Build the record of a request."""
        return Outcome(_digest(form.encode() + body), base.hex(), memories, request_id)

    def under(self, key: str) -> tuple[str, str]:
        """Return the digest of the key and this record, as stored with the stream entry."""
        return _digest(key.encode()), msgspec.json.encode(self).decode()

    def settled(self, accepted: AppendResult) -> Outcome:
        """Return the record of the original request if this one is a repetition; otherwise this record.

        Raises:
            Conflict: The original request had a different body.
        """
        if accepted.earlier is None:
            return self
        earlier = msgspec.json.decode(accepted.earlier, type=Outcome)
        if earlier.body != self.body:
            raise Conflict("this Idempotency-Key was already used with a different body")
        return earlier


def _digest(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=16).hexdigest()
