"""Consolidation: group new memories among themselves and with old ones, without merging."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np
import psycopg

from app.domain.consolidation.parameters import Consolidation
from app.domain.ingest.ids import first_uuid
from app.services.consolidation import candidates
from app.services.consolidation.candidates import CandidateSlice
from app.services.tenants import tenants
from app.store.consolidation.merge_candidates import CandidateMarks
from app.store.core import database
from app.store.core.binary_arrays import Halfvecs, Uuids, decode_vectors
from app.store.embedding import embedding_spaces
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.floors import statements
from ops.bench.place import ROOT, Place

NEW = 1_000
OLD = (0, 1_000, 10_000, 100_000)
DIMENSIONS = 256
"""Dimensions of the bundled embedder."""
FLOOR: Final = "vectors read once + one product"
NOTE = f"{DIMENSIONS} dimensions; half of the memories in groups of about ten, the others without close neighbours"
_AS_OF: Final = datetime(2026, 7, 1, tzinfo=UTC)
_GROUP_SIZE: Final = 10
_THREAD_SIZE: Final = 20
_LOT: Final = 5_000
_SQL = statements("consolidation")


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure the seconds of a slice by the number of old memories, and the peak memory of a process that runs it."""
    place.empty()
    each: dict[int, list[float]] = {}
    new = plan.size(NEW, 100)
    for whole in OLD[:3] if plan.quick else OLD:
        old = plan.size(whole, whole // 10)
        tenant_id, marks = _filled(place, old, new)
        work = f"groups of {new:,} new memories" + (f" with {old:,} old" if old else "")
        seconds = 2.5 if whole == OLD[-1] else 1 if not whole else None
        with psycopg.connect(place.owner_url, autocommit=True) as connection:
            ours, floor = partial(_timed, tenant_id, marks), partial(_floor, connection, tenant_id, new)
            found, _ = _slice(tenant_id, marks), floor()
            took, bare = plan.rounds(ours, floor)
        if found.new != new or not found.groups:
            raise RuntimeError(f"{found.new} memories were compared, {len(found.groups)} groups found")
        each[old] = took
        yield Figure(work, "s", took, FLOOR, bare, Goal(most=seconds) if seconds else NO_GOAL, note=NOTE)
        least = _peak(tenant_id, None)
        peaks = [_peak(tenant_id, marks) for _ in range(min(plan.repeats, 3))]
        goal = Goal(most=500) if whole == OLD[-1] else NO_GOAL
        yield Figure(f"{work}: peak memory", "MiB", peaks, "process without the slice", [least] * len(peaks), goal)
    *_, smaller, last = each
    yield Figure(f"groups, growth: with {last:,} old", "s", each[last], f"with {smaller:,} old", each[smaller])
    place.empty()


def _filled(place: Place, old: int, new: int) -> tuple[UUID, CandidateMarks]:
    """Create a tenant with `old` and `new` memories, one id per minute, and return it with marks after the old ones."""
    tenant, _ = tenants.create(f"consolidation {old}")
    with database.shared() as tx:
        space = embedding_spaces.ensure_space(tx, "bench", DIMENSIONS, "local").space_id
        embedding_spaces.assign_space(tx, tenant.tenant_id, space)
    count = old + new
    rng = np.random.default_rng(count)
    middles = rng.normal(size=(max(count // _GROUP_SIZE, 1), DIMENSIONS)).astype(np.float32)
    newest = _AS_OF - timedelta(days=8)
    ids = [first_uuid(int((newest - timedelta(minutes=count - n)).timestamp() * 1000)) for n in range(count)]
    for start in range(0, count, _LOT):
        lot = ids[start : start + _LOT]
        noise = rng.normal(size=(len(lot), DIMENSIONS)).astype(np.float32)
        noise *= rng.choice(np.array([0.4, 2], np.float32), size=(len(lot), 1))
        made = middles[rng.integers(0, len(middles), len(lot))] + noise
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        values = {"tenant": tenant.tenant_id, "ids": Uuids(lot), "space": space, "start": start}
        place.owner.execute(_MEMORIES, values | {"thread": _THREAD_SIZE, "at": newest, "count": count})
        place.owner.execute(_VECTORS, values | {"vectors": Halfvecs(made)})
    place.owner.execute("VACUUM ANALYZE memories, memory_state, embeddings")
    after = ids[old - 1] if old else UUID(int=0)
    return tenant.tenant_id, CandidateMarks(after, ids[-1], _AS_OF)


_MEMORIES: Final = """
WITH
  given AS (
    SELECT memory_id, n, %(at)s - (%(count)s - %(start)s - n) * interval '1 minute' AS at
    FROM unnest(%(ids)s) WITH ORDINALITY AS given (memory_id, n)
  ),
  states AS (
    INSERT INTO memory_state (tenant_id, memory_id, created_at, accessed_at, anchored_at)
    SELECT %(tenant)s, memory_id, at, at, at FROM given
  )
INSERT INTO memories (tenant_id, memory_id, seq, thread, text, entities, created_at)
SELECT %(tenant)s, memory_id, %(start)s + n, 'thread ' || (%(start)s + n) / %(thread)s, repeat('what was said ', 9),
  ARRAY['entity ' || n %% 97, 'entity ' || n %% 89], at
FROM given
"""
_VECTORS: Final = """
INSERT INTO embeddings (tenant_id, memory_id, space_id, text_version, embedding)
SELECT %(tenant)s, memory_id, %(space)s, 1, vector
FROM unnest(%(ids)s, CAST(%(vectors)s AS halfvec[])) AS given (memory_id, vector)
"""


def _slice(tenant_id: UUID, marks: CandidateMarks) -> CandidateSlice:
    return candidates.find_groups(tenant_id, _AS_OF, marks, Consolidation())


def _timed(tenant_id: UUID, marks: CandidateMarks) -> float:
    started = time.perf_counter()
    _slice(tenant_id, marks)
    return time.perf_counter() - started


def _floor(connection: psycopg.Connection, tenant_id: UUID, new: int) -> float:
    """Return the seconds for reading all vectors once and multiplying each page by `new` vectors."""
    with database.shared() as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    if there is None:
        raise RuntimeError("the tenant has no vectors")
    asked = np.ones((new, DIMENSIONS), np.float32)
    values = {"tenant": tenant_id, "space": there.searched.space_id, "after": UUID(int=0)}
    started = time.perf_counter()
    while True:
        page = connection.execute(_SQL["vectors"], values, binary=True).fetchone()
        if page is None or page[0] is None:
            return time.perf_counter() - started
        values["after"] = page[0]
        np.matmul(asked, decode_vectors(page[1]).T)


def _peak(tenant_id: UUID, marks: CandidateMarks | None) -> float:
    """Return the peak memory in MiB of a separate process; with None, of a process that runs no slice."""
    given = [] if marks is None else [str(marks.settled), str(marks.old)]
    command = [sys.executable, "-m", "ops.bench.consolidation", str(tenant_id), *given]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return float(done.stdout)


def _main(tenant_id: str, settled: str = "", old: str = "") -> None:
    if settled:
        _slice(UUID(tenant_id), CandidateMarks(UUID(settled), UUID(old), _AS_OF))
    # Not `ru_maxrss`, which includes the process before it executed this program.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    print(int(status["VmHWM"].split()[0]) / 1024)


if __name__ == "__main__":
    _main(*sys.argv[1:])
