"""Recorded searches: their cost compared with the search, their size, and replays of all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID

from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest
from app.services.search import search, search_records, search_replays
from app.services.search.search_replays import ReplayOptions
from app.services.tenants import tenants
from ops.bench.corpus import Corpus
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.place import Place
from ops.bench.search import fill, percentile

MEMORIES, SEARCHES, AGAIN = 5_000, 1_000, 100
CHANGED = {"ranking": {"role": 0.3, "soft_words": 0.9, "strength": 0.2}}
FADING = {"forgetting": {"profile": "mnemex"}}


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Record searches of one tenant, then replay them under other weights and another model of forgetting."""
    place.empty()
    tenant, _ = tenants.create("replay", Policy(record_searches=True))
    tenant_id, size, count = tenant.tenant_id, plan.size(MEMORIES, 500), plan.size(SEARCHES, 20)
    fill(place, tenant_id, size)
    found, recorded = _record(tenant_id, Corpus(seed=13).queries(count))
    work = f"recorded searches, {size:,} memories"
    alone = [percentile(found, 0.5)]
    yield Figure(f"{work}: recording one after its response, p50", "ms", [percentile(recorded, 0.5)], "search", alone)
    [[stored]] = place.owner.execute(
        "SELECT avg(pg_column_size(known.*))::float8 FROM recorded_searches AS known"
    ).fetchall()
    yield Figure(f"{work}: size of a record", "bytes", [stored])
    _use(place)
    replays = f"{count:,} recorded searches under two policies"
    for name, changes in (("other weights", CHANGED), ("another model of forgetting", FADING)):
        took = [_replay(tenant_id, ReplayOptions(changes, None, count)) for _ in range(plan.repeats)]
        yield Figure(f"{replays}, {name}", "s", took, goal=Goal(most=10))
    again = min(AGAIN, count)
    took = [_replay(tenant_id, ReplayOptions(CHANGED, None, again, again=True)) for _ in range(2)]
    yield Figure(f"{again:,} recorded searches repeated under two policies", "s", took)
    yield Figure(f"weights fitted to {count:,} recorded searches", "s", [_fit(tenant_id) for _ in range(plan.repeats)])
    place.empty()


def _record(tenant_id: UUID, queries: Sequence[str]) -> tuple[list[float], list[float]]:
    """Search and record. Return the milliseconds of each."""
    found_ms, recorded_ms = [], []
    for query in queries:
        request, at = SearchRequest(query), datetime.now(UTC)
        started = time.perf_counter()
        found = search.find_memories(tenant_id, request)
        answered = time.perf_counter()
        if found.gathered is not None:
            search_records.record_search(tenant_id, request, found.gathered, found.results, at)
        found_ms.append((answered - started) * 1000)
        recorded_ms.append((time.perf_counter() - answered) * 1000)
    return found_ms, recorded_ms


def _use(place: Place) -> None:
    """Mark one result of each search as used: the best, the second and so on in turn."""
    place.owner.execute(
        "UPDATE recorded_searches AS known SET used = results[place:place] FROM ("
        "  SELECT search_id, 1 + row_number() OVER (ORDER BY search_id) % 5 AS place FROM recorded_searches"
        ") AS turn WHERE turn.search_id = known.search_id"
    )


def _replay(tenant_id: UUID, wish: ReplayOptions) -> float:
    """Return the seconds of a replay."""
    started = time.perf_counter()
    search_replays.replay_searches(tenant_id, wish)
    return time.perf_counter() - started


def _fit(tenant_id: UUID) -> float:
    """Return the seconds of a fit."""
    started = time.perf_counter()
    search_replays.fit_ranking(tenant_id, SEARCHES)
    return time.perf_counter() - started
