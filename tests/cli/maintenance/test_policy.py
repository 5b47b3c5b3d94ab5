"""Requests and output of `ebbing policy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Request, Stub, problem

PUT = "PUT /v1/policy"
TIERS = {"active": 1204, "archived": 2, "cold": 0, "deleted": 0}
LESS = {"active": 4, "archived": 1202, "cold": 0, "deleted": 0}
POLICY = {"language": "english", "forgetting": {"profile": "spec", "parameters": {"law": "quadratic"}}}
AT = "2026-11-20T18:00:00Z"
SHOWN_AT = "2026-11-20 18:00 UTC"


def outcome(**more: Any) -> dict[str, Any]:
    found = {
        "version": 2,
        "effective_at": AT,
        "latest_version": 1,
        "changes": [{"field": "tiers.archived_below", "from": 0.3, "to": 0.9}],
        "superseded": [],
        "policy": POLICY,
    }
    return found | more


EFFECTS: dict[str, Any] = {
    "memories": 1206,
    "complete": True,
    "tiers": {"before": TIERS, "after": LESS},
    "moves": [{"from": "active", "to": "archived", "memories": 1200}],
    "sample": [],
    "later": {"days": 30, "before": TIERS, "after": LESS},
    "lost": [{"what": "stability", "memories": 3, "why": "only memory_decay has it"}],
}


def answer(asked: Request) -> Reply:
    if asked.json.get("dry_run"):
        return Reply(200, outcome(effects=EFFECTS))
    return Reply(200, outcome(latest_version=2, job_id="j1"))


@pytest.fixture(autouse=True)
def _answers(api: Stub) -> None:
    api.replies[PUT] = answer
    shown = {"version": 3, "effective_at": AT, "status": "in force", "latest_version": 4, "policy": POLICY}
    shown["next"] = {"version": 4, "effective_at": "2026-12-01T00:00:00Z"}
    api.replies["GET /v1/policy"] = Reply(200, shown)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the command believe that it runs in an interactive terminal."""
    monkeypatch.setattr("app.cli.maintenance.policy.can_ask", lambda: True)


def sent(api: Stub) -> list[Any]:
    return [asked.json for asked in api.asked if asked.body]


def test_the_policy_is_shown_field_by_field(cli: Cli, api: Stub) -> None:
    done = cli("policy", "show")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == f"version 3, in force, since {SHOWN_AT}"
    assert lines[1] == "next: version 4 from 2026-12-01 00:00 UTC"
    assert any(line.split() == ["forgetting.parameters.law", "quadratic"] for line in lines)
    assert json.loads(cli("policy", "show", "--version", "2", "--json").out)["policy"] == POLICY
    assert api.asked[-1].path == "/v1/policy?version=2"


def test_versions_are_listed_over_all_pages(cli: Cli, api: Stub) -> None:
    def page(asked: Request) -> Reply:
        version, following = (1, None) if "cursor=2" in asked.path else (2, "2")
        rows = [{"version": version, "effective_at": None if version == 1 else AT, "status": "past"}]
        return Reply(200, {"versions": rows, "next_cursor": following})

    api.replies["GET /v1/policy/versions"] = page
    shown = cli("policy", "versions").out
    assert [line.split() for line in shown.splitlines()[2:]] == [
        ["2", "past", *SHOWN_AT.split()],
        ["1", "past", "the", "start"],
    ]
    assert len(json.loads(cli("policy", "versions", "--json").out)["versions"]) == 2


def test_presets_are_shown_with_their_values(cli: Cli) -> None:
    found = json.loads(cli("policy", "presets", "--json").out)
    assert found["development"]["forgetting"]["parameters"]["half_life_days"] == 1
    assert found["development"]["forgetting"]["parameters"]["forget_below"] == 0.1
    assert found["meeting_notes"]["forgetting"]["parameters"]["beta"] == 0.9
    assert found["context_aware"]["importance"]["weights"]["relevance"] == 0.4
    assert {"personal_assistant", "research", "time_sensitive", "content_heavy"} <= found.keys()
    assert "meeting_notes" in cli("policy", "presets").out


