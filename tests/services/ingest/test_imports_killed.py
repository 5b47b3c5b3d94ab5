"""An import and a load whose worker is killed by SIGKILL, again and again, store everything once.

The worker is a separate process. Each kill hits another failpoint; the next worker continues at the stored position.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from app.store.ingest.imports import Import
from tests.domain.imports.reading import lines
from tests.services.ingest.import_store import Importer, importer
from tests.services.ingest.test_dumps import dumped, fill, strengths, table
from tests.waiting import PATIENCE_SECONDS

__all__ = ["importer"]

ROOT = Path(__file__).resolve().parents[3]
RECORDS = 400
SLICES = 50
# A process with everything loaded and nothing open; it runs a slice of a job in a child process.
WORKERS = """
import json
import os
import sys
import obstore, zstandard
from uuid import UUID
from cryptography.hazmat.primitives.ciphers import aead
from app.services.ingest import import_job
from app.services.jobs import runner

import_job.BATCH = 50
import_job.STEP_SECONDS = 0.0  # a job fails if three workers die at one step
for line in sys.stdin:
    order = json.loads(line)
    if not (child := os.fork()):
        os.environ.update(order["environment"])
        os.dup2(2, 1)  # logs
        runner.run_slice(UUID(order["job"]))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def workers() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WORKERS]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        yield process
        process.stdin.close()
        process.wait(PATIENCE_SECONDS)


def work(importer: Importer, workers: subprocess.Popen[str], started: Import, failpoints: Sequence[str]) -> list[int]:
    """Run the job in workers that are killed at these failpoints in turn, then in one that isn't; return positions."""
    positions = []
    for failpoint in (*failpoints, ""):
        end = 0
        for _ in range(SLICES):  # a slice ends after some seconds
            end = work_slice(importer, workers, started, failpoint)
            if end or importer.get(started).status != "running":
                break
        assert end == (-SIGKILL if failpoint else 0), failpoint
        positions.append(importer.get(started).position)
    return positions


def work_slice(importer: Importer, workers: subprocess.Popen[str], started: Import, failpoint: str) -> int:
    """Run a slice of the job in a worker, and return its exit status."""
    importer.service.rows("UPDATE jobs SET claimed_until = now() WHERE job_id = %s", started.job_id)
    own = {name: value for name, value in os.environ.items() if name.startswith("EBBING_")}
    order = {"environment": {**own, "EBBING_FAILPOINTS": failpoint}, "job": str(started.job_id)}
    assert workers.stdin is not None
    assert workers.stdout is not None
    print(json.dumps(order), file=workers.stdin, flush=True)
    return int(workers.stdout.readline())


def stored(importer: Importer) -> dict[str, Any]:
    """Return how many rows the tenant has in the tables that an import writes."""
    tables = ("memories", "memory_state", "links")
    return {
        name: importer.service.one(f"SELECT count(*) FROM {name} WHERE tenant_id = %s", importer.tenant_id)  # noqa: S608
        for name in tables
    }


@pytest.mark.slow
@pytest.mark.kills
def test_an_import_killed_five_times_stores_each_record_once(
    importer: Importer, workers: subprocess.Popen[str]
) -> None:
    records = [{"text": f"heron {n}", "external_id": f"e{n}", "uses": 2, "strength": 0.5} for n in range(RECORDS)]
    records[120] |= {"links": [{"to": "e0"}]}
    started = importer.upload("jsonl", lines(*records) + b"{\n")
    kills = (
        "import.before_copy*2",
        "import.before_commit*2",
        "import.after_upsert",
        "import.after_batch*2",
        "import.before_commit",
    )
    positions = work(importer, workers, started, kills)
    assert positions == sorted(positions)
    assert len(set(positions)) > 3, "workers were killed in the middle of the file"
    made = importer.get(started)
    assert made.status == "done"
    assert made.position == RECORDS + 1
    assert made.skipped == [(RECORDS + 1, "the record isn't JSON")]
    assert sum(made.counts.get(name, 0) for name in ("stored", "unchanged")) == RECORDS
    assert stored(importer) == {"memories": RECORDS, "memory_state": RECORDS, "links": 1}
    uses = "SELECT DISTINCT access_count FROM memory_state WHERE tenant_id = %s"
    assert importer.service.rows(uses, importer.tenant_id) == [(2,)]
    counted = importer.service.one("SELECT sum(active) FROM tenant_counts WHERE tenant_id = %s", importer.tenant_id)
    assert counted == RECORDS
    assert importer.run("jsonl", lines(*records)).counts == {"unchanged": RECORDS}


@pytest.mark.slow
@pytest.mark.kills
def test_a_load_killed_four_times_loads_everything_once(importer: Importer, workers: subprocess.Popen[str]) -> None:
    first = importer.tenant_id
    ids = fill(importer, 200)
    importer.service.rows(
        "INSERT INTO reviews SELECT tenant_id, memory_id, now(), 7, now(), 1, false FROM memories WHERE tenant_id = %s",
        first,
    )
    content = dumped(first)
    importer.tenant_id = importer.service.tenant().tenant_id
    started = importer.upload("dump", content)
    kills = ("load.before_commit", "import.after_batch*2", "load.before_commit*2", "import.after_batch*3")
    positions = work(importer, workers, started, kills)
    assert positions == sorted(positions)
    assert len(set(positions)) > 2, "workers were killed in the middle of the file"
    made = importer.get(started)
    assert (made.status, made.counts) == ("done", {"stored": 200, "links": 201})
    for name in ("memories", "memory_events", "scores", "links", "reviews"):
        assert table(importer, importer.tenant_id, name) == table(importer, first, name), name
    at = made.requested_at.timestamp() + 86_400
    assert abs(strengths(first, ids, at) - strengths(importer.tenant_id, ids, at)).max() <= 1e-9
    versions = importer.service.one("SELECT count(*) FROM policies WHERE tenant_id = %s", importer.tenant_id)
    assert versions == 1, "the dump's policy is the tenant's own, and a repeated start adds no version"
