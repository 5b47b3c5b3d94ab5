"""Latency of others while thousands of connections are held by clients that don't use them, with default settings."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from functools import partial
from typing import Final

from ops.bench.corpus import Corpus
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.held_connections import KINDS, held
from ops.bench.ingest import burst, posts
from ops.bench.place import Place

HELD: Final = 5_000
CLIENTS: Final = 4


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure the p95 of single memories, alone and beside held connections of each kind, in turn.

    The API closes what is held too long; its clients connect again at once, so their number stays.
    """
    number = HELD // 10 if plan.quick else HELD
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        for name, kind in KINDS.items():
            with place.api() as api:
                requests = posts(place.key, Corpus().bodies(16, 1))
                alone = partial(burst, place, api, requests, CLIENTS, plan.seconds)
                alone()  # a process is slow in its first second
                quiet, beside = [], []
                for _ in range(plan.repeats):
                    quiet.append(alone().percentile_ms(0.95))
                    with held(api, kind, number):
                        beside.append(alone().percentile_ms(0.95))
                yield Figure(
                    f"ingest, 1 per request, {CLIENTS} connections, beside {number:,} connections ({name}): p95",
                    "ms",
                    beside,
                    "without them",
                    quiet,
                    Goal(ratio_most=2),
                )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
