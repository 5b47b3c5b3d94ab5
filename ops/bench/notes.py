"""Notes of promoted memories: a first run and a second one, against writing and reading the same files barely."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from uuid import UUID

import psycopg

from app.services.notes import note_run
from app.services.tenants import tenants
from app.settings import settings
from ops.bench import aged
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.place import Place

ROWS = 1_000
WRITERS = 8
_PROMOTE = """
UPDATE memory_state SET promoted_at = now(), promoted_for = 'uses', promoted_strength = 0.9 WHERE tenant_id = %s
"""
_LINK = """
INSERT INTO links (tenant_id, memory_id, other_id, kind, weight, source)
SELECT tenant_id, memory_id, lead(memory_id) OVER (ORDER BY memory_id), 'relates', 1, 'caller'
FROM memories WHERE tenant_id = %(tenant)s ORDER BY memory_id LIMIT %(limit)s
"""


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure both runs over memories that are linked in a chain, half of them."""
    place.empty()
    rows = plan.size(ROWS, ROWS // 10)
    tenant, _ = tenants.create("notes")
    tenant_id = tenant.tenant_id
    aged.fill(place, tenant_id, rows)
    with psycopg.connect(place.owner_url, autocommit=True) as owner:
        owner.execute(_PROMOTE, (tenant_id,))
        owner.execute(_LINK, {"tenant": tenant_id, "limit": rows // 2})
    folder = Path(tempfile.mkdtemp(prefix="ebbing-notes-"))
    os.environ["EBBING_NOTES_DIR"] = str(folder / "notes")
    settings.cache_clear()
    try:
        yield from _runs(plan, folder, tenant_id, rows)
    finally:
        del os.environ["EBBING_NOTES_DIR"]
        settings.cache_clear()
        shutil.rmtree(folder)
    place.empty()


def _runs(plan: Plan, folder: Path, tenant_id: UUID, rows: int) -> Iterator[Figure]:
    _run(tenant_id)
    files = {path.name: path.read_bytes() for path in sorted((folder / "notes" / str(tenant_id)).iterdir())}
    written, bare, one_by_one = plan.rounds(
        partial(_first, folder, tenant_id),
        partial(_bare, folder, files, WRITERS),
        partial(_bare, folder, files, 1),
    )
    size = sum(map(len, files.values()))
    note = f"{size / len(files):,.0f} bytes a note"
    work = f"{rows:,} notes, first run"
    yield Figure(work, "ms", written, f"write, fsync, rename by {WRITERS} threads", bare, Goal(most=2_000), note=note)
    yield Figure("the same files written by 1 thread", "ms", one_by_one, f"by {WRITERS} threads", bare)
    again, read = plan.rounds(partial(_timed, tenant_id), partial(_read, folder / "notes" / str(tenant_id)))
    yield Figure(f"{rows:,} notes, second run", "ms", again, "read the files", read, Goal(most=200))


def _first(folder: Path, tenant_id: UUID) -> float:
    """Return the milliseconds of a run into an empty folder."""
    shutil.rmtree(folder / "notes")
    return _timed(tenant_id)


def _timed(tenant_id: UUID) -> float:
    begin = time.perf_counter()
    _run(tenant_id)
    return (time.perf_counter() - begin) * 1000


def _run(tenant_id: UUID) -> None:
    step = note_run.run_slice(tenant_id, None, {}, time.monotonic() + 3600)
    if not step.finished:
        raise RuntimeError("the run didn't finish")


def _bare(folder: Path, files: dict[str, bytes], threads: int) -> float:
    """Return the milliseconds of writing, flushing and renaming these files by so many threads."""
    target = folder / "bare"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(partial(_write, target), files, files.values()))
    descriptor = os.open(target, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return (time.perf_counter() - begin) * 1000


def _write(folder: Path, name: str, content: bytes) -> None:
    temporary = folder / f"{name}.tmp"
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / name)


def _read(folder: Path) -> float:
    begin = time.perf_counter()
    for path in folder.iterdir():
        path.read_bytes()
    return (time.perf_counter() - begin) * 1000
