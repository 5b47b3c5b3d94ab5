"""Maintenance of strengths: due-only sweeps, rebases, touches, forecasts, and table bloat after thirty sweeps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

import psycopg

from app.domain.ingest.ids import RANDOM_BYTES, generate_base
from app.domain.ingest.uses import Touches, Use
from app.domain.policy.policy import Forgetting, Policy
from app.services.strength import rebase
from app.services.tenants import tenants
from app.services.tiers import forecast, sweep
from app.services.tiers.forecast import ForecastOptions
from app.services.uses import reinforcement
from app.services.uses.reinforcement import EnvelopeTouches
from app.store.core import database
from app.store.core.binary_arrays import Uuids
from app.store.enrichment.work_queue import NIL
from app.store.strength import states
from ops.bench import aged
from ops.bench.drain import until
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.floors import statements
from ops.bench.place import Place

SWEPT_ROWS = (10_000, 100_000, 1_000_000)
DUE_SHARE = 0.005
REBASED_ROWS = 25_000
FORECAST_ROWS, FORECAST_DAYS = 100_000, 90
TOUCHES, OBSERVED = 20_000, 1_000  # touches, and touches per request
BLOAT_ROWS, BLOAT_SWEEPS = 50_000, 30
LAWS = ("linear", "quadratic")
WHAT_IF = {"forgetting": {"parameters": {"law": "linear"}}}
BLOAT_NOTE = "one sweep per day without vacuum; before = after VACUUM FULL"
_SQL = statements("upkeep")


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure times and rates against plain UPDATEs and reads of the same rows, and sizes before and after a month."""
    place.empty()
    with psycopg.connect(place.owner_url, autocommit=True) as connection:
        connection.execute("SET jit = off")
        yield from _sweeps(place, plan, connection)
        place.empty()
        yield _rebase(place, plan, connection)
        place.empty()
        yield _touches(place, plan, connection)
    place.empty()
    yield from _forecasts(place, plan)
    place.empty()
    yield from _bloat(place, plan)
    place.empty()


def _sweeps(place: Place, plan: Plan, connection: psycopg.Connection) -> Iterator[Figure]:
    """Measure each size in a separate tenant, in the presence of all smaller tenants."""
    each: dict[int, list[float]] = {}
    for whole in SWEPT_ROWS:
        rows = plan.size(whole, whole // 100)
        due = max(round(rows * DUE_SHARE), 1)
        tenant_id = _tenant(place, f"sweep {whole}", rows)
        ids = aged.ids(rows)[:: round(1 / DUE_SHARE)][:due]
        by_sweep = partial(_after_due, place, tenant_id, ids, partial(_sweep, tenant_id))
        update = partial(connection.execute, _SQL["looks"], {"tenant": tenant_id, "ids": Uuids(ids)})
        by_update = partial(_after_due, place, tenant_id, ids, update)
        by_sweep()
        swept, updated = plan.rounds(by_sweep, by_update)
        each[whole] = [took * 1000 / due for took in swept]
        goal = Goal(most=300) if whole == SWEPT_ROWS[-1] else NO_GOAL
        work = f"due-only sweep, {rows:,} rows, {due:,} due"
        yield Figure(work, "ms", swept, "UPDATE of the due rows by key", updated, goal)
    first, *_, last = each
    work = f"sweep, growth: a due row among {plan.size(last, last // 100):,}"
    yield Figure(work, "µs", each[last], f"among {plan.size(first, first // 100):,}", each[first])


def _after_due(place: Place, tenant_id: UUID, ids: Sequence[UUID], run: Callable[[], object]) -> float:
    """Return the milliseconds of a run that starts with these rows due."""
    place.owner.execute(
        "UPDATE memory_state SET wanted_tier = 'active', next_due_at = now() - random() * interval '1 hour' "
        "WHERE tenant_id = %s AND memory_id = ANY (%s)",
        (tenant_id, Uuids(ids)),
    )
    return _milliseconds(run)


def _sweep(tenant_id: UUID, as_of: datetime | None = None) -> int:
    """Sweep until no memory is due. Return the number of processed memories."""
    return sum(iter(lambda: sweep.sweep(tenant_id, as_of)[0], 0))


def _rebase(place: Place, plan: Plan, connection: psycopg.Connection) -> Figure:
    rows = plan.size(REBASED_ROWS, 2_000)
    tenant_id = _tenant(place, "rebase", rows)
    ids, versions = aged.ids(rows), count(2)
    slices = [
        (ids[start - 1] if start else NIL, ids[start : start + rebase.ROWS][-1])
        for start in range(0, rows, rebase.ROWS)
    ]

    def by_rebase() -> float:
        version = next(versions)
        policy = Policy(forgetting=Forgetting(parameters={"law": LAWS[version % 2]}))
        values = (tenant_id, version, policy.model_dump_json())
        place.owner.execute("INSERT INTO policies (tenant_id, version, body) VALUES (%s, %s, %s)", values)
        place.owner.execute("VACUUM memory_state")
        took = _milliseconds(lambda: rebase.run_slice(tenant_id, None, {}, time.monotonic() + 600))
        query = "SELECT count(*) FROM memory_state WHERE tenant_id = %s AND policy_version <> %s"
        if place.owner.execute(query, (tenant_id, version)).fetchone() != (0,):
            raise RuntimeError("rows remain under a former policy")
        return took * 1000 / rows

    def by_update() -> float:
        place.owner.execute("VACUUM memory_state")
        return _milliseconds(update) * 1000 / rows

    def update() -> None:
        for after, last in slices:
            connection.execute(_SQL["anchors"], {"tenant": tenant_id, "after": after, "last": last})

    by_rebase()
    rebased, updated = plan.rounds(by_rebase, by_update)
    return Figure(
        "rebase, 1,000 memories", "ms", rebased, "UPDATE of the same columns", updated, Goal(ratio_most=2, most=100)
    )


def _touches(place: Place, plan: Plan, connection: psycopg.Connection) -> Figure:
    rows = plan.size(TOUCHES, 2_000)
    tenant_id = _tenant(place, "touches", rows)
    ids, sessions = aged.ids(rows), count(1)
    lots = [ids[start : start + OBSERVED] for start in range(0, rows, OBSERVED)]

    def by_service() -> float:
        now, session = time.time(), next(sessions)
        made = [EnvelopeTouches(_base(), now, Touches([Use(memory_id) for memory_id in lot], session)) for lot in lots]
        return _rate(
            rows, partial(_each, partial(reinforcement.reinforce_used, tenant_id), [[touched] for touched in made])
        )

    def by_update() -> float:
        packed = [{"tenant": tenant_id, "ids": Uuids(lot)} for lot in lots]
        return _rate(rows, partial(_each, partial(connection.execute, _SQL["uses"]), packed))

    by_service()
    applied, updated = plan.rounds(by_service, by_update)
    work = f"touches applied, {OBSERVED:,} per request"
    return Figure(work, "touches/s", applied, "UPDATE of the same rows", updated)


def _base() -> bytes:
    return generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))


