"""Moves of memories: archive, cold storage, restores from it, and a complete nightly run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from app.domain.consolidation.group_types import Group
from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.domain.tiers.protection import Protection
from app.services.consolidation import consolidation_run, merge_execution
from app.services.consolidation.merge_plan import RunTerms
from app.services.night import night_run
from app.services.tenants import tenants
from app.services.tiers import archive, cold_restore, cold_storage, expiry
from app.store.consolidation import consolidation_runs
from app.store.core import database
from ops.bench import aged
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.place import Place
from ops.bench.search import fill

MOVED = 5_000
RESTORED = 20
GROUP = 8
NIGHT_ROWS, DUE_SHARE = 100_000, 0.01
EXPIRED = 100_000
ARCHIVED_DAYS, COLD_DAYS = 27, 40
"""Ages in days at which decay moves memories of salience ½ to the archive and to cold storage."""
FASTEST = Goal(least=2_000)
FADING = Policy(protection=Protection(salience_above=1))
"""A policy without protection by salience, so that all of a benchmark's memories move."""


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure moves per second to the archive and to a local folder, the latency of restores, and a nightly run."""
    size, rounds = plan.size(MOVED, 500), plan.size(3, 1)
    archived, frozen, restored = [], [], list[float]()
    stored: list[tuple[int, int, int]] = []
    for number in range(rounds):
        place.empty()
        tenant, _ = tenants.create(f"lifecycle {number}", FADING)
        ids = fill(place, tenant.tenant_id, size)
        _age(place, tenant.tenant_id, ARCHIVED_DAYS)
        archived.append(_rate(place, tenant.tenant_id, "archived", partial(archive.run_slice, tenant.tenant_id, None)))
        _age(place, tenant.tenant_id, COLD_DAYS)
        frozen.append(_rate(place, tenant.tenant_id, "cold", partial(cold_storage.run_slice, tenant.tenant_id, None)))
        statement = "SELECT count(*), sum(bytes), sum(records) FROM segments WHERE status = 'written'"
        stored.append(place.owner.execute(statement).fetchall()[0])
        restored += [_restored(tenant.tenant_id, memory_id) for memory_id in ids[:: max(size // RESTORED, 1)]]
    yield Figure(f"archive, {size:,} memories", "/s", archived, goal=FASTEST)
    yield Figure(f"cold storage in a folder, {size:,} memories", "/s", frozen, goal=FASTEST)
    objects, sizes, records = (sum(map(float, column)) for column in zip(*stored, strict=True))
    yield Figure("cold storage: objects per 1,000 memories", "", [objects * 1_000 / records])
    yield Figure("cold storage: KB per 1,000 memories", "KB", [sizes / records])
    yield Figure("restore of one memory from cold storage", "ms", restored, goal=Goal(most=1_000))
    size = plan.size(1_000, 200)
    took = [_merged(place, size) for _ in range(rounds)]
    yield Figure(f"merging {size:,} memories in groups of {GROUP}, without a model", "s", took, goal=Goal(most=1))
    place.empty()
    yield _expiry(place, plan.size(EXPIRED, 1_000))
    place.empty()
    yield _night(place, plan)
    place.empty()


def _merged(place: Place, size: int) -> float:
    """Return the seconds for merging memories with known groups, including extractive summaries."""
    place.empty()
    tenant, _ = tenants.create(f"merging {uuid4()}", FADING)
    ids = fill(place, tenant.tenant_id, size)
    _age(place, tenant.tenant_id, ARCHIVED_DAYS)
    groups = [Group(sorted(ids[start : start + GROUP]), 0.9) for start in range(0, size, GROUP)]
    terms, run_id = RunTerms(datetime.now(UTC), "medium"), uuid4()
    with database.tenant(tenant.tenant_id) as tx:
        consolidation_runs.start_run(tx, tenant.tenant_id, run_id, "hand", terms.level, terms.as_of)
    started = time.perf_counter()
    merged = 0
    for made, _ in consolidation_run.write_groups(tenant.tenant_id, groups, terms):
        merged += merge_execution.write_merges(tenant.tenant_id, run_id, terms, made, None)["merged"]
    took = time.perf_counter() - started
    if merged < size / 2:
        raise RuntimeError(f"only {merged} of {size} were merged")
    return took


def _expiry(place: Place, size: int) -> Figure:
    """Measure the expiry of memories of one category, all due at once."""
    tenant, _ = tenants.create("expiry", FADING)
    fill(place, tenant.tenant_id, size)
    _age(place, tenant.tenant_id, COLD_DAYS)
    place.owner.execute("UPDATE memories SET categories = '{pii}' WHERE tenant_id = %s", (tenant.tenant_id,))
    state: dict[str, Any] = {}
    finished = False
    started = time.perf_counter()
    while not finished:
        step = expiry.run_job_slice(Job(uuid4(), tenant.tenant_id, expiry.KIND, {}, state, None, 0))
        state, finished = step.state, step.finished
    took = time.perf_counter() - started
    left = place.owner.execute("SELECT count(*) FROM memories WHERE tenant_id = %s", (tenant.tenant_id,)).fetchall()
    if left != [(0,)]:
        raise RuntimeError(left)
    return Figure(f"expiry of {size:,} due memories", "/s", [size / took], goal=Goal(least=1_000))


def _age(place: Place, tenant_id: UUID, days: int) -> None:
    """Set the age of all memories, never used, and make them due."""
    values = {"tenant": tenant_id, "days": days}
    place.owner.execute(
        "UPDATE memories SET created_at = now() - %(days)s * interval '1 day' WHERE tenant_id = %(tenant)s", values
    )
    place.owner.execute(
        "UPDATE memory_state SET created_at = moment, accessed_at = moment, anchored_at = moment, salience = 0.5, "
        "next_due_at = '-infinity' FROM (SELECT now() - %(days)s * interval '1 day' AS moment) AS past "
        "WHERE tenant_id = %(tenant)s",
        values,
    )
    place.owner.execute("VACUUM ANALYZE memories, memory_state")


def _rate(place: Place, tenant_id: UUID, tier: str, carry_on: Any) -> float:
    """Return the memories moved per second, including the preceding sweep."""
    state: dict[str, Any] = {}
    finished = False
    started = time.perf_counter()
    while not finished:
        step = carry_on(state, time.monotonic() + 60)
        state, finished = step.state, step.finished
    took = time.perf_counter() - started
    query = "SELECT count(*) FROM memory_state WHERE tenant_id = %s AND tier = %s"
    moved = place.owner.execute(query, (tenant_id, tier)).fetchall()[0][0]
    if not moved:
        raise RuntimeError(f"no memory moved to the tier {tier}")
    return float(moved / took)


def _restored(tenant_id: UUID, memory_id: UUID) -> float:
    started = time.perf_counter()
    if cold_restore.restore(tenant_id, [memory_id]).failed:
        raise RuntimeError("a memory was not restored")
    return (time.perf_counter() - started) * 1000


def _night(place: Place, plan: Plan) -> Figure:
    """Measure a nightly run over many memories of which few are due; none has words or vectors."""
    rows = plan.size(NIGHT_ROWS, 5_000)
    tenant, _ = tenants.create("night", FADING)
    aged.fill(place, tenant.tenant_id, rows, version=0)
    took = []
    for _ in range(plan.size(3, 1)):
        due = aged.ids(rows)[:: round(1 / DUE_SHARE)]
        place.owner.execute(
            "UPDATE memory_state SET next_due_at = '-infinity' WHERE tenant_id = %s AND memory_id = ANY (%s)",
            (tenant.tenant_id, due),
        )
        started = time.perf_counter()
        state: dict[str, Any] = {}
        finished = False
        while not finished:
            parameters = {"as_of": datetime.now(UTC).isoformat()}
            step = night_run.run_job_slice(Job(uuid4(), tenant.tenant_id, night_run.KIND, parameters, state, None, 0))
            state, finished = step.state, step.finished
            if step.failure:
                raise RuntimeError(step.failure)
        took.append(time.perf_counter() - started)
    return Figure(f"nightly run, {rows:,} memories of which {DUE_SHARE:.0%} are due", "s", took)
