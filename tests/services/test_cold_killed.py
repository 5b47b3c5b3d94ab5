"""A move, a restore or a compaction that is killed at any step leaves the old state or the new, and the next finishes.

The worker is a process of its own, killed by SIGKILL at each named place; `make test-faults` has rounds of all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL

import pytest

from app.services import cold, cold_restore, compaction
from tests.services.chilled import LONG, Chilled, aged, chilled

__all__ = ["aged", "chilled"]

ROOT = Path(__file__).resolve().parents[2]
WORKER = """
import sys
from uuid import UUID
from app.services import cold, cold_restore, compaction

what, tenant, *ids = sys.argv[1:]
if what == "move":
    cold.clean(UUID(tenant))
    cold.move(UUID(tenant))
elif what == "restore":
    cold_restore.restore(UUID(tenant), list(map(UUID, ids)))
else:
    compaction.compact(UUID(tenant))
"""
WRITING = ("cold.before_put", "cold.after_put", "cold.after_verify")
MOVE = (*WRITING, "cold.before_commit", "cold.after_commit")
RESTORE = ("restore.after_fetch", "restore.before_commit", "restore.after_commit")
COMPACTION = (*WRITING, "compact.before_commit", "compact.after_commit", "cold.after_delete")


def killed(chilled: Chilled, failpoint: str, *words: object) -> None:
    chilled.service.configure(failpoints=failpoint)
    done = subprocess.run([sys.executable, "-c", WORKER, *map(str, words)], cwd=ROOT, env=os.environ, check=False)
    chilled.service.configure(failpoints="")
    assert done.returncode == -SIGKILL


@pytest.mark.parametrize("failpoint", MOVE)
def test_a_move_killed_anywhere(chilled: Chilled, failpoint: str) -> None:
    ids = chilled.remember(LONG, "short", subject="ann")
    before = chilled.rows(*ids)
    # The worker has the true clock, by which all of this is long due.
    killed(chilled, failpoint, "move", chilled.tenant_id)
    is_new = failpoint == "cold.after_commit"
    assert chilled.tiers(*ids) == ["cold" if is_new else "archived"] * 2
    chilled.whole()
    if not is_new:
        assert chilled.rows(*ids) == before
    cold.clean(chilled.tenant_id)
    chilled.cool()
    assert chilled.tiers(*ids) == ["cold"] * 2
    assert len(chilled.objects()) == 1
    assert chilled.segments() == [("written", 2, 2)]
    chilled.whole()
    assert cold_restore.restore(chilled.tenant_id, ids).restored == ids
    assert chilled.rows(*ids) == before


@pytest.mark.parametrize("failpoint", RESTORE)
def test_a_restore_killed_anywhere(chilled: Chilled, failpoint: str) -> None:
    ids = chilled.remember(LONG, "short")
    before = chilled.rows(*ids)
    chilled.cool()
    killed(chilled, failpoint, "restore", chilled.tenant_id, *ids)
    is_new = failpoint == "restore.after_commit"
    assert chilled.tiers(*ids) == ["active" if is_new else "cold"] * 2
    chilled.whole()
    cold_restore.restore(chilled.tenant_id, ids)
    assert chilled.rows(*ids) == before
    assert chilled.service.rows("SELECT access_count FROM memory_state") == [(1,)] * 2
    chilled.whole()


@pytest.mark.parametrize("failpoint", COMPACTION)
def test_a_compaction_killed_anywhere(chilled: Chilled, failpoint: str) -> None:
    ids = chilled.remember(LONG, "two", "three")
    before = chilled.rows(*ids)
    chilled.cool()
    cold_restore.restore(chilled.tenant_id, ids[1:])
    killed(chilled, failpoint, "compact", chilled.tenant_id)
    chilled.whole()
    cold.clean(chilled.tenant_id)
    while compaction.compact(chilled.tenant_id)[0]:
        pass
    assert chilled.segments() == [("written", 1, 1)]
    assert len(chilled.objects()) == 1
    chilled.whole()
    cold_restore.restore(chilled.tenant_id, ids[:1])
    assert chilled.rows(*ids) == before
