"""`ebbing why` and `ebbing stats`: numbers and durations for people."""

from __future__ import annotations

from typing import Any, Final

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

EXPLAINED: Final[dict[str, Any]] = {
    "tier": "active",
    "wanted": "active",
    "rule": "grace",
    "why": "accepted 17 s ago, within the grace period of 7 days",
    "numbers": {"strength": 0.285714, "privacy_risk": 1.07e-07, "uses": 3, "kind": None},
    "holds": [],
    "next_change": None,
}


def test_numbers_are_rounded(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/memories/m1/why"] = Reply(200, EXPLAINED)
    shown = cli("why", "m1").out
    assert "strength       0.286\n" in shown
    assert "privacy risk   almost 0\n" in shown
    assert "kind           -\n" in shown


def test_the_age_of_a_backlog_has_units(cli: Cli, api: Stub) -> None:
    lanes = {"ingest": {"depth": 2, "oldest_age_seconds": 7300.0}, "embed": {"depth": 0, "oldest_age_seconds": 1.0}}
    api.replies["GET /v1/stats"] = Reply(200, {"memories": {}, "pending": {}, "lanes": lanes, "dead_letters": 0})
    rows = [line.split() for line in cli("stats").out.splitlines()]
    assert ["lane", "ingest", "2", "2", "h", "1", "min"] in rows
    assert ["lane", "embed", "0"] in rows