def test_a_difference_is_shown_with_its_effects(cli: Cli, api: Stub) -> None:
    done = cli("policy", "diff", "--set", "tiers.archived_below=0.9")
    assert done.code == 0
    assert ["tiers.archived_below", "0.3", "0.9"] in [line.split() for line in done.out.splitlines()]
    assert "moves 1,200 memories from active to archived" in done.out
    assert ["active", "1,204", "4", "1,204", "4"] in [line.split() for line in done.out.splitlines()]
    assert "3 memories lose stability: only memory_decay has it" in done.out
    assert sent(api) == [{"policy": {"tiers": {"archived_below": 0.9}}, "dry_run": True}]
    assert json.loads(cli("policy", "diff", "--preset", "research", "--json").out) == outcome(effects=EFFECTS)
    assert sent(api)[-1] == {"policy": {}, "preset": "research", "dry_run": True}


def test_fields_come_from_a_file_and_from_the_command_line(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / "changes.json").write_text(json.dumps({"tiers": {"cold_below": 0.2}, "language": "german"}))
    words = ("--set", "tiers.archived_below=0.5", "--set", "language=null", "--set", "time_zone=Asia/Tokyo")
    cli("policy", "diff", "changes.json", *words)
    tiers = {"cold_below": 0.2, "archived_below": 0.5}
    assert sent(api)[-1]["policy"] == {"tiers": tiers, "language": None, "time_zone": "Asia/Tokyo"}
    (folder / "shown.json").write_text(cli("policy", "show", "--json").out)
    cli("policy", "diff", "shown.json")
    assert sent(api)[-1]["policy"] == POLICY
    cli("policy", "diff", "-", given='{"history_days": 5}')
    assert sent(api)[-1]["policy"] == {"history_days": 5}


def test_a_change_is_shown_asked_about_and_made(cli: Cli, api: Stub, terminal: None) -> None:
    done = cli("policy", "set", "--set", "tiers.archived_below=0.9", "--at", "2030-01-01", given="y\n")
    assert done.code == 0, done
    assert "moves 1,200 memories" in done.out
    assert (
        f"version 2 applies from {SHOWN_AT}\nmigrating memories to it: `ebbing jobs watch j1` shows the progress\n"
        in done.out
    )
    change = {"policy": {"tiers": {"archived_below": 0.9}}, "effective_at": "2030-01-01T00:00:00+00:00"}
    assert sent(api) == [change | {"dry_run": True}, change | {"expected_version": 1}]


def test_who_says_no_has_changed_nothing(cli: Cli, api: Stub, terminal: None) -> None:
    done = cli("policy", "set", "--preset", "development", given="n\n")
    assert (done.code, done.err.endswith("ebbing: nothing was changed\n")) == (1, True)
    assert len(api.asked) == 1


def test_without_anybody_to_ask_it_needs_yes(cli: Cli, api: Stub) -> None:
    done = cli("policy", "set", "--preset", "development")
    assert (done.code, api.asked) == (2, [])
    assert "--yes" in done.err
    done = cli("policy", "set", "--preset", "development", "--yes", "--json")
    assert (done.code, json.loads(done.out)["job_id"]) == (0, "j1")
    assert [body.get("dry_run") for body in sent(api)] == [True, None]


def test_the_file_of_standard_input_leaves_nobody_to_ask(cli: Cli, terminal: None) -> None:
    assert cli("policy", "set", "-", given="{}").code == 2


def test_a_dry_run_makes_no_change(cli: Cli, api: Stub) -> None:
    assert "moves 1,200" in cli("policy", "set", "--preset", "development", "--dry-run").out
    assert "effects" in json.loads(cli("policy", "set", "--preset", "development", "--dry-run", "--json").out)
    assert all(body["dry_run"] for body in sent(api))


