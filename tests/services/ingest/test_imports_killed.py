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
BATCH = 50
BATCHES_MAX = 50
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


def work(importer: Importer, workers: subprocess.Popen[str], started: Import, plan: Sequence[str]) -> list[int]:
    """Run a batch for each entry of the plan, killed at that failpoint unless it is empty, then all others.

    Returns:
        The import's position after each batch of the plan.
    """
    positions = []
    for failpoint in plan:
        assert work_batch(importer, workers, started, failpoint) == (-SIGKILL if failpoint else 0), failpoint
        positions.append(importer.get(started).position)
    for _ in range(BATCHES_MAX):
        if importer.get(started).status != "running":
            break
        assert work_batch(importer, workers, started, "") == 0
    return positions


def work_batch(importer: Importer, workers: subprocess.Popen[str], started: Import, failpoint: str) -> int:
    """Run a slice of one batch in a worker, and return its exit status."""
    importer.service.rows("UPDATE jobs SET claimed_until = now() WHERE job_id = %s", started.job_id)
    own = {name: value for name, value in os.environ.items() if name.startswith("EBBING_")}
    own |= {"EBBING_FAILPOINTS": failpoint, "EBBING_SLICE_SECONDS": "0.001", "EBBING_INGEST_BEHIND_SECONDS": "86400"}
    order = {"environment": own, "job": str(started.job_id)}
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
def test_an_import_killed_six_times_stores_each_record_once(importer: Importer, workers: subprocess.Popen[str]) -> None:
    records: list[dict[str, Any]] = [
        {"text": f"heron {n}", "external_id": f"e{n}", "uses": 2, "strength": 0.5}
        | ({"links": [{"to": "e0"}]} if n % BATCH == 20 else {})
        for n in range(RECORDS)
    ]
    started = importer.upload("jsonl", lines(*records) + b"{\n")
    plan = (
        *("import.before_copy", "import.after_upsert", "", "import.before_commit", "", "import.after_batch"),
        *("", "import.after_upsert", "import.after_batch"),
    )
    positions = work(importer, workers, started, plan)
    assert positions == [0, 0, 50, 50, 100, 150, 200, 200, 250], "the position is that of the memories"
    made = importer.get(started)
    assert made.status == "done"
    assert made.position == RECORDS + 1
    assert made.skipped == [(RECORDS + 1, "the record isn't JSON")]
    assert sum(made.counts.get(name, 0) for name in ("stored", "unchanged")) == RECORDS
    assert stored(importer) == {"memories": RECORDS, "memory_state": RECORDS, "links": RECORDS // BATCH}
    uses = "SELECT DISTINCT access_count FROM memory_state WHERE tenant_id = %s"
    assert importer.service.rows(uses, importer.tenant_id) == [(2,)]
    counted = importer.service.one("SELECT sum(active) FROM tenant_counts WHERE tenant_id = %s", importer.tenant_id)
    assert counted == RECORDS
    importer.service.work()
    assert importer.run("jsonl", lines(*records)).counts == {"unchanged": RECORDS}


@pytest.mark.slow
@pytest.mark.kills
def test_a_load_killed_five_times_loads_everything_once(importer: Importer, workers: subprocess.Popen[str]) -> None:
    first = importer.tenant_id
    ids = fill(importer, 200)
    importer.service.rows(
        "INSERT INTO reviews SELECT tenant_id, memory_id, now(), 7, now(), 1, false FROM memories WHERE tenant_id = %s",
        first,
    )
    content = dumped(first)
    importer.tenant_id = importer.service.tenant().tenant_id
    started = importer.upload("dump", content)
    plan = (
        *("load.before_commit", "", "import.after_batch", "load.before_commit", "", ""),
        *("import.after_batch", "load.before_commit"),
    )
    positions = work(importer, workers, started, plan)
    assert positions == [0, 50, 100, 100, 150, 200, 250, 250], "from 200 on, links and reviews follow"
    made = importer.get(started)
    assert (made.status, made.counts) == ("done", {"stored": 200, "links": 201})
    for name in ("memories", "memory_events", "scores", "links", "reviews"):
        assert table(importer, importer.tenant_id, name) == table(importer, first, name), name
    at = made.requested_at.timestamp() + 86_400
    assert abs(strengths(first, ids, at) - strengths(importer.tenant_id, ids, at)).max() <= 1e-9
    versions = importer.service.one("SELECT count(*) FROM policies WHERE tenant_id = %s", importer.tenant_id)
    assert versions == 1, "the dump's policy is the tenant's own, and a repeated start adds no version"
