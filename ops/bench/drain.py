"""Drain: from the stream into the tables, in a real worker and by a direct call, against raw COPY of the same rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from uuid import UUID

from app import queues
from app.clients.redis import connection, stream
from app.clients.redis.accept_arguments import accept_keys
from app.domain.ingest.envelope import pack
from app.domain.ingest.ids import RANDOM_BYTES, generate_base
from app.services.ingest import drain
from ops.bench import load
from ops.bench.corpus import Corpus
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.ingest import posts
from ops.bench.lots import Lot
from ops.bench.place import Place, Running

PIPELINED = 2000
PATIENCE_SECONDS = 60
REST_SECONDS = 0.03
FLOOR = "raw COPY, packed beforehand"
ROWS = {1: 15_000, 10: 50_000, 100: 100_000, 1000: 100_000}
GOALS = {1: Goal(least=60_000), 10: NO_GOAL, 100: Goal(ratio_least=0.6), 1000: NO_GOAL}
GROWTH = 10


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure throughput by entry size, its growth with the load, and latencies from POST to stored and searchable."""
    with place.workers("ingest"):
        for memories, rows in ROWS.items():
            yield from _throughput(place, plan, memories, plan.size(rows, max(rows // 50, memories)))
        yield _growth(place, plan)
    place.empty()
    with place.workers("ingest", "embed"), place.api() as api:
        yield from _stored_latency(place, plan, api)
        yield from _searchable_latency(place, plan, api)
    place.empty()


def fill(tenant_id: UUID, bodies: Sequence[bytes], memories: int) -> None:
    """Add bodies to the tenant's stream with the script that ingest uses, many per round trip."""
    client = stream.client()
    accept = client.script_load(connection.script("accept"))
    names = accept_keys(tenant_id)
    endless = 2**40
    for start in range(0, len(bodies), PIPELINED):
        with client.pipeline(transaction=False) as pipe:
            for body in bodies[start : start + PIPELINED]:
                base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
                fields = pack(base, memories, "json", "", body)
                limits = [endless] * 5
                pipe.evalsha(
                    accept, len(names), *names, str(tenant_id), memories, len(body), *limits, "", 0, 600_000, *fields
                )
            pipe.execute()


def _throughput(place: Place, plan: Plan, memories: int, rows: int) -> Iterator[Figure]:
    lot = Lot.make(place.tenant_id, rows, memories)
    runs = (partial(_by_worker, place, lot), partial(_by_call, place, lot), partial(_by_copy, place, lot))
    runs[0]()  # opens connections and prepares statements
    worker, call, raw = plan.rounds(*runs)
    note = "index stage suppressed, so that only the drain runs" if memories == 1 else ""
    yield Figure(f"drain, {memories:,} per entry, in Celery", "rows/s", worker, FLOOR, raw, GOALS[memories], note=note)
    yield Figure(f"drain, {memories:,} per entry, direct call", "rows/s", call, FLOOR, raw)


def _growth(place: Place, plan: Plan) -> Figure:
    """Compare the cost per row with that of ten times as many rows."""
    rows = plan.size(20_000, 1_000)
    small, large = (Lot.make(place.tenant_id, size, 100) for size in (rows, rows * GROWTH))
    great, little = plan.rounds(partial(_by_worker, place, large), partial(_by_worker, place, small))
    return Figure(f"drain, growth: {rows * GROWTH:,} rows", "rows/s", great, f"{rows:,} rows", little)


def _by_worker(place: Place, lot: Lot) -> float:
    """Return the rows per second from the nudge until the stream is empty."""
    _prepare(place, lot)
    started = time.perf_counter()
    queues.enqueue(queues.DRAIN)
    until(lambda: stream.backlog().entries() == 0, pause_seconds=0.002)
    return _checked(place, lot, time.perf_counter() - started)


def _by_call(place: Place, lot: Lot) -> float:
    """Return the rows per second of the same work without Celery, in this process."""
    _prepare(place, lot)
    started = time.perf_counter()
    drain.drain_streams()
    return _checked(place, lot, time.perf_counter() - started)


def _by_copy(place: Place, lot: Lot) -> float:
    """Return the rows per second of the floor: ready bytes, into the same two tables, over one connection."""
    place.empty()
    return _checked(place, lot, lot.copy(place.owner_url))


def _prepare(place: Place, lot: Lot) -> None:
    place.empty()
    place.hold_back(queues.DRAIN, queues.INDEX, queues.EMBED_MEMORIES)
    fill(place.tenant_id, lot.bodies, lot.memories)


def _checked(place: Place, lot: Lot, seconds: float) -> float:
    [[stored]] = place.owner.execute("SELECT count(*) FROM memories").fetchall()
    if stored != lot.rows:
        raise RuntimeError(f"{stored} rows were stored, {lot.rows} were expected")
    return lot.rows / seconds


def until(condition: Callable[[], bool], pause_seconds: float) -> None:
    """Wait until the condition is true, polling at this interval.

    Raises:
        RuntimeError: The condition was still false after `PATIENCE_SECONDS`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not done after {PATIENCE_SECONDS} s; see the worker's log for the cause")
        time.sleep(pause_seconds)


def _stored_latency(place: Place, plan: Plan, api: Running) -> Iterator[Figure]:
    """Measure from the response 202 until another connection sees the row, one request at a time on an idle service."""
    seen = "SELECT count(*) FROM envelopes"

    def stored(wanted: int) -> bool:
        [[rows]] = place.owner.execute(seen).fetchall()
        return bool(rows >= wanted)

    rounds = []
    with load.Connection(api.host, api.port) as connection:
        for _ in range(plan.repeats):
            place.empty()
            took: list[float] = []
            for request in posts(place.key, Corpus().bodies(plan.size(40, 8), 1)):
                time.sleep(REST_SECONDS)  # let the effects of the previous request finish
                connection.ask(request, status=202)
                started = time.perf_counter()
                until(partial(stored, len(took) + 1), pause_seconds=0.0002)
                took.append((time.perf_counter() - started) * 1000)
            rounds.append(sorted(took))
    yield from _latencies("accepted → stored, at idle", rounds, Goal(most=5))


def _searchable_latency(place: Place, plan: Plan, api: Running) -> Iterator[Figure]:
    headers = [("authorization", f"Bearer {place.key}"), ("content-type", "application/json"), ("prefer", "wait=10")]
    rounds = []
    with load.Connection(api.host, api.port) as connection:
        for _ in range(plan.repeats):
            took = []
            for body in Corpus().bodies(plan.size(15, 4), 1):
                started = time.perf_counter()
                connection.ask(load.request("POST", "/v1/memories", body, headers), status=200)
                took.append((time.perf_counter() - started) * 1000)
            rounds.append(sorted(took))
    yield from _latencies("POST with Prefer: wait → searchable", rounds, NO_GOAL)


def _latencies(work: str, rounds: Sequence[Sequence[float]], goal: Goal) -> Iterator[Figure]:
    """Yield the median, and the 99th percentile over all rounds together, since one round has too few values for it."""
    yield Figure(f"{work}: p50", "ms", [took[len(took) // 2] for took in rounds], goal=goal)
    together = sorted(one for took in rounds for one in took)
    yield Figure(f"{work}: p99", "ms", [together[int(len(together) * 0.99)]])
