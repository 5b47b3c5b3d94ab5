"""Ingest: real HTTP with a key, validation, and Redis with an append-only file flushed every second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ops.bench import load
from ops.bench.corpus import Corpus
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.load import Load
from ops.bench.place import Place, Running

CONNECTIONS = 16
SIZES = (1, 10, 100, 1000)
BODIES = 16  # distinct bodies, sent in turn
EMPTY_ROUTE = "empty route of the API"
BARE_ROUTE = "bare route, same body parsed"
GOALS = {1: NO_GOAL, 10: NO_GOAL, 100: Goal(ratio_least=0.6, least=200_000), 1000: NO_GOAL}


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure throughput by request size, the latency of one memory, and throughput while workers are busy."""
    with place.bare() as bare, place.api() as api:
        empty = [load.request("GET", "/healthz")]
        for memories in SIZES:
            yield from _throughput(place, plan, api, bare, empty, memories)
        yield from _latency(place, plan, api, empty)
        # Runs last: workers would drain the backlog of earlier bursts during the next measurement.
        with place.workers("ingest", "embed"):
            yield from _beside_workers(place, plan, api)


def posts(key: str, bodies: Sequence[bytes]) -> list[bytes]:
    """Return requests with these bodies."""
    headers = [("authorization", f"Bearer {key}"), ("content-type", "application/json")]
    return [load.request("POST", "/v1/memories", body, headers) for body in bodies]


def burst(
    place: Place, running: Running, requests: Sequence[bytes], connections: int, seconds: float, status: int = 202
) -> Load:
    """Send requests for `seconds`, then drop the backlog in Redis.

    Raises:
        RuntimeError: A response had another status, so the figure would be meaningless.
    """
    given = load.run(running.host, running.port, requests, connections, seconds)
    if set(given.statuses) != {status}:
        raise RuntimeError(f"answers by status were {given.statuses}, all should have been {status}")
    if status == 202:
        place.empty_stream()
    return given


def _throughput(
    place: Place, plan: Plan, api: Running, bare: Running, empty: list[bytes], memories: int
) -> Iterator[Figure]:
    requests = posts(place.key, Corpus().bodies(BODIES, memories))
    runs = [
        partial(burst, place, api, requests, CONNECTIONS, plan.seconds),
        partial(burst, place, bare, requests, CONNECTIONS, plan.seconds),
    ]
    if memories == 1:
        runs.append(partial(burst, place, api, empty, CONNECTIONS, plan.seconds, status=200))
    runs[0]()  # a process is slow in its first second
    ours, floors, *rest = plan.rounds(*runs)
    share = max(one.generator for one in ours)
    yield Figure(
        f"ingest, {memories:,} per request",
        "memories/s",
        [one.per_second * memories for one in ours],
        BARE_ROUTE,
        [one.per_second * memories for one in floors],
        GOALS[memories],
        share,
        note="16 connections, no worker running, backlog limits raised" if memories == 1 else "",
    )
    for routes in rest:
        yield Figure(
            "ingest, 1 per request: requests",
            "requests/s",
            [one.per_second for one in ours],
            EMPTY_ROUTE,
            [one.per_second for one in routes],
            Goal(ratio_least=0.5),
            share,
        )
        yield Figure(
            "ingest, 1 per request: p99",
            "ms",
            [one.percentile_ms(0.99) for one in ours],
            EMPTY_ROUTE,
            [one.percentile_ms(0.99) for one in routes],
            Goal(ratio_most=2),
            share,
        )


def _latency(place: Place, plan: Plan, api: Running, empty: list[bytes]) -> Iterator[Figure]:
    """Measure the latency of a single connection."""
    for memories in (1, 100):
        requests = posts(place.key, Corpus().bodies(BODIES, memories))
        ours, floors = plan.rounds(
            partial(burst, place, api, requests, 1, plan.seconds),
            partial(burst, place, api, empty, 1, plan.seconds, status=200),
        )
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            yield Figure(
                f"ingest, {memories} per request, 1 connection: {name}",
                "ms",
                [one.percentile_ms(share) for one in ours],
                EMPTY_ROUTE,
                [one.percentile_ms(share) for one in floors],
                generator=max(one.generator for one in ours),
            )


def _beside_workers(place: Place, plan: Plan, api: Running) -> Iterator[Figure]:
    """Measure throughput while workers store, index and embed the memories on the same cores."""
    for memories in (1, 100):
        requests = posts(place.key, Corpus().bodies(BODIES, memories))
        given = [
            load.run(api.host, api.port, requests, CONNECTIONS, plan.seconds * 2) for _ in range(min(plan.repeats, 3))
        ]
        yield Figure(
            f"ingest, {memories} per request, workers on",
            "memories/s",
            [one.per_second * memories for one in given],
            generator=max(one.generator for one in given),
            note="real workers store, index and embed at the same time, on the same cores" if memories == 1 else "",
        )
    place.empty_stream()
