"""Seal records: compress them with zstd, encrypt them with AES-256-GCM, and bind each to its memory.

Callers provide keys and nonces. A key that wraps other keys needs a new random nonce for each of them; a record has a
key of its own, which encrypts nothing else. The libraries are imported lazily, so that the API starts without them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from uuid import UUID

from app.domain.tiers.cold_segment import RECORD_MAX_BYTES, DamagedSegment

if TYPE_CHECKING:
    import zstandard

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
LEVEL: Final = 3


def record_associated_data(tenant_id: UUID, memory_id: UUID, text_version: int) -> bytes:
    """Return the associated data of a record; a record of another memory or text version fails authentication."""
    return b"record" + tenant_id.bytes + memory_id.bytes + text_version.to_bytes(4, "big")


def seal(key: bytes, nonce: bytes, content: bytes, bound: bytes) -> bytes:
    """Compress and encrypt a record's content."""
    return encrypt(key, nonce, _compressor().compress(content), bound)


def unseal(key: bytes, sealed: bytes, bound: bytes) -> bytes:
    """Decrypt and decompress a record's content.

    Raises:
        DamagedSegment: The record was modified, belongs to another memory, or was sealed with another key.
    """
    import zstandard  # noqa: PLC0415 - see above

    packed = decrypt(key, sealed, bound)
    try:
        if not 0 <= zstandard.frame_content_size(packed) <= RECORD_MAX_BYTES:
            raise DamagedSegment("invalid size of its content")
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError:
        raise DamagedSegment("its content can't be decompressed") from None


def encrypt(key: bytes, nonce: bytes, plain: bytes, bound: bytes) -> bytes:
    """Encrypt with AES-256-GCM; return the nonce followed by the ciphertext and its tag."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    return nonce + AESGCM(key).encrypt(nonce, plain, bound)


def decrypt(key: bytes, sealed: bytes, bound: bytes) -> bytes:
    """Decrypt and authenticate bytes from `encrypt`.

    Raises:
        DamagedSegment: The bytes were modified, or were encrypted with other associated data or another key.
    """
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        raise DamagedSegment("wrong key or modified data") from None


@lru_cache(maxsize=1)
def _compressor() -> zstandard.ZstdCompressor:
    import zstandard  # noqa: PLC0415 - see above

    return zstandard.ZstdCompressor(level=LEVEL)
