"""`ebbing import` uploads a file, waits for the job and prints what was skipped, by place and reason."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.cli.core.errors import Code
from app.cli.memories import imports
from app.domain.imports import generic
from app.domain.imports.formats import FORMATS
from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

STARTED = {"id": "0b7c8e54-2a47-4f5c-9d0e-6c1e2f8a4b11", "job_id": "89a9e0fb-2277-4642-bc64-88ab9a77645e"}
JOB = {"id": STARTED["job_id"], "kind": "import", "status": "done", "done": 3, "total": None, "counts": {}}
MADE = {
    **STARTED,
    "status": "done",
    "size_bytes": 40,
    "counts": {"stored": 2, "skipped": 1},
    "reasons": {"the record isn't JSON": 1},
    "skipped": [{"line": 3, "reason": "the record isn't JSON"}],
    "failure": None,
}


@pytest.fixture(autouse=True)
def _importing(api: Stub) -> None:
    api.replies["POST /v1/imports"] = Reply(202, STARTED)
    api.replies[f"GET /v1/jobs/{STARTED['job_id']}"] = Reply(200, JOB)
    api.replies[f"GET /v1/imports/{STARTED['id']}"] = Reply(200, MADE)


def test_a_file_is_uploaded_with_its_options_and_the_report_printed(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / "a.csv").write_text("content\nx\n")
    done = cli(
        "import", "csv", "a.csv", "--map", "text=content", "--map", "tags=labels", "--subject", "ann", "--dry-run"
    )
    assert done.code == 0, done
    asked = api.asked[0]
    assert parse_qs(urlsplit(asked.path).query) == {
        "format": ["csv"],
        "map": ["text=content,tags=labels"],
        "subject": ["ann"],
        "dry_run": ["true"],
    }
    assert "would be: 2 stored, 1 skipped" in done.out
    assert "line 3: the record isn't JSON" in done.out


def test_json_has_the_report_and_a_failed_import_ends_with_an_error(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / "a.jsonl").write_text("{}\n")
    assert json.loads(cli("import", "jsonl", "a.jsonl", "--json").out) == MADE
    failed = MADE | {"status": "failed", "failure": "the file is a damaged zip archive"}
    api.replies[f"GET /v1/imports/{STARTED['id']}"] = Reply(200, failed)
    done = cli("import", "jsonl", "a.jsonl")
    assert done.code == 1
    assert "the file is a damaged zip archive" in done.err


def test_messages_name_options_instead_of_parameters(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / "a.csv").write_text("content\nx\n")
    reason = "occurred_at has no offset: give the time zone of such times (time_zone)"
    faulty = MADE | {"reasons": {reason: 1}, "skipped": [{"row": 2, "reason": reason}]}
    api.replies[f"GET /v1/imports/{STARTED['id']}"] = Reply(200, faulty)
    done = cli("import", "csv", "a.csv")
    assert done.out.count("give the time zone of such times (--timezone)") == 2
    assert "time_zone" not in done.out
    failed = MADE | {"status": "failed", "failure": generic.NO_TEXT, "counts": {}, "reasons": {}, "skipped": []}
    api.replies[f"GET /v1/imports/{STARTED['id']}"] = Reply(200, failed)
    done = cli("import", "csv", "a.csv", "--dry-run")
    assert (done.code, done.out) == (1, ""), "nothing is said to be stored before the failure"
    assert "the dry run failed: no column holds the text: name the column (--map), such as text=COLUMN" in done.err
    error = {"field": "time_zone", "message": "must be a time zone such as Europe/Berlin"}
    api.replies["POST /v1/imports"] = Reply(422, {"title": "Invalid request", "errors": [error]})
    refused = cli("import", "csv", "a.csv", "--timezone", "Berlin")
    assert (refused.code, "--timezone must be a time zone" in refused.err) == (Code.FAILED, True), refused.err


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"skipped": 3}, 1),
        ({"skipped": 3, "stored": 1}, 0),
        ({"skipped": 3, "unchanged": 1}, 0),
        ({"skipped": 1, "links": 2}, 0),
        ({}, 0),
    ],
)
def test_an_import_that_skipped_every_record_fails(
    cli: Cli, api: Stub, folder: Path, counts: dict[str, int], code: int
) -> None:
    (folder / "a.jsonl").write_text("{}\n")
    api.replies[f"GET /v1/imports/{STARTED['id']}"] = Reply(200, MADE | {"counts": counts})
    done = cli("import", "jsonl", "a.jsonl")
    assert done.code == code
    assert ("nothing was imported, because every record was skipped" in done.err) == bool(code)
    assert "line 3: the record isn't JSON" in done.out
    assert cli("import", "jsonl", "a.jsonl", "--json").code == code
    assert ("nothing would be imported" in cli("import", "jsonl", "a.jsonl", "--dry-run").err) == bool(code)


def test_the_report_has_the_size_of_the_file(cli: Cli, folder: Path) -> None:
    (folder / "a.jsonl").write_text("x" * 4300)
    assert "a.jsonl (4.3 KB): 2 stored" in cli("import", "jsonl", "a.jsonl").out, "not that of what was uploaded"


def test_a_missing_file_is_named(cli: Cli) -> None:
    done = cli("import", "jsonl", "none.jsonl")
    assert (done.code, "no such file" in done.err) == (2, True)


def test_the_help_names_every_format() -> None:
    assert imports.FORMATS.split(", ") == list(FORMATS)


def test_a_database_with_changes_in_its_log_is_refused(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / "m.db").write_bytes(b"SQLite format 3\0")
    (folder / "m.db-wal").write_bytes(b"changes")
    refused = cli("import", "memory-decay", "m.db")
    assert refused.code == 2
    assert "m.db-wal has changes" in refused.err
    assert not api.asked
    (folder / "m.db-wal").write_bytes(b"")
    assert cli("import", "memory-decay", "m.db").code == 0
