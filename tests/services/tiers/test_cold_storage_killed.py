"""A move, restore or compaction killed at any step leaves the old state or the new one, and the next run finishes it.

The worker is a separate process, killed by SIGKILL at each failpoint; `make test-faults` runs rounds of all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import IO

import pytest

from app.services.tiers import cold_restore, cold_storage, segment_compaction
from tests.services.cold_due import LONG, Chilled, aged, chilled
from tests.variants import variants
from tests.waiting import PATIENCE_SECONDS

__all__ = ["aged", "chilled"]

ROOT = Path(__file__).resolve().parents[3]
# A process with everything loaded and nothing open; it carries out each order in a child process.
WORKERS = """
import json
import os
import sys
import obstore, zstandard
from uuid import UUID
from cryptography.hazmat.primitives.ciphers import aead
from app.services.consolidation import consolidation_run, merge_undo, summary_refresh
from app.services.storage.memory_write import memory_write
from app.services.tiers import (
    archive, cold_restore, cold_storage, decay_deletion, reactivation, segment_compaction
)

def work(what, tenant, *ids):
    if what == "move":
        cold_storage.clean_segments(UUID(tenant))
        cold_storage.move_segment(UUID(tenant))
    elif what == "restore":
        cold_restore.restore(UUID(tenant), list(map(UUID, ids)))
    elif what == "delete":
        decay_deletion.delete(UUID(tenant), limit=3)
    elif what == "archive":
        archive.move_slice(UUID(tenant), None, None)
    elif what == "use":
        with memory_write(UUID(tenant), "state") as write:
            reactivation.restore(write, list(map(UUID, ids)), "use")
    elif what == "merge":
        state = {}
        while not (step := consolidation_run.run_slice(UUID(tenant), None, state, 0, by_hand=True)).finished:
            state = step.state
    elif what == "undo":
        merge_undo.undo_merge(UUID(tenant), UUID(ids[0]), "me")
    elif what == "rederive":
        summary_refresh.run_slice(UUID(tenant), None, UUID(int=0), 1e9)
    else:
        segment_compaction.compact_segments(UUID(tenant))

for line in sys.stdin:
    order = json.loads(line)
    if not (child := os.fork()):
        os.environ.update(order["environment"])
        work(*order["words"])
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
WRITING = ("cold.before_put", "cold.after_put", "cold.after_verify")
MOVE = (*WRITING, "cold.before_commit", "cold.after_commit")
RESTORE = ("restore.after_fetch", "restore.before_commit", "restore.after_commit")
DELETE = ("delete.before_audit", "delete.before_commit", "delete.after_commit")
COMPACTION = (*WRITING, "compact.before_commit", "compact.after_commit", "cold.after_delete")


class Workers:
    """A source of worker processes that carry out one order each."""

    def __init__(self, orders: IO[str], ends: IO[str]) -> None:
        self._orders, self._ends = orders, ends

    def killed(self, failpoint: str, *words: object) -> None:
        """Start a worker, and assert that it is killed at this failpoint."""
        assert self.ended(failpoint, *words) == -SIGKILL

    def ended(self, failpoint: str, *words: object) -> int:
        """Return the exit status of a worker."""
        own = {name: value for name, value in os.environ.items() if name.startswith("EBBING_")}
        order = {"environment": {**own, "EBBING_FAILPOINTS": failpoint}, "words": list(map(str, words))}
        print(json.dumps(order), file=self._orders, flush=True)
        return int(self._ends.readline())


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    command = [sys.executable, "-c", WORKERS]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Workers(process.stdin, process.stdout)
        process.stdin.close()
        process.wait(PATIENCE_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", variants(MOVE, {"cold.before_put", "cold.before_commit"}))
def test_a_move_killed_anywhere(chilled: Chilled, workers: Workers, failpoint: str) -> None:
    ids = chilled.remember(LONG, "short", subject="ann")
    before = chilled.rows(*ids)
    # The worker has the real clock, by which all memories are long due.
    workers.killed(failpoint, "move", chilled.tenant_id)
    is_new = failpoint == "cold.after_commit"
    assert chilled.tiers(*ids) == ["cold" if is_new else "archived"] * 2
    chilled.whole()
    if not is_new:
        assert chilled.rows(*ids) == before
    cold_storage.clean_segments(chilled.tenant_id)
    chilled.cool()
    assert chilled.tiers(*ids) == ["cold"] * 2
    assert len(chilled.objects()) == 1
    assert chilled.segments() == [("written", 2, 2)]
    chilled.whole()
    assert cold_restore.restore(chilled.tenant_id, ids).restored == ids
    assert chilled.rows(*ids) == before


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", variants(RESTORE, {"restore.before_commit"}))
def test_a_restore_killed_anywhere(chilled: Chilled, workers: Workers, failpoint: str) -> None:
    ids = chilled.remember(LONG, "short")
    before = chilled.rows(*ids)
    chilled.cool()
    workers.killed(failpoint, "restore", chilled.tenant_id, *ids)
    is_new = failpoint == "restore.after_commit"
    assert chilled.tiers(*ids) == ["active" if is_new else "cold"] * 2
    chilled.whole()
    cold_restore.restore(chilled.tenant_id, ids)
    assert chilled.rows(*ids) == before
    assert chilled.service.rows("SELECT access_count FROM memory_state") == [(1,)] * 2
    chilled.whole()


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", variants(COMPACTION, {"compact.before_commit", "cold.after_delete"}))
def test_a_compaction_killed_anywhere(chilled: Chilled, workers: Workers, failpoint: str) -> None:
    ids = chilled.remember(LONG, "two", "three")
    before = chilled.rows(*ids)
    chilled.cool()
    cold_restore.restore(chilled.tenant_id, ids[1:])
    workers.killed(failpoint, "compact", chilled.tenant_id)
    chilled.whole()
    cold_storage.clean_segments(chilled.tenant_id)
    while segment_compaction.compact_segments(chilled.tenant_id)[0]:
        pass
    assert chilled.segments() == [("written", 1, 1)]
    assert len(chilled.objects()) == 1
    chilled.whole()
    cold_restore.restore(chilled.tenant_id, ids[:1])
    assert chilled.rows(*ids) == before
