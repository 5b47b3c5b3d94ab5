"""Requests and output of `ebbing usage`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem


def row(**given: Any) -> dict[str, Any]:
    counts = {"calls": 2, "input_tokens": 12_000, "cached_tokens": 400, "output_tokens": 100}
    named = {"day": "2026-05-04", "purpose": "score", "host": "models.example", "model": "m"}
    return named | counts | {"memories": 7, "cache_hits": 3, "cost": 0.25} | given


LIMITS = {"tokens": 50_000, "cost": None}
LEFT = {"tokens": 25_800, "cost": None}
TODAY = {"tokens": 24_200, "cost": 0.5, "state": "ok", "limits": LIMITS, "left": LEFT}
FOUND = {"usage": [row(), row(day="2026-05-05")], "today": TODAY}


@pytest.fixture(autouse=True)
def _used(api: Stub) -> None:
    api.replies["GET /v1/usage"] = Reply(200, FOUND)


def words(shown: str) -> list[list[str]]:
    return [line.split() for line in shown.splitlines()]


def test_days_are_a_table_with_totals_and_what_is_left(cli: Cli) -> None:
    done = cli("usage")
    assert (done.code, done.err) == (0, "")
    shown = words(done.out)
    assert shown[0][:4] == ["day", "purpose", "model", "host"]
    assert all(len(line) <= 120 for line in done.out.splitlines())
    day = ["2026-05-04", "score", "m", "models.example", "2", "12,000", "400", "100", "7", "3", "0.2500"]
    assert day in shown
    assert ["total", "4", "24,000", "800", "200", "14", "6", "0.5000"] in shown
    assert "Today (UTC): 24,200 tokens, cost 0.5000; within the budget." in done.out
    assert ["tokens", "of", "the", "tenant", "50,000", "25,800"] in shown
    assert "all tenants" not in done.out


def test_an_admin_is_shown_what_all_have_left(cli: Cli, api: Stub) -> None:
    limits = LIMITS | {"total_tokens": 1_000_000, "total_cost": 10.0}
    left = LEFT | {"total_tokens": 0, "total_cost": None}
    api.replies["GET /v1/usage"] = Reply(200, {"usage": [], "today": TODAY | {"limits": limits, "left": left}})
    shown = words(cli("usage").out)
    assert ["tokens", "of", "all", "tenants", "1,000,000", "0"] in shown
    assert ["cost", "of", "all", "tenants", "10.00", "unknown"] in shown


def test_a_cost_that_is_unknown_in_part_is_unknown_in_all(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/usage"] = Reply(200, FOUND | {"usage": [row(), row(cost=None)]})
    shown = words(cli("usage").out)
    assert [line[-1] for line in shown if line and line[0] in {"2026-05-04", "total"}] == [
        "0.2500",
        "unknown",
        "unknown",
    ]


def test_nothing_spent_and_no_limit_are_said(cli: Cli, api: Stub) -> None:
    nothing = {"tokens": None, "cost": None}
    today = {"tokens": 0, "cost": 0.0, "state": "ok", "limits": nothing, "left": nothing}
    api.replies["GET /v1/usage"] = Reply(200, {"usage": [], "today": today})
    done = cli("usage")
    assert done.code == 0
    assert done.out.splitlines() == [
        "No model has answered a call in the last 30 days. Failed calls cost nothing: `ebbing doctor` shows them.",
        "Today (UTC): 0 tokens, cost 0.00; no budget is set.",
    ]
    assert "No model has answered a call today." in cli("usage", "--days", "1").out


def test_days_and_tenant_are_asked_for(cli: Cli, api: Stub) -> None:
    assert cli("usage", "--days", "7", "--tenant", "t1").code == 0
    assert cli("usage").code == 0
    today = datetime.now(UTC).date()
    week, month = (today - timedelta(days=days) for days in (6, 29))
    assert [asked.path for asked in api.asked] == [
        f"/v1/usage?from={week}&tenant_id=t1",
        f"/v1/usage?from={month}",
    ]


def test_json_is_the_answer_as_it_came(cli: Cli) -> None:
    assert json.loads(cli("usage", "--json").out) == FOUND


@pytest.mark.parametrize("days", ["0", "367", "x"])
def test_so_many_days_at_most(cli: Cli, api: Stub, days: str) -> None:
    assert cli("usage", "--days", days).code == 2
    assert api.asked == []


@pytest.mark.parametrize(("status", "code"), [(401, 4), (403, 4), (422, 1), (503, 3)])
def test_a_refusal_ends_with_its_code(cli: Cli, api: Stub, status: int, code: int) -> None:
    api.replies["GET /v1/usage"] = Reply(status, problem(status, "wrong"))
    assert cli("usage").code == code
