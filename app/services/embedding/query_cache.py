"""Cache the vectors of recent queries in the process, so that repeated queries need no embedder call.

Entries are never shared between tenants: response times must not reveal another tenant's queries. The cache contains
keyed digests instead of the queries; the key is private to the process.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.clients.llm.resilience import Clock

Vector = NDArray[np.float32]

DIGEST_BYTES: Final = 32


class _Key(NamedTuple):
    tenant_id: UUID
    space_id: int
    digest: bytes


class QueryCache:
    """A thread-safe LRU cache of query vectors with a time limit.

    Args:
        entries: Maximum number of vectors; the least recently used is evicted. 0 disables the cache.
        seconds: Lifetime of a vector after it was computed.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, entries: int, seconds: float, clock: Clock = time.monotonic) -> None:
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._secret = secrets.token_bytes(DIGEST_BYTES)
        self._lock = Lock()
        self._held: OrderedDict[_Key, tuple[float, Vector]] = OrderedDict()
        self._underway: dict[_Key, Future[Vector]] = {}

    def vector(self, tenant_id: UUID, space_id: int, query: str, make: Callable[[], Vector]) -> Vector:
        """Return the query's vector in a space, from the cache or computed by `make`; the array is read-only.

        Concurrent calls for the same query share one computation and its result or exception; exceptions aren't cached.

        Raises:
            Exception: Any exception raised by `make`.
        """
        digest = hashlib.blake2b(query.encode(), key=self._secret, digest_size=DIGEST_BYTES).digest()
        key = _Key(tenant_id, space_id, digest)
        with self._lock:
            if (cached := self._lookup(key)) is not None:
                return cached
            underway = self._underway.get(key)
            result = self._underway[key] = underway or Future[Vector]()
        if underway is not None:
            return underway.result()
        try:
            computed = make()
            computed.flags.writeable = False
        except BaseException as error:
            with self._lock:
                del self._underway[key]
            result.set_exception(error)
            raise
        with self._lock:
            del self._underway[key]
            self._store(key, computed)
        result.set_result(computed)
        return computed

    def _lookup(self, key: _Key) -> Vector | None:
        until, vector = self._held.get(key, (0.0, None))
        if vector is None:
            return None
        if self._clock() >= until:
            del self._held[key]
            return None
        self._held.move_to_end(key)
        return vector

    def _store(self, key: _Key, vector: Vector) -> None:
        self._held[key] = (self._clock() + self._seconds, vector)
        while len(self._held) > self._entries:
            self._held.popitem(last=False)
