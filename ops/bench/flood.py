"""A neighbour's flood: how long one tenant's single memories take to become searchable while another sends 100,000."""

from __future__ import annotations

import http.client
import multiprocessing
import multiprocessing.synchronize
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from app.clients.redis import stream
from app.services.tenants import tenants
from app.settings import Settings
from app.store.enrichment import work_queue
from ops.bench.corpus import Corpus
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.place import Place, Running

MEMORIES = 1000  # per request of the flood
REQUESTS = 100
CONNECTIONS = 4  # of the flooding tenant
QUIET_SAMPLES = 60
REST_SECONDS = 0.05
ANSWER_SECONDS = 60
GOAL = Goal(ratio_most=2)


@dataclass
class Round:
    """The neighbour's latencies in milliseconds by phase, and the answers to the flood."""

    quiet: list[float] = field(default_factory=list)
    flooded: list[float] = field(default_factory=list)
    draining: list[float] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    retry_after: list[int] = field(default_factory=list)
    flood_seconds: float = 0.0
    settled_seconds: float = 0.0


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure a neighbour's latency from POST to searchable: quiet, during a flood, until the flood is searchable."""
    _, key = tenants.create("neighbour")
    limit = Settings.model_fields["tenant_backlog_memories"].default
    with (
        place.workers("ingest", "embed", "score"),
        place.beat(),
        place.api(EBBING_TENANT_BACKLOG_MEMORIES=str(limit)) as api,
    ):
        bodies = Corpus().bodies(plan.size(REQUESTS, 5), MEMORIES)
        singles = Corpus(seed=11).bodies(5000, 1)
        _sample(api, key, singles, lambda count: count < 5)  # a process is slow in its first second
        rounds = [_round(place, plan, api, key, bodies, singles) for _ in range(plan.repeats)]
    place.empty()
    yield from _figures(rounds)


def _round(
    place: Place, plan: Plan, api: Running, key: str, bodies: Sequence[bytes], singles: Sequence[bytes]
) -> Round:
    place.empty()
    measured = Round()
    wanted = plan.size(QUIET_SAMPLES, 10)
    measured.quiet = _sample(api, key, singles, lambda count: count < wanted)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    ended = context.Event()
    process = context.Process(target=_flood, args=(theirs, ended, api.host, api.port, place.key, bodies))
    started = time.perf_counter()
    process.start()
    theirs.close()
    try:
        measured.flooded = _sample(api, key, singles, lambda _: not ended.is_set() and process.is_alive())
        measured.flood_seconds = time.perf_counter() - started
        measured.answers, measured.retry_after = ours.recv()
    except EOFError:
        raise ConnectionError("the flood was aborted: see the lines above") from None
    finally:
        process.join(timeout=10)
        ours.close()
    measured.draining = _sample(api, key, singles, lambda _: _is_pending(place))
    measured.settled_seconds = time.perf_counter() - started
    return measured


def _is_pending(place: Place) -> bool:
    """Return True if memories of the flood are not searchable yet."""
    rows = place.owner.execute(
        "SELECT FROM tenant_work WHERE tenant_id = %s AND stage = ANY (%s) LIMIT 1",
        (place.tenant_id, list(work_queue.SEARCHED_BY)),
    )
    return bool(rows.rowcount or stream.backlog().entries(place.tenant_id))


def _sample(api: Running, key: str, bodies: Sequence[bytes], goes_on: Callable[[int], bool]) -> list[float]:
    """Send single memories one after another, and return the milliseconds until each was searchable."""
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json", "prefer": f"wait={ANSWER_SECONDS}"}
    took: list[float] = []
    connection = http.client.HTTPConnection(api.host, api.port, timeout=2 * ANSWER_SECONDS)
    try:
        while goes_on(len(took)):
            started = time.perf_counter()
            connection.request("POST", "/v1/memories", bodies[len(took) % len(bodies)], headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"answered {answer.status}, should be 200: not searchable in {ANSWER_SECONDS} s")
            took.append((time.perf_counter() - started) * 1000)
            time.sleep(REST_SECONDS)
    finally:
        connection.close()
    return took


def _flood(
    pipe: object,
    ended: multiprocessing.synchronize.Event,
    host: str,
    port: int,
    key: str,
    bodies: Sequence[bytes],
) -> None:
    """Send every body until it is accepted, over several connections, and obey `Retry-After`."""
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    answers: Counter[int] = Counter()
    retry_after: list[int] = []
    left: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for body in bodies:
        left.put(body)

    def send() -> None:
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
        while True:
            try:
                body = left.get_nowait()
            except queue.Empty:
                return
            status = 0
            while status != 202:
                connection.request("POST", "/v1/memories", body, headers)
                answer = connection.getresponse()
                answer.read()
                status = answer.status
                answers[status] += 1
                if status not in {202, 429}:
                    raise RuntimeError(f"the flood was answered {status}")
                if status == 429:
                    retry_after.append(int(answer.headers["retry-after"]))
                    time.sleep(retry_after[-1])

    threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    pipe.send((answers, retry_after))  # type: ignore[attr-defined]  # the pipe's type is private


def _figures(rounds: Sequence[Round]) -> Iterator[Figure]:
    quiet = [_percentile(each.quiet, 0.95) for each in rounds]
    floor = "quiet, the same round"
    for name in ("quiet", "flooded", "draining"):
        samples = [getattr(each, name) for each in rounds]
        counts = ", ".join(str(len(took)) for took in samples)
        yield Figure(
            f"flood, neighbour's POST → searchable, {name}: p50",
            "ms",
            [_percentile(took, 0.5) for took in samples],
            note=f"samples by round: {counts}",
        )
        yield Figure(
            f"flood, neighbour's POST → searchable, {name}: p95",
            "ms",
            [_percentile(took, 0.95) for took in samples],
            "" if name == "quiet" else floor,
            () if name == "quiet" else quiet,
            NO_GOAL if name == "quiet" else GOAL,
        )
    refused = [each.answers[429] for each in rounds]
    waits = sorted(seconds for each in rounds for seconds in each.retry_after)
    note = f"Retry-After {waits[0]} to {waits[-1]} s" if waits else "the flood stayed below the limit"
    yield Figure("flood, refused with 429", "requests", refused, note=note)
    yield Figure("flood, until all was accepted", "s", [each.flood_seconds for each in rounds])
    yield Figure("flood, until all was searchable", "s", [each.settled_seconds for each in rounds])


def _percentile(took: Sequence[float], share: float) -> float:
    ordered = sorted(took)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0
