"""Latency of others while thousands of connections are held open without a complete request."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Final

from ops.bench.corpus import Corpus
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.ingest import burst, posts
from ops.bench.place import Place, Running

HELD: Final = 5_000
CLIENTS: Final = 4
SENT: Final = {
    "silent": b"",
    "half a header": b"POST /v1/memories HTTP/1.1\r\nhost: localhost\r\nx-slow: ",
    "half a body": b'POST /v1/memories HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"text":',
}
"""Bytes that a held connection sends, by kind."""
PATIENT: Final = {
    "EBBING_REQUEST_HEADERS_TIMEOUT_SECONDS": "600",
    "EBBING_REQUEST_BODY_TIMEOUT_SECONDS": "600",
}
"""Timeouts that no held connection reaches: the service normally closes them after seconds."""


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure the p95 of single memories, alone and beside held connections of each kind, in turn."""
    held = HELD // 10 if plan.quick else HELD
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with place.api(**PATIENT) as api:
            requests = posts(place.key, Corpus().bodies(16, 1))
            alone = partial(burst, place, api, requests, CLIENTS, plan.seconds)
            alone()  # a process is slow in its first second
            for kind in SENT:
                quiet, beside = [], []
                for _ in range(plan.repeats):
                    quiet.append(alone().percentile_ms(0.95))
                    with _held(api, kind, held):
                        beside.append(alone().percentile_ms(0.95))
                yield Figure(
                    f"ingest, 1 per request, {CLIENTS} connections, beside {held:,} connections ({kind}): p95",
                    "ms",
                    beside,
                    "without them",
                    quiet,
                    Goal(ratio_most=2),
                )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def _held(api: Running, kind: str, count: int) -> Iterator[None]:
    with ExitStack() as opened:
        for _ in range(count):
            connection = opened.enter_context(closing(socket.create_connection((api.host, api.port), timeout=10)))
            connection.sendall(SENT[kind])
        yield
