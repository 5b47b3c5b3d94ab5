"""A neighbour's flood: how long one tenant's single memories take to become searchable while another sends 100,000."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import multiprocessing.synchronize
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from app.clients.redis import stream
from app.services.tenants import tenants
from app.settings import Settings
from app.store.enrichment import work_queue
from ops.bench.corpus import Corpus
from ops.bench.drain import until
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.place import Place, Running

MEMORIES = 1000  # per request of the flood
REQUESTS = 100
CONNECTIONS = 4  # of the flooding tenant
QUIET_SAMPLES = 60
REST_SECONDS = 0.05
POLL_SECONDS = 0.003
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


@dataclass(frozen=True)
class Neighbour:
    """The tenant that sends single memories."""

    tenant_id: UUID
    key: str
    bodies: Sequence[bytes]


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure a neighbour's latency from POST to searchable: quiet, during a flood, until the flood is searchable."""
    tenant, key = tenants.create("neighbour")
    neighbour = Neighbour(tenant.tenant_id, key, Corpus(seed=11).bodies(5000, 1))
    limit = Settings.model_fields["tenant_backlog_memories"].default
    with (
        place.workers("ingest", "embed", "score"),
        place.beat(),
        place.api(EBBING_TENANT_BACKLOG_MEMORIES=str(limit)) as api,
    ):
        bodies = Corpus().bodies(plan.size(REQUESTS, 5), MEMORIES)
        _sample(place, api, neighbour, lambda count: count < 5)  # a process is slow in its first second
        rounds = [_round(place, plan, api, neighbour, bodies) for _ in range(plan.repeats)]
    place.empty()
    yield from _figures(rounds)


def _round(place: Place, plan: Plan, api: Running, neighbour: Neighbour, bodies: Sequence[bytes]) -> Round:
    place.empty()
    measured = Round()
    wanted = plan.size(QUIET_SAMPLES, 10)
    measured.quiet = _sample(place, api, neighbour, lambda count: count < wanted)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    ended = context.Event()
    process = context.Process(target=_flood, args=(theirs, ended, api.host, api.port, place.key, bodies))
    started = time.perf_counter()
    process.start()
    theirs.close()
    try:
        measured.flooded = _sample(place, api, neighbour, lambda _: not ended.is_set() and process.is_alive())
        measured.answers, measured.retry_after, measured.flood_seconds = ours.recv()
    except EOFError:
        raise ConnectionError("the flood was aborted: see the lines above") from None
    finally:
        process.join(timeout=10)
        ours.close()
    measured.draining = _sample(place, api, neighbour, lambda _: _is_pending(place))
    measured.settled_seconds = time.perf_counter() - started
    return measured


def _is_pending(place: Place) -> bool:
    """Return True if memories of the flood are not searchable yet."""
    rows = place.owner.execute(
        "SELECT FROM tenant_work WHERE tenant_id = %s AND stage = ANY (%s) LIMIT 1",
        (place.tenant_id, list(work_queue.SEARCHED_BY)),
    )
    return bool(rows.rowcount or stream.backlog().entries(place.tenant_id))


def _sample(place: Place, api: Running, neighbour: Neighbour, goes_on: Callable[[int], bool]) -> list[float]:
    """Send single memories one after another, and return the milliseconds from POST until each was searchable."""
    headers = {"authorization": f"Bearer {neighbour.key}", "content-type": "application/json"}
    took: list[float] = []
    connection = http.client.HTTPConnection(api.host, api.port, timeout=ANSWER_SECONDS)
    try:
        while goes_on(len(took)):
            started = time.perf_counter()
            connection.request("POST", "/v1/memories", neighbour.bodies[len(took) % len(neighbour.bodies)], headers)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 202:
                raise RuntimeError(f"answered {answer.status}, should be 202")
            memory_id = UUID(json.loads(body)["ids"][0])
            until(partial(_is_searchable, place, neighbour.tenant_id, memory_id), pause_seconds=POLL_SECONDS)
            took.append((time.perf_counter() - started) * 1000)
            time.sleep(REST_SECONDS)
    finally:
        connection.close()
    return took


def _is_searchable(place: Place, tenant_id: UUID, memory_id: UUID) -> bool:
    """Return True if a memory that was sent alone is stored, and no stage that search needs has work of its tenant."""
    [[searchable]] = place.owner.execute(
        "SELECT EXISTS (SELECT FROM envelopes WHERE tenant_id = %s AND base = %s) "
        "AND NOT EXISTS (SELECT FROM tenant_work WHERE tenant_id = %s AND stage = ANY (%s))",
        (tenant_id, memory_id, tenant_id, list(work_queue.SEARCHED_BY)),
    ).fetchall()
    return bool(searchable)


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

    started = time.perf_counter()
    threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    pipe.send((answers, retry_after, time.perf_counter() - started))  # type: ignore[attr-defined]  # the pipe's type is private


def _figures(rounds: Sequence[Round]) -> Iterator[Figure]:
    """Yield the percentiles over all rounds together, since a flood is accepted before a round has many samples."""
    quiet = sorted(took for each in rounds for took in each.quiet)
    floor = "quiet"
    for phase in ("quiet", "flooded", "draining"):
        samples = sorted(took for each in rounds for took in getattr(each, phase))
        if not samples:
            continue
        is_quiet = phase == "quiet"
        for name, share in (("p50", 0.5), ("p95", 0.95)):
            yield Figure(
                f"flood, neighbour's POST → searchable, {phase}: {name}",
                "ms",
                [_percentile(samples, share)],
                "" if is_quiet else floor,
                [] if is_quiet else [_percentile(quiet, share)],
                GOAL if name == "p95" and not is_quiet else NO_GOAL,
                note=f"{len(samples)} samples" if name == "p50" else "",
            )
    waits = sorted(seconds for each in rounds for seconds in each.retry_after)
    note = f"Retry-After {waits[0]} to {waits[-1]} s" if waits else "the flood stayed below the limit"
    yield Figure("flood, refused with 429", "requests", [each.answers[429] for each in rounds], note=note)
    yield Figure("flood, until all was accepted", "s", [each.flood_seconds for each in rounds])
    yield Figure("flood, until all was searchable", "s", [each.settled_seconds for each in rounds])


def _percentile(took: Sequence[float], share: float) -> float:
    return took[min(int(len(took) * share), len(took) - 1)]
