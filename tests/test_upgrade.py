"""The comparisons of `make test-upgrade`, which itself runs two versions and takes minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from app.services.ingest import drain
from ops.upgrade import findings
from ops.upgrade.installation import ROOT, differing_pins
from ops.upgrade.load import Book, Caller
from tests.service import Service

METRICS = """
# HELP ebbing_jobs_total Jobs.
ebbing_jobs_total{kind="sweep",status="done"} 3
ebbing_up 1
"""


def description(*parameters: str, fields: tuple[str, ...] = ("text",), path: str = "/v1/links") -> dict[str, object]:
    """Build an OpenAPI description of one route with one body."""
    route = {"get": {"parameters": [{"name": name} for name in parameters]}}
    return {"paths": {path: route}, "components": {"schemas": {"Body": {"properties": {name: {} for name in fields}}}}}


def test_a_metric_that_is_gone_or_labelled_in_another_way_is_found() -> None:
    assert findings.missing_metrics(METRICS, METRICS + "ebbing_more 1\n") == []
    assert findings.missing_metrics(METRICS, 'ebbing_jobs_total{kind="a"} 0\n') == [
        "metric ebbing_jobs_total: labelled kind",
        "metric ebbing_up: gone",
    ]


def test_all_label_names_of_a_metric_are_compared() -> None:
    wanted = {"ebbing_jobs_total": frozenset({"kind", "status"}), "ebbing_up": frozenset[str]()}
    assert findings.metric_names(METRICS) == wanted


def test_a_route_a_parameter_and_a_body_field_that_are_gone_are_found() -> None:
    old = description("limit", "cursor", fields=("text", "place"))
    assert findings.missing_routes(old, old) == []
    assert findings.missing_routes(old, description("limit")) == [
        "route GET /v1/links: no parameter cursor",
        "body Body: no field place",
    ]
    assert "route GET /v1/links: gone" in findings.missing_routes(old, description(path="/v1/other"))


def test_pins_are_compared_with_the_installed_versions() -> None:
    here = metadata.version("redis")
    pins = f"redis=={here} \\\n    --hash=sha256:00\nmsgspec==0.0.1 \\\nwindows-only==1 ; sys_platform == 'win32' \\\n"
    assert differing_pins(pins) == [f"msgspec ==0.0.1 (here {metadata.version('msgspec')})"]
    assert differing_pins("no-such-package==1 \\\n") == ["no-such-package ==1 (here none)"]


def test_faults_of_callers_are_listed_once_with_their_number() -> None:
    book = Book()
    book.add_fault("old: GET /v1/stats returned 500")
    book.add_fault("old: GET /v1/stats returned 500")
    assert findings.check_answers(book) == ["old: GET /v1/stats returned 500 (×2)"]


def test_errors_in_logs_are_listed_by_process_except_provoked_dead_letters(tmp_path: Path) -> None:
    lines = [
        {"event": "dead_letter", "level": "error"},
        {"event": "task_failed", "task": "ingest.drain", "error": "KeyError", "level": "error"},
        {"event": "task_failed", "task": "ingest.drain", "error": "KeyError", "level": "error"},
        {"event": "redis_away", "level": "warning"},
    ]
    (tmp_path / "new-worker-ingest.log").write_text("\n".join(map(json.dumps, lines)) + "\nTraceback (most recent\n")
    (tmp_path / "redis.log").write_text("Error\n")
    assert list(findings.list_errors(tmp_path)) == [
        "new-worker-ingest: task_failed ingest.drain KeyError (×2)",
        "new-worker-ingest: Traceback (most recent (×1)",
    ]


def test_a_refusal_for_the_moment_needs_retry_after_and_any_other_5xx_is_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ops.upgrade.load.PAUSE_SECONDS", 0)
    answers = iter((httpx.Response(503, headers={"retry-after": "1"}), httpx.Response(503), httpx.Response(500)))
    caller = Caller(Book(), [("old", "http://old")], "key", "seed")
    caller._http = httpx.Client(transport=httpx.MockTransport(lambda _: next(answers)))
    caller.ask("stats", "GET", "/v1/stats")
    assert caller.book.wrong == ["old: stats returned 503 () without Retry-After", "old: stats returned 500 ()"]


def test_a_request_without_an_answer_in_time_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.upgrade.load.PAUSE_SECONDS", 0)
    answers = iter((httpx.ReadTimeout("too late"), httpx.ConnectError("gone"), None))

    def answer(_: httpx.Request) -> httpx.Response:
        if (error := next(answers)) is not None:
            raise error
        return httpx.Response(200)

    caller = Caller(Book(), [("old", "http://old")], "key", "seed")
    caller._http = httpx.Client(transport=httpx.MockTransport(answer))
    caller.ask("stats", "GET", "/v1/stats")
    assert caller.book.wrong == ["old: stats had no answer in time"]


def test_a_tenants_accepted_memories_are_stored_deleted_or_erased_and_with_no_other(service: Service) -> None:
    one, other = service.tenant(), service.tenant()
    mine = {str(each) for each in service.send(one.tenant_id, "tea", "soup")}
    theirs = {str(each) for each in service.send(other.tenant_id, "rain")}
    drain.drain_streams()

    def check(accepted: set[str], deleted: set[str]) -> list[str]:
        departed = findings.Departed(deleted, set())
        return findings.check_tenant(service.database_url, str(one.tenant_id), accepted, departed, "one")

    assert check(mine, set()) == []
    lost = str(uuid4())
    assert check(mine | {lost}, {lost}) == []
    assert check(mine | {lost}, set()) == ["one: 1 accepted memories are neither stored, deleted nor erased"]
    assert check(theirs, theirs) == ["one: 1 memories are stored with another tenant"]


@pytest.mark.slow
def test_help_has_an_example() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "ops.upgrade", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "make test-upgrade FROM=" in shown
