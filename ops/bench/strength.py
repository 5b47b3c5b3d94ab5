"""Live strength over many rows in SQL, and importance in NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import psycopg

from app.domain.dynamics.state import DAY_SECONDS, State, new
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.policy.policy import Policy
from app.domain.strength.importance import Importance, importance, relevance
from app.services.tenants import tenants
from app.store.strength import live_strength_sql
from ops.bench import aged
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.floors import statements
from ops.bench.place import Place

ROWS = 1_000_000
MEMORIES = 1_000
BATCHES = 50  # repetitions per round, since one takes microseconds
DIMENSIONS = 256
FLOOR = "scan with three exp()"
NOTE = "one process each: PostgreSQL can parallelise the scan, but not an expression with a subselect"
MODELS: dict[str, tuple[dict[str, Any], Goal]] = {
    "spec, quadratic": ({}, Goal(ratio_most=5)),
    "spec, linear": ({"parameters": {"law": "linear"}}, Goal(ratio_most=5)),
    "spec, product": ({"parameters": {"law": "product"}}, Goal(ratio_most=6)),
    "spec, subtractive": ({"parameters": {"forgetting": "subtractive"}}, Goal(ratio_most=5)),
    "mnemex": ({"profile": "mnemex"}, Goal(ratio_most=5)),
    "cmm": ({"profile": "cmm"}, Goal(ratio_most=5)),
    "memory_decay": ({"profile": "memory_decay"}, Goal(ratio_most=5)),
}
_SQL = statements("strength")


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure a scan for each model against a scan with three `exp()`, and importance in microseconds per memory."""
    yield from _live(place, plan)
    yield from _importance(plan)


def _live(place: Place, plan: Plan) -> Iterator[Figure]:
    place.empty()
    tenant, _ = tenants.create("strength")
    rows = plan.size(ROWS, 10_000)
    aged.fill(place, tenant.tenant_id, rows)
    now = time.time()
    models = {name: Timeline([_era(1, 0, given)]) for name, (given, _) in MODELS.items()}
    former = Timeline([_era(1, 0, {}), _era(2, now - DAY_SECONDS, {"parameters": {"law": "linear"}})])
    with psycopg.connect(place.owner_url, autocommit=True) as connection:
        connection.execute("SET jit = off")
        connection.execute("SET max_parallel_workers_per_gather = 0")
        scan = partial(_scan, connection, tenant.tenant_id)
        names = [*models, "every row of a former policy"]
        asked = [_summed(times, now) for times in (*models.values(), former)]
        floor, *found = plan.rounds(*(partial(scan, query) for query in (_SQL["three_exp"].encode(), *asked)))
    for name, took in zip(names, found, strict=True):
        goal = MODELS[name][1] if name in MODELS else NO_GOAL
        yield Figure(
            f"live strength in SQL, {rows:,} rows: {name}",
            "ms",
            took,
            FLOOR,
            floor,
            goal,
            note=NOTE if name == names[0] else "",
        )
    place.empty()


def _era(version: int, since: float, forgetting: dict[str, Any]) -> Era:
    return Era(version, since, Policy.model_validate({"forgetting": forgetting}))


def _summed(times: Timeline, now: float) -> bytes:
    relation = live_strength_sql.strength_relation(times, now)
    query = f"SELECT sum(strength) FROM {relation} AS state WHERE tenant_id = %(tenant)s"  # noqa: S608 - generated
    return query.encode()


def _scan(connection: psycopg.Connection, tenant_id: UUID, query: bytes) -> float:
    started = time.perf_counter()
    connection.execute(query, {"tenant": tenant_id}).fetchall()
    return (time.perf_counter() - started) * 1000


def _importance(plan: Plan) -> Iterator[Figure]:
    random = np.random.default_rng(7)
    weights, now = Importance(), 1_760_000_000.0
    state: State = new(now - random.random(MEMORIES) * 60 * DAY_SECONDS, salience=random.random(MEMORIES))
    ages = (now - state.created_at) / DAY_SECONDS
    vectors, context = random.standard_normal((MEMORIES, DIMENSIONS)), random.standard_normal(DIMENSIONS)

    def alone() -> None:
        importance(weights, state, now)

    def in_context() -> None:
        importance(weights, state, now, relevance(vectors, context))

    def bare() -> None:
        np.exp(ages * -0.05)
        np.log1p(state.access_count)

    def products() -> None:
        _ = vectors @ context

    runs = (alone, in_context, bare, products)
    found, near, floor, dots = plan.rounds(*(partial(_microseconds, run) for run in runs))
    work = f"importance, NumPy, batches of {MEMORIES:,}"
    yield Figure(work, "µs/memory", found, "one exp and one log per memory", floor, Goal(most=1))
    yield Figure(f"{work}, with a context", "µs/memory", near, f"{DIMENSIONS} products per memory", dots, Goal(most=1))


def _microseconds(run: Callable[[], None]) -> float:
    """Return the microseconds per memory."""
    started = time.perf_counter()
    for _ in range(BATCHES):
        run()
    return (time.perf_counter() - started) * 1e6 / (BATCHES * MEMORIES)
