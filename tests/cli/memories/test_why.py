"""`ebbing why` and `ebbing stats`: numbers and durations for people."""

from __future__ import annotations

from typing import Any, Final

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

EXPLAINED: Final[dict[str, Any]] = {
    "tier": "active",
    "wanted": "active",
    "rule": "grace",
    "source": "tool",
    "why": "memories aren't moved or deleted for lack of use in their first 7 days; this one was received 17 s ago",
    "numbers": {"strength": 0.285714, "privacy_risk": 1.07e-07, "uses": 3, "kind": None},
    "holds": [],
    "next_change": None,
}


def test_numbers_are_rounded(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/memories/m1/why"] = Reply(200, EXPLAINED)
    shown = cli("why", "m1").out
    assert "strength        0.286\n" in shown
    assert "privacy risk    almost 0\n" in shown
    assert "kind" not in shown
    assert "source          tool\n" in shown


def test_the_age_of_a_backlog_has_units(cli: Cli, api: Stub) -> None:
    lanes = {"ingest": {"depth": 2, "oldest_age_seconds": 7300.0}, "embed": {"depth": 0, "oldest_age_seconds": 1.0}}
    api.replies["GET /v1/stats"] = Reply(200, {"memories": {}, "pending": {}, "lanes": lanes, "dead_letters": 0})
    rows = [line.split() for line in cli("stats").out.splitlines()]
    assert ["queue", "ingest", "2", "2", "h", "1", "min"] in rows
    assert ["queue", "embed", "0"] in rows


def test_only_numbers_that_matter_are_shown_and_days_are_durations(cli: Cli, api: Stub) -> None:
    numbers = {"age_days": 0.005739, "back_days": 0.005739, "is_marked": False, "expires_after_days": 730, "kind": None}
    api.replies["GET /v1/memories/m1/why"] = Reply(200, EXPLAINED | {"numbers": numbers})
    shown = [line.split(maxsplit=1) for line in cli("why", "m1").out.splitlines()]
    assert shown[3:-1] == [["age", "8 min 16 s"], ["retention", "period   730 days"]]
    numbers["back_days"] = 0.001
    assert "since restored     1 min 26 s" in cli("why", "m1").out


def test_the_keep_chance_has_its_threshold_and_a_shift_only_if_there_is_one(cli: Cli, api: Stub) -> None:
    numbers = {"keep_chance": 0.486, "keep_above": 0.11, "keep_shift": 0.0, "salience_source": "heuristic"}
    api.replies["GET /v1/memories/m1/why"] = Reply(200, EXPLAINED | {"numbers": numbers})
    shown = [line.split(maxsplit=2) for line in cli("why", "m1").out.splitlines()[3:-1]]
    assert shown == [["keep", "chance", "0.486"], ["keep", "threshold", "0.11"], ["salience", "by", "rules"]]
    numbers["keep_shift"] = 0.02
    assert "keep chance gained by uses   0.02\n" in cli("why", "m1").out
