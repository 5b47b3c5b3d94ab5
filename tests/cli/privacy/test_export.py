"""`ebbing export`, and the request log on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

EXPORT: dict[str, Any] = {
    "id": "e1",
    "kind": "portable",
    "status": "running",
    "job_id": "j1",
    "expires_at": "2026-03-14T11:00:00Z",
    "counts": {"given.jsonl": 3},
}
TIERS = {"active": 3, "archived": 1, "cold": 0}
HELD = {"subject": "a/b", "memories": TIERS, "hidden": 2, "held": 0, "exports": 0, "open_erasures": 1}
JOB = {"id": "j1", "kind": "export", "status": "done", "done": 3, "total": None}
REQUEST = {
    "request_id": "r1",
    "nature": "access",
    "law": "ccpa",
    "received_at": "2026-03-07T11:00:00Z",
    "confirm_by": "2026-03-21T11:00:00Z",
    "confirmed_at": None,
    "due_at": "2026-04-21T11:00:00Z",
    "days_left": 44.96,
    "answered_at": None,
    "answer": None,
    "basis": None,
}


def ready(api: Stub, status: str = "ready") -> None:
    api.replies["GET /v1/subjects/ann"] = Reply(200, HELD | {"subject": "ann"})
    api.replies["POST /v1/privacy/exports"] = Reply(202, EXPORT)
    api.replies["GET /v1/jobs/j1"] = Reply(200, JOB)
    api.replies["GET /v1/privacy/exports/e1"] = Reply(200, EXPORT | {"status": status})
    api.replies["GET /v1/privacy/exports/e1/file"] = Reply(200, b"PK zip")


def test_an_export_is_waited_for_and_saved_for_its_owner_alone(cli: Cli, api: Stub, tmp_path: Path) -> None:
    ready(api)
    file = tmp_path / "ann.zip"
    done = cli("export", "ann", "--right", "portable", "--law", "gdpr", "--output", str(file), "--yes")
    assert "6 bytes (3 in given.jsonl)" in done.out
    assert api.asked[1].json == {"subject": "ann", "kind": "portable", "law": "gdpr"}
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"PK zip", 0o600)
    printed = json.loads(cli("export", "ann", "--output", str(tmp_path / "b.zip"), "--yes", "--json").out)
    assert (printed["id"], printed["status"], printed["bytes"]) == ("e1", "ready", 6)


def test_an_access_export_under_the_gdpr_names_what_the_controller_adds(cli: Cli, api: Stub, tmp_path: Path) -> None:
    ready(api)
    for law in ("ccpa", "gdpr"):
        made = EXPORT | {"status": "ready", "kind": "access", "law": law}
        api.replies["GET /v1/privacy/exports/e1"] = Reply(200, made)
        done = cli("export", "ann", "--output", str(tmp_path / f"{law}.zip"), "--yes")
        assert ("`ebbing privacy letter e1 completion`" in done.err) == (law == "gdpr")
        assert "next:" not in done.out


def test_a_file_that_is_there_isnt_overwritten(cli: Cli, api: Stub, tmp_path: Path) -> None:
    file = tmp_path / "ann.zip"
    file.write_text("mine")
    done = cli("export", "ann", "--output", str(file))
    assert done.code == 2
    assert "already exists" in done.err
    assert (file.read_text(), api.asked) == ("mine", [])


def test_an_export_that_fails_leaves_no_file_and_an_exit_code(cli: Cli, api: Stub, tmp_path: Path) -> None:
    ready(api, "failed")
    file = tmp_path / "ann.zip"
    done = cli("export", "ann", "--output", str(file), "--yes")
    assert (done.code, "the export is failed" in done.err) == (1, True)
    ready(api)
    api.replies["GET /v1/privacy/exports/e1/file"] = Reply(409, problem(409, "conflict", detail="has expired"))
    done = cli("export", "ann", "--output", str(file), "--yes")
    assert (done.code, "has expired" in done.err) == (1, True)
    assert not file.exists()


def test_the_log_is_listed_counted_and_denied(cli: Cli, api: Stub) -> None:
    path = "/v1/privacy/requests"
    api.replies[f"GET {path}"] = Reply(200, {"requests": [REQUEST], "next_cursor": None})
    shown = cli("privacy", "log", "--open").out
    assert "only_open=true" in api.asked[-1].path
    for word in ("r1", "access", "2026-03-21", "2026-04-21", " 44 ", "open"):
        assert word in shown
    api.replies[f"GET {path}"] = Reply(200, {"requests": [REQUEST | {"case_reference": "DSR-17"}], "next_cursor": None})
    heads, _, row = cli("privacy", "log", COLUMNS="300").out.splitlines()
    assert row[heads.index("case") :].split()[0] == "DSR-17"
    counts = dict.fromkeys(("received", "open", "done", "denied", "cancelled", "late"), 4)
    tally = counts | {"nature": "access", "law": "ccpa", "median_days": 2.04, "mean_days": None}
    summary = {"after": "2025-01-01T", "before": "2026-01-01T", "tallies": [tally], "categories": {"work": 2}}
    api.replies[f"GET {path}/summary"] = Reply(200, summary)
    shown = cli("privacy", "summary", "--after", "2025-01-01").out
    assert "received from 2025-01-01 to 2026-01-01" in shown
    assert "2.0" in shown
    assert "categories stored: work (2)\n" in shown
    api.replies[f"GET {path}/summary"] = Reply(200, summary | {"categories_left_out": 3})
    assert "categories stored: work (2), and 3 more categories" in cli("privacy", "summary").out
    api.replies[f"POST {path}/r1/deny"] = Reply(200, REQUEST | {"answer": "denied", "basis": "GDPR"})
    assert "r1 is denied: GDPR" in cli("privacy", "deny", "r1", "--basis", "GDPR", "--yes").out
    assert api.asked[-1].json == {"basis": "GDPR"}


def test_an_export_is_asked_about(cli: Cli, api: Stub, tmp_path: Path) -> None:
    api.replies["GET /v1/subjects/a%2Fb"] = Reply(200, HELD)
    asked = cli("export", "a/b", "--output", str(tmp_path / "b.zip"), given="n\n")
    assert asked.code == 1
    assert "Export memories about a/b: 3 active, 1 archived, 0 cold" in asked.err
    assert [one.method for one in api.asked] == ["GET"]


def test_a_dry_run_says_how_much_is_held(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/subjects/a%2Fb"] = Reply(200, HELD)
    printed = cli("export", "a/b", "--dry-run").out
    assert printed == "Would export memories about a/b: 3 active, 1 archived, 0 cold (2 hidden; 1 open erasure).\n"
    assert json.loads(cli("export", "a/b", "--dry-run", "--json").out) == HELD
    done = cli("export", "ann")
    assert (done.code, "--output" in done.err) == (2, True)


def test_a_dry_run_checks_the_options_that_the_export_would_check(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/subjects/a%2Fb"] = Reply(200, HELD)
    api.replies["POST /v1/privacy/exports"] = Reply(200, {"kind": "access", "memories": 4})
    assert "Would export" in cli("export", "a/b", "--request", "r1", "--dry-run").out
    assert api.asked[0].json == {"subject": "a/b", "request_id": "r1", "dry_run": True}
    fault = "is a request for erasure, which an export doesn't answer"
    api.replies["POST /v1/privacy/exports"] = Reply(422, problem(422, "invalid", detail=f"request_id {fault}"))
    refused = cli("export", "a/b", "--request", "r1", "--dry-run")
    assert (refused.code != 0, refused.out, fault in refused.err) == (True, "", True)
