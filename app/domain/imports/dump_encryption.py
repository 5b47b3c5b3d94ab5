"""Encrypt dumps in chunks with a key from a file, so that a chunk can't be changed, moved or left out unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Final

from app.domain.tiers import encryption
from app.domain.tiers.cold_segment import DamagedSegment

MAGIC: Final = b"EBBING-DUMP-ENC1"
CHUNK_BYTES: Final = 1 << 20
KEY_FILE_MIN_BYTES: Final = 32
_LENGTH_BYTES: Final = 4
_SEALED_MAX_BYTES: Final = CHUNK_BYTES * 2


class DumpUnreadable(ValueError):
    """An encrypted dump can't be decrypted; the message says why."""


def derive_key(secret: bytes) -> bytes:
    """Return the key for a key file's content.

    Raises:
        ValueError: The content is too short.
    """
    if len(secret.strip()) < KEY_FILE_MIN_BYTES:
        raise ValueError(f"a key file needs at least {KEY_FILE_MIN_BYTES} bytes, such as from `openssl rand -hex 32`")
    return blake2b(secret.strip(), digest_size=encryption.KEY_BYTES, person=b"ebbing dump").digest()


def encrypt(key: bytes, pieces: Iterable[bytes], make_nonce: Callable[[], bytes]) -> Iterator[bytes]:
    """Yield an encrypted file; its last chunk is marked, so that a shortened file is noticed.

    Args:
        key: From `derive_key`.
        pieces: The content.
        make_nonce: Returns `encryption.NONCE_BYTES` new random bytes.
    """
    yield MAGIC
    number, held = 0, bytearray()
    for piece in pieces:
        held += piece
        while len(held) > CHUNK_BYTES:
            yield _seal(key, make_nonce(), bytes(held[:CHUNK_BYTES]), number, is_last=False)
            del held[:CHUNK_BYTES]
            number += 1
    yield _seal(key, make_nonce(), bytes(held), number, is_last=True)


def _seal(key: bytes, nonce: bytes, chunk: bytes, number: int, *, is_last: bool) -> bytes:
    sealed = encryption.seal(key, nonce, chunk, _bound(number, is_last=is_last))
    return len(sealed).to_bytes(_LENGTH_BYTES, "big") + sealed


def _bound(number: int, *, is_last: bool) -> bytes:
    return MAGIC + number.to_bytes(8, "big") + bytes([is_last])


def decrypt(key: bytes, read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the content of an encrypted file.

    Args:
        key: From `derive_key`.
        read: Returns up to this number of bytes of the file after `MAGIC`; fewer only at its end.

    Raises:
        DumpUnreadable: The key is wrong, or the file was changed or shortened.
    """
    number = 0
    length = read(_LENGTH_BYTES)
    while length:
        sealed = read(min(int.from_bytes(length, "big"), _SEALED_MAX_BYTES))
        length = read(_LENGTH_BYTES)
        try:
            yield encryption.unseal(key, sealed, _bound(number, is_last=not length))
        except DamagedSegment:
            raise DumpUnreadable("the key is wrong, or the file was changed or shortened") from None
        number += 1
    if not number:
        raise DumpUnreadable("the file has no content")
