"""Search against a plain alternative: the same memories and queries, several clients, all processes counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from uuid import UUID, uuid4

import msgspec

from app import queues
from app.domain.jobs import Job
from app.services.embedding import tenant_indexes
from app.services.tenants import tenants
from ops.bench import load
from ops.bench.corpus import Corpus
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.ingest import burst
from ops.bench.load import Load
from ops.bench.place import Place, Running, processor_seconds
from ops.bench.search import fill

CLIENTS = 4
MEMORIES = 10_000
FLOOR = "FastAPI, exact cosine"
DRAIN_SECONDS = 1.0
"""Interval at which the real schedule applies uses."""
RATE_GOAL, P95_GOAL, PROCESSOR_GOAL = Goal(ratio_least=0.6), Goal(most=60), Goal(most=14)
_TABLE = """
CREATE TABLE plain_memories AS
SELECT memory_id AS id, text, CAST(embedding AS vector) AS embedding
FROM memories JOIN embeddings USING (tenant_id, memory_id) WHERE tenant_id = %s
"""


@dataclass(frozen=True)
class Run:
    """A load, with the processor time of all processes that served it."""

    load: Load
    processor_seconds: float

    @property
    def processor_ms(self) -> float:
        """Return the processor time per search in milliseconds."""
        return 1000 * self.processor_seconds / self.load.requests


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure searches per second, the 95th percentile and processor time of both services, in turn."""
    place.empty()
    size = plan.size(MEMORIES, MEMORIES // 20)
    tenant, key = tenants.create("plain")
    fill(place, tenant.tenant_id, size)
    _index(tenant.tenant_id)
    place.owner.execute(_TABLE, [tenant.tenant_id])
    place.owner.execute("GRANT SELECT ON plain_memories TO PUBLIC")
    place.owner.execute("VACUUM ANALYZE plain_memories")
    try:
        with place.api() as api, place.plain() as plain, place.workers("ingest") as workers, _drains():
            requests = _requests(key, plan)
            served_by = [api.process.pid, *(process.pid for process in workers.values())]
            ours = partial(_run, place, plan, api, served_by, requests)
            theirs = partial(_run, place, plan, plain, [plain.process.pid], requests)
            for warm in (ours, theirs):
                warm()
            yield from _figures(f"search, {CLIENTS} clients, {size:,} memories", *plan.rounds(ours, theirs))
    finally:
        place.owner.execute("DROP TABLE plain_memories")
        place.empty()


def _figures(work: str, ours: Sequence[Run], theirs: Sequence[Run]) -> Iterator[Figure]:
    def both(value: Callable[[Run], float]) -> tuple[list[float], str, list[float]]:
        return [value(run) for run in ours], FLOOR, [value(run) for run in theirs]

    generator = max(run.load.generator for run in ours)
    yield Figure(work, "searches/s", *both(lambda run: run.load.per_second), RATE_GOAL, generator)
    yield Figure(f"{work}: p50", "ms", *both(lambda run: run.load.percentile_ms(0.5)))
    yield Figure(f"{work}: p95", "ms", *both(lambda run: run.load.percentile_ms(0.95)), P95_GOAL)
    note = "the API, PostgreSQL, Redis and the worker that applies the results' uses"
    yield Figure(f"{work}: processor time", "ms", *both(lambda run: run.processor_ms), PROCESSOR_GOAL, note=note)


def _requests(key: str, plan: Plan) -> list[bytes]:
    headers = [("authorization", f"Bearer {key}"), ("content-type", "application/json")]
    bodies = [msgspec.json.encode({"query": query}) for query in Corpus(seed=11).queries(plan.size(40, 5))]
    return [load.request("POST", "/v1/search", body, headers) for body in bodies]


def _run(place: Place, plan: Plan, served: Running, pids: Sequence[int], requests: Sequence[bytes]) -> Run:
    """Search for some seconds, and wait until the uses of the results are applied."""
    every = [*pids, place.postgres.pid, place.redis.pid]
    before = processor_seconds(every)
    given = burst(place, served, requests, CLIENTS, 5 * plan.seconds, status=200)
    time.sleep(2 * DRAIN_SECONDS)
    taken = sum(seconds - before.get(pid, 0.0) for pid, seconds in processor_seconds(every).items())
    return Run(given, taken)


def _index(tenant_id: UUID) -> None:
    """Create the indexes that a tenant of this size gets."""
    job = Job(uuid4(), tenant_id, tenant_indexes.KIND, {}, {}, None, 0)
    while not tenant_indexes.run_job_slice(job).finished:
        pass


@contextmanager
def _drains() -> Iterator[None]:
    """Have uses applied as often as the schedule does."""
    done = Event()

    def nudge() -> None:
        while not done.wait(DRAIN_SECONDS):
            queues.enqueue(queues.DRAIN)

    thread = Thread(target=nudge)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