def _forecasts(place: Place, plan: Plan) -> Iterator[Figure]:
    rows = plan.size(FORECAST_ROWS, 2_000)
    tenant_id = _tenant(place, "forecast", rows)

    def read() -> None:
        after = NIL
        while True:
            with database.tenant(tenant_id) as tx:
                held = states.list_page(tx, tenant_id, after, forecast.PAGE_ROWS)
            if len(held) < forecast.PAGE_ROWS:
                return
            after = held.ids[-1]

    one = partial(forecast.forecast_tiers, tenant_id, ForecastOptions(FORECAST_DAYS))
    two = partial(forecast.forecast_tiers, tenant_id, ForecastOptions(FORECAST_DAYS, WHAT_IF))
    two()
    plain, changed, floor = plan.rounds(*(partial(_milliseconds, run) for run in (one, two, read)))
    work = f"forecast of {FORECAST_DAYS} days, {rows:,} memories"
    yield Figure(work, "ms", plain, "one read of the rows", floor)
    yield Figure(f"{work}, compared with another policy", "ms", changed, "one read of the rows", floor)


def _bloat(place: Place, plan: Plan) -> Iterator[Figure]:
    """Simulate a month of daily sweeps, ending now."""
    rows = plan.size(BLOAT_ROWS, 1_000)
    tenant_id = _tenant(place, "bloat", rows)
    place.owner.execute(
        "UPDATE policies SET effective_at = now() - interval '1 year' WHERE tenant_id = %s", (tenant_id,)
    )
    place.owner.execute(
        "UPDATE memory_state SET next_due_at = '-infinity', created_at = created_at - %(days)s, "
        "accessed_at = accessed_at - %(days)s, anchored_at = anchored_at - %(days)s",
        {"days": timedelta(days=BLOAT_SWEEPS)},
    )
    now = datetime.now(UTC)
    _sweep(tenant_id, now - timedelta(days=BLOAT_SWEEPS))
    place.owner.execute("ALTER TABLE memory_state SET (autovacuum_enabled = false)")
    place.owner.execute("VACUUM FULL ANALYZE memory_state")
    before = _sizes(place)
    looked_at = sum(_sweep(tenant_id, now - timedelta(days=day)) for day in reversed(range(BLOAT_SWEEPS)))
    after = _sizes(place)
    place.owner.execute("ALTER TABLE memory_state RESET (autovacuum_enabled)")
    updated, hot, dead = (new - old for new, old in zip(after[2:], before[2:], strict=True))
    work = f"after {BLOAT_SWEEPS} sweeps, {rows:,} rows, {looked_at:,} processed"
    mib = 2**20
    yield Figure(f"{work}: table", "MiB", [after[0] / mib], "before", [before[0] / mib], note=BLOAT_NOTE)
    yield Figure(f"{work}: indexes", "MiB", [after[1] / mib], "before", [before[1] / mib])
    yield Figure(f"{work}: dead rows", "rows", [dead], "rows updated", [updated])
    yield Figure(f"{work}: new entries in every index (not HOT)", "rows", [updated - hot], "rows updated", [updated])


def _sizes(place: Place) -> tuple[float, ...]:
    """Return the bytes of the table and of its indexes, the rows updated, the HOT updates, and the dead rows."""
    database.close()
    # Statistics of a session become visible when it ends.
    left = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'ebbing %'"
    until(lambda: not place.owner.execute(left).rowcount, pause_seconds=0.01)
    [found] = place.owner.execute(
        "SELECT pg_table_size(relid), pg_indexes_size(relid), n_tup_upd, n_tup_hot_upd, n_dead_tup "
        "FROM pg_stat_user_tables WHERE relname = 'memory_state'"
    ).fetchall()
    return tuple(map(float, found))


def _tenant(place: Place, name: str, rows: int) -> UUID:
    """Create a tenant with `rows` rows."""
    tenant, _ = tenants.create(name)
    aged.fill(place, tenant.tenant_id, rows)
    return tenant.tenant_id


def _each(work: Callable[[Any], object], lots: Sequence[Any]) -> None:
    for lot in lots:
        work(lot)


def _milliseconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1000


def _rate(rows: int, run: Callable[[], object]) -> float:
    """Return the rows per second of a run."""
    return rows * 1000 / _milliseconds(run)