def test_what_changes_nothing_is_not_asked_about(cli: Cli, api: Stub) -> None:
    api.replies[PUT] = Reply(200, outcome(version=1, changes=[], effects=EFFECTS))
    done = cli("policy", "set", "--preset", "development", "--yes")
    assert (done.code, done.out) == (0, "no change: version 1 already has these values\n")
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "nothing to change"),
        (("--set", "tiers"), "field=value"),
        (("--set", "tiers=1", "--set", "tiers.cold_below=1"), "already has a plain value"),
        (("nowhere.json",), "nowhere.json can't be read"),
        (("broken.json",), "broken.json: invalid JSON"),
        (("list.json",), "must contain a JSON object of fields"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_wrong_usage_is_told_before_anything_is_asked(
    cli: Cli, api: Stub, folder: Path, words: tuple[str, ...], reason: str
) -> None:
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text("[]")
    done = cli("policy", "diff", *words)
    assert (done.code, api.asked) == (2, [])
    assert reason in done.err


def test_a_refusal_names_the_field_its_limit_and_value(cli: Cli, api: Stub) -> None:
    error = {"field": "policy.forgetting.parameters.alpha", "message": "should be less", "value": 99, "limit": 20}
    api.replies[PUT] = Reply(422, problem(422, "invalid", error))
    done = cli("policy", "set", "--set", "forgetting.parameters.alpha=99", "--yes")
    assert done.code == 1
    assert "policy.forgetting.parameters.alpha should be less (value 99, limit 20)" in done.err


LEARNED_RATE: dict[str, Any] = {
    "field": "forgetting.parameters.kinds.episodic",
    "kinds": ["episodic"],
    "value": 1.0,
    "memories": 2000,
    "uses": 2845,
    "estimate": 0.41,
    "interval": [0.36, 0.47],
    "weight": 0.9997,
    "learned": 0.4101,
    "proposed": 0.6667,
    "half_life_days": {"now": 14.23, "learned": None},
}
LEARNED: dict[str, Any] = {
    "profile": "spec",
    "latest_version": 1,
    "rates": [LEARNED_RATE],
    "changes": [{"field": "forgetting.parameters.kinds.episodic", "from": 1.0, "to": 0.6667}],
    "superseded": [4],
}
LEARN = "/v1/policy/learned"


def learnable(api: Stub, **changed: Any) -> None:
    api.replies[f"GET {LEARN}"] = Reply(200, LEARNED | {"effects": EFFECTS} | changed)
    api.replies[f"POST {LEARN}"] = Reply(200, LEARNED | {"version": 2, "job_id": "j1"})


def test_learned_rates_are_shown_with_their_effect_and_not_applied(cli: Cli, api: Stub) -> None:
    learnable(api)
    done = cli("policy", "learn")
    shown = " ".join(done.out.split())
    assert "kinds.episodic 1 2,000 2,845 0.41 0.36 to 0.47 100% 0.4101 14.2 d never" in shown
    assert "forgetting.parameters.kinds.episodic 1.0 0.6667" in shown
    assert "scheduled version 4 would be superseded" in shown
    assert "moves 1,200 memories from active to archived" in shown
    assert [f"{asked.method} {asked.path}" for asked in api.asked] == [f"GET {LEARN}"]
    assert json.loads(cli("policy", "learn", "--json").out)["rates"] == [LEARNED_RATE]


def test_learned_rates_are_applied_after_a_confirmation(cli: Cli, api: Stub) -> None:
    learnable(api)
    refused = cli("policy", "learn", "--apply")
    assert (refused.code, api.asked) == (2, [])
    assert "pass --yes" in refused.err
    done = cli("policy", "learn", "--apply", "--yes")
    assert "version 2 applies from now on" in done.out
    assert "ebbing jobs watch j1" in done.out
    assert json.loads(cli("policy", "learn", "--apply", "--yes", "--json").out)["version"] == 2


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"changes": [], "effects": None}, "no change: the uses agree with the current rates, or are too few"),
        ({"rates": [], "changes": [], "effects": None, "profile": "own"}, "the profile own has no rates"),
    ],
)
def test_without_a_proposal_nothing_is_applied(cli: Cli, api: Stub, changed: dict[str, Any], told: str) -> None:
    learnable(api, **changed)
    assert told in cli("policy", "learn", "--apply", "--yes").out
    assert {asked.method for asked in api.asked} == {"GET"}


def test_a_learned_version_and_a_proposal_are_named(cli: Cli, api: Stub) -> None:
    shown = {
        "version": 3,
        "effective_at": AT,
        "status": "in force",
        "latest_version": 3,
        "policy": POLICY,
        "next": None,
    }
    learned = {"learned": {"at": AT, "parameters": {"kinds.episodic": 0.7}}}
    api.replies["GET /v1/policy"] = Reply(200, shown | learned)
    assert "learned from uses: kinds.episodic 0.7; `ebbing policy learn` shows the effect" in cli("policy", "show").out
    one = {"version": 3, "effective_at": AT, "status": "in force", "is_learned": True}
    api.replies["GET /v1/policy/versions"] = Reply(200, {"versions": [one], "next_cursor": None})
    assert f"3 in force {SHOWN_AT} learned" in " ".join(cli("policy", "versions").out.split())
