"""`ebbing consolidation` and `ebbing maintain consolidate`."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

PATH = "/v1/consolidation"
MERGE: dict[str, Any] = {
    "id": "m1",
    "action": "duplicates",
    "status": "waiting",
    "summary_id": None,
    "method": None,
    "is_stale": False,
    "created_at": "2026-03-07T11:00:00Z",
    "memories": [{"id": "a", "part": "source", "text_version": 1}],
}
RUN: dict[str, Any] = {
    "started_at": "2026-03-07T02:00:00Z",
    "started_by": "night",
    "looked_at": 12,
    "linked": 1,
    "merged": 5,
    "summaries": 1,
    "waiting": 0,
    "reduction": 0.4,
}
PREVIEW: dict[str, Any] = {
    "id": "m1",
    "status": "waiting",
    "texts": [{"id": "a", "text": "a boat\x1b[2J", "tier": "active", "kept": True}],
    "summary": {"text": "boats", "key_points": [], "method": "extractive", "model": None},
}


def test_runs_and_merges_are_listed(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/runs"] = Reply(200, {"runs": [RUN], "next_cursor": None})
    api.replies[f"GET {PATH}/merges"] = Reply(200, {"merges": [MERGE], "next_cursor": None})
    printed = cli("consolidation", "runs").out
    assert "night" in printed
    assert "40%" in printed
    assert "waiting" in cli("consolidation", "merges", "--status", "waiting").out
    assert api.asked[-1].path == f"{PATH}/merges?limit=50&status=waiting"
    assert json.loads(cli("consolidation", "merges", "--json").out) == {"merges": [MERGE]}


def test_a_merge_is_shown_with_its_texts_and_decided(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/merges/m1/preview"] = Reply(200, PREVIEW)
    for verb in ("reject", "undo"):
        api.replies[f"POST {PATH}/merges/m1/{verb}"] = Reply(200, MERGE)
    shown = cli("consolidation", "show", "m1").out
    assert "kept" in shown
    assert "boats" in shown
    assert "\x1b" not in shown
    assert "m1 is rejected" in cli("consolidation", "reject", "m1").out
    assert json.loads(cli("consolidation", "undo", "m1", "--json").out) == MERGE


def test_lineage_is_told_of_both_ends(cli: Cli, api: Stub) -> None:
    made = {**MERGE, "id": "m2", "status": "done", "summary_id": "s"}
    api.replies["GET /v1/memories/s/lineage"] = Reply(200, {"id": "s", "made_from": made, "merged_into": [MERGE]})
    printed = cli("consolidation", "lineage", "s").out.splitlines()
    assert printed[0] == "created by merge m2 (duplicates, done, summary s)"
    assert printed[1].split() == ["source", "a"]
    assert printed[2] == "used by merge m1 (duplicates, waiting)"
    api.replies["GET /v1/memories/b/lineage"] = Reply(200, {"id": "b", "made_from": None, "merged_into": []})
    assert "is not part of any merge" in cli("consolidation", "lineage", "b").out


def test_a_yes_is_followed_until_it_is_carried_out(cli: Cli, api: Stub) -> None:
    job = {"id": "j1", "status": "done", "kind": "approve", "done": 4, "total": None, "counts": {}, "log": []}
    api.replies[f"POST {PATH}/merges/m1/approve"] = Reply(202, {"job_id": "j1"})
    api.replies["GET /v1/jobs/j1"] = Reply(200, job)
    assert "applied merge m1: 4 memories summarised" in cli("consolidation", "approve", "m1").out
    api.replies["GET /v1/jobs/j1"] = Reply(200, job | {"status": "failed", "error": "its memories have changed"})
    failed = cli("consolidation", "approve", "m1")
    assert failed.code == 1
    assert "its memories have changed" in failed.err


def test_a_dry_run_lists_groups_and_why(cli: Cli, api: Stub) -> None:
    group: dict[str, Any] = {"action": "link", "waits": False, "memories": ["a", "b"], "kept": [], "why": "2 memories"}
    group["text"] = "a boat\x1b[2J " * 9
    found = {"changes": [group], "counts": {"looked_at": 3, "clusters": 1}, "complete": False, "next_cursor": None}
    api.replies["POST /v1/maintenance/consolidate"] = Reply(200, found)
    printed = cli("maintain", "consolidate", "--dry-run", "--level", "light").out
    assert "2 memories" in printed
    assert "a boat" in printed
    assert "\x1b" not in printed
    assert "there are more groups" in printed
    assert api.asked[0].json == {"level": "light", "dry_run": True, "limit": 1000}


def test_who_has_just_begun_is_told_why_nothing_happens(cli: Cli, api: Stub) -> None:
    found = {"changes": [], "counts": {"looked_at": 0, "clusters": 0}, "complete": True, "next_cursor": None}
    api.replies["POST /v1/maintenance/consolidate"] = Reply(200, found)
    assert "consolidation.keep_days" in cli("maintain", "consolidate", "--dry-run").out
    job = {"id": "j1", "status": "done", "kind": "consolidate", "done": 0, "total": None, "counts": {}, "log": []}
    api.replies["POST /v1/maintenance/consolidate"] = Reply(202, {"job_id": "j1"})
    api.replies["GET /v1/jobs/j1"] = Reply(200, job)
    assert "consolidation.keep_days" in cli("maintain", "consolidate", "--wait").out
    counts = {"looked_at": 34, "merged": 25, "summaries": 5, "linked": 2}
    api.replies["GET /v1/jobs/j1"] = Reply(200, job | {"done": 34, "counts": counts})
    printed = "34 memories processed; 25 merged into 5 summaries, 2 groups linked"
    assert printed in cli("maintain", "consolidate", "--wait").out
