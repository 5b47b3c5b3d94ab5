"""Imports: JSON lines from the encrypted file into the tables, against raw COPY of memories of the same corpus."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from app import queues
from app.domain.imports.items import ImportOptions
from app.domain.jobs import Job
from app.services.ingest import import_job, import_requests
from app.services.privacy.import_files import PART_BYTES
from app.store.ingest.imports import Import
from ops.bench.corpus import Corpus
from ops.bench.drain import FLOOR
from ops.bench.figures import NO_GOAL, Figure, Goal, Plan
from ops.bench.lots import Lot
from ops.bench.place import Place, environment

ROWS: Final = 100_000
PER_ENTRY: Final = 100
REPEATED_SHARE: Final = 10
"""One in so many rows is imported a second time."""
MASTER_KEY: Final = "the master key of benchmarks, as long as it must be"


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure the first import of a file, another one of the same file, and the floor."""
    rows = plan.size(ROWS, 2_000)
    wanted = {"EBBING_MASTER_KEY": MASTER_KEY, "EBBING_COLD_URL": (place.home / "imports").as_uri()}
    with environment(os.environ | wanted):
        lot = Lot.make(place.tenant_id, rows, PER_ENTRY)
        lines = [
            msgspec.json.encode(memory | {"external_id": f"line-{number}"})
            for number, memory in enumerate(Corpus().memories(rows))
        ]
        repeated = lines[: rows // REPEATED_SHARE]
        first, again, raw = plan.rounds(
            partial(_first, place, lines),
            partial(_again, place, repeated),
            partial(_by_copy, place, lot),
        )
    yield Figure("import of JSON lines", "rows/s", first, FLOOR, raw, Goal(least=20_000))
    yield Figure("import of the same file again", "rows/s", again, FLOOR, raw, NO_GOAL)


def _upload(place: Place, content: bytes) -> Import:
    file = import_requests.begin_upload(place.tenant_id, "jsonl", ImportOptions())
    for start in range(0, len(content), PART_BYTES):
        file.write(content[start : start + PART_BYTES])
    return import_requests.finish_upload(file, "jsonl", "bench", dry_run=False)


def _first(place: Place, lines: list[bytes]) -> float:
    """Return the rows per second of an import into empty tables."""
    place.empty()
    return _import(place, lines, "stored")


def _again(place: Place, lines: list[bytes]) -> float:
    """Return the rows per second of an import whose memories are all stored."""
    _first(place, lines)
    return _import(place, lines, "unchanged")


def _import(place: Place, lines: list[bytes], outcome: str) -> float:
    """Return the rows per second of the job, from its first step to its last."""
    rows = len(lines)
    place.hold_back(queues.INDEX, queues.EMBED_MEMORIES, queues.JOB)
    started = _upload(place, b"\n".join(lines))
    job = Job(started.job_id, place.tenant_id, import_requests.KIND, {"import_id": str(started.import_id)}, {}, None, 0)
    began = time.perf_counter()
    while not import_job.run_job_slice(job).finished:
        pass
    seconds = time.perf_counter() - began
    made = import_requests.get(place.tenant_id, started.import_id)
    if made.counts != {outcome: rows}:
        raise RuntimeError(f"the import ended with {made.counts}, {rows} {outcome} were expected")
    return rows / seconds


def _by_copy(place: Place, lot: Lot) -> float:
    """Return the rows per second of the floor: ready bytes, into the same two tables, over one connection."""
    place.empty()
    return lot.rows / lot.copy(place.owner_url)
