"""The same request sent again: one effect and the same answer, by the caller's Idempotency-Key."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from starlette.types import Scope

from app.api.http.body import header
from app.clients.redis.stream import Accepted
from app.domain.ingest.decoding import prepared
from app.domain.ingest.envelope import Form
from app.errors import Conflict, FieldError, Invalid

KEY_MAX_CHARACTERS: Final = 255


def key_of(scope: Scope) -> str | None:
    """The caller's key; None where there is none.

    Raises:
        Invalid: It is empty or too long.
    """
    key = header(scope, b"idempotency-key")
    if key is not None and not 0 < len(key) <= KEY_MAX_CHARACTERS:
        message = "has the wrong length"
        raise Invalid(errors=[FieldError("Idempotency-Key", message, len(key), KEY_MAX_CHARACTERS)])
    return key


@prepared
class Outcome(msgspec.Struct, frozen=True):
    """What is remembered under a key: enough to give the same answer again, and no content."""

    body: str
    base: str
    memories: int
    request_id: str

    @staticmethod
    def of(body: bytes, form: Form, base: bytes, memories: int, request_id: str) -> Outcome:
        """The outcome of a request with this body."""
        return Outcome(_digest(form.encode() + body), base.hex(), memories, request_id)

    def under(self, key: str) -> tuple[str, str]:
        """What the door remembers: a digest of the key, and this."""
        return _digest(key.encode()), msgspec.json.encode(self).decode()

    def settled(self, accepted: Accepted) -> Outcome:
        """The outcome that counts: an earlier request's, where this one repeats it.

        Raises:
            Conflict: The earlier one had another body.
        """
        if accepted.earlier is None:
            return self
        earlier = msgspec.json.decode(accepted.earlier, type=Outcome)
        if earlier.body != self.body:
            raise Conflict("this Idempotency-Key was used for another body within the last day")
        return earlier


def _digest(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=16).hexdigest()
