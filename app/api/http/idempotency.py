"""Idempotent requests: a repeated Idempotency-Key has one effect and returns the original response."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from starlette.types import Scope

from app.api.http.request_body import header
from app.clients.redis.accept_arguments import Idempotency
from app.clients.redis.stream import AppendResult
from app.domain.ingest.envelope import Form
from app.domain.ingest.json_input import precompile
from app.errors import Conflict, FieldError, Invalid
from app.services.security import encryption_keys

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
    """Record stored under a key: enough to repeat the response, without content.

    The record outlives an erasure by up to a day. So the digests of the body and of the Idempotency-Key are keyed,
    because a short text could be guessed, and the record has no request id that the caller chose, because that could
    contain a name.

    Attributes:
        body: Digest of form and body.
        base: Base of the memories' ids, in hexadecimal.
        memories: Number of memories.
        request_id: Id of the request; empty if the caller chose it.
    """

    body: str
    base: str
    memories: int
    request_id: str

    @staticmethod
    def for_request(body: bytes, form: Form, base: bytes, memories: int, request_id: str) -> Outcome:
        """Build the record of a request; see the attributes."""
        return Outcome(_digest(form.encode() + body, _digest_keys()[0]), base.hex(), memories, request_id)

    def under(self, key: str) -> Idempotency:
        """Return the digests of the Idempotency-Key with this record as JSON; they are stored with the stream entry.

        The key has a digest with each master key, because a process may have the other one as its current key.
        """
        keyed = [_digest(key.encode(), digest_key) for digest_key in _digest_keys() if digest_key]
        return Idempotency(_digest(key.encode()), keyed, msgspec.json.encode(self).decode())

    def settled(self, accepted: AppendResult, body: bytes, form: Form) -> Outcome:
        """Return the record of the original request if this one is a repetition; otherwise this record.

        Args:
            body: The body of this request. Its digest is also computed with other master keys and without a key,
                because the original record may be older than the current key or come from a previous version.

        Raises:
            Conflict: The original request had a different body.
        """
        if accepted.earlier is None:
            return self
        earlier = msgspec.json.decode(accepted.earlier, type=Outcome)
        if earlier.body != self.body and all(
            earlier.body != _digest(form.encode() + body, key) for key in (*_digest_keys()[1:], b"")
        ):
            raise Conflict("this Idempotency-Key was already used with a different body")
        return earlier


def _digest_keys() -> list[bytes]:
    return encryption_keys.digest_keys("idempotency")


def _digest(value: bytes, key: bytes = b"") -> str:
    return hashlib.blake2b(value, digest_size=16, key=key).hexdigest()
