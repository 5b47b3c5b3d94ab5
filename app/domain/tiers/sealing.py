"""How records are sealed: compressed by zstd, encrypted by AES-256-GCM with a key of their own, bound to their memory.

Keys and nonces come from outside. A key that wraps others takes a new random nonce each time; a record's key is used
once. The libraries are loaded when they are first needed: the API starts without them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.tiers.segment import RECORD_MAX_BYTES, Damaged

if TYPE_CHECKING:
    import zstandard

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
LEVEL: Final = 3


def bound_to(tenant_id: UUID, memory_id: UUID, text_version: int) -> bytes:
    """What a record belongs to, authenticated with it: another's, or an older one, doesn't open."""
    return b"record" + tenant_id.bytes + memory_id.bytes + text_version.to_bytes(4, "big")


def seal(key: bytes, nonce: bytes, content: bytes, bound: bytes) -> bytes:
    """A record of some content."""
    return encrypt(key, nonce, _compressor().compress(content), bound)


def unseal(key: bytes, sealed: bytes, bound: bytes) -> bytes:
    """The content of a record.

    Raises:
        Damaged: It was changed, belongs to something else, or this isn't its key.
    """
    import zstandard  # noqa: PLC0415 - see above

    packed = decrypt(key, sealed, bound)
    try:
        if not 0 <= zstandard.frame_content_size(packed) <= RECORD_MAX_BYTES:
            raise Damaged("size of its content")
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError:
        raise Damaged("compression") from None


def encrypt(key: bytes, nonce: bytes, plain: bytes, bound: bytes) -> bytes:
    """Bytes that only this key opens: the nonce, and what is encrypted with its tag."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    return nonce + AESGCM(key).encrypt(nonce, plain, bound)


def decrypt(key: bytes, sealed: bytes, bound: bytes) -> bytes:
    """What was encrypted.

    Raises:
        Damaged: It was changed, belongs to something else, or this isn't its key.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        raise Damaged("key or authentication") from None


@lru_cache(maxsize=1)
def _compressor() -> zstandard.ZstdCompressor:
    import zstandard  # noqa: PLC0415 - see above

    return zstandard.ZstdCompressor(level=LEVEL)
