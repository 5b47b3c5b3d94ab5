"""`GET /v1/memories/{id}/why` and `ebbing why` give the same explanation for every deciding rule."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from tests.api.caller import Api
from tests.cli.stub import Reply, Stub

OLD = {"text": "x", "salience": 0.1}

RULES: dict[str, tuple[dict[str, Any], str, str]] = {
    "hold": ({"subject": "held"}, "hold", "under a legal hold"),
    "tag": ({"tags": ["promise"]}, "never_forget", "a tag or category protects it permanently"),
    "category": ({"categories": ["consent"]}, "never_forget", "a tag or category protects it permanently"),
    "kind": ({"kind": "procedural"}, "never_forget", "memories of the kind procedural are protected permanently"),
    "system": ({"kind": "system"}, "grace", "decay doesn't move memories of the kind system"),
    "salience": ({"salience": 0.5}, "salience", "salience 0.5 is above 0.145"),
    "decay": ({}, "decay", "strength "),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_told_over_http_and_on_the_command_line(api: Api, name: str) -> None:
    given, rule, words = RULES[name]
    [memory_id] = api.remember(OLD | given)
    made = api.post("/v1/privacy/holds", json={"subject": "held", "reason": "case 17"})
    path = f"/v1/memories/{memory_id}/why"
    answer = api.get(path, params={"as_of": "2032-01-01T00:00:00Z"})
    found = answer.json()
    assert (found["rule"], found["tier"], found["id"]) == (rule, "active", str(memory_id))
    assert found["why"].startswith(words)
    assert found["source"] == "unknown"
    assert (found["wanted"] == "active") == (rule != "decay")
    assert [hold["id"] for hold in found["holds"]] == ([made.json()["id"]] if rule == "hold" else [])

    stub = Stub()
    try:
        stub.replies[f"GET {path}"] = Reply(200, found)
        api.service.configure(api_url=stub.url, api_key="ebb_stub")
        shown = CliRunner().invoke(app, ["why", str(memory_id), "--as-of", "2032-01-01"])
    finally:
        stub.close()
    assert shown.exit_code == 0
    assert f"{rule.replace('_', ' ')}: {words}" in shown.stdout
    assert ("case 17" in shown.stdout) == (rule == "hold")


def test_a_fresh_memory_is_in_its_grace_and_its_next_change_is_dated(api: Api) -> None:
    [memory_id] = api.remember(OLD)
    found = api.get(f"/v1/memories/{memory_id}/why").json()
    assert (found["rule"], found["wanted"]) == ("grace", "active")
    assert "in their first 7 days; this one was received " in found["why"]
    assert (found["next_change"]["to"], found["next_change"]["rule"]) == ("archived", "decay")
    assert found["next_change"]["at"] > found["as_of"]


def test_a_correction_is_told_at_both_ends_and_on_the_command_line(api: Api) -> None:
    [old] = api.remember({"text": "My flight is on the 14th of May.", "occurred_at": "2026-03-01T09:00:00Z"})
    given = {
        "text": "The flight was moved to the 17th.",
        "occurred_at": "2026-03-02T09:00:00Z",
        "supersedes": "nowhere",
    }
    [new] = api.remember(given)
    [link] = api.get("/v1/links", params={"memory": old}).json()["links"]
    assert (link["from"], link["to"], link["kind"], link["source"]) == (new, old, "corrects", "correction")
    older, newer = (api.get(f"/v1/memories/{memory_id}/why").json() for memory_id in (old, new))
    assert (older["corrects"], older["corrected_by"]) == ([], [new])
    assert (newer["corrects"], newer["corrected_by"]) == ([old], [])

    stub = Stub()
    try:
        stub.replies[f"GET /v1/memories/{new}/why"] = Reply(200, newer)
        api.service.configure(api_url=stub.url, api_key="ebb_stub")
        shown = CliRunner().invoke(app, ["why", str(new)]).stdout.splitlines()
    finally:
        stub.close()
    assert any(line.startswith("corrects") and line.endswith(old) for line in shown)
    assert any(
        line.startswith("supersedes") and "nowhere: no memory with this name is stored" in line for line in shown
    )


def test_a_superseded_memory_names_the_newer_one_over_http_and_on_the_command_line(api: Api) -> None:
    [old] = api.remember("My car is a blue Fiat.")
    [new] = api.remember({"text": "My car is a red Volvo.", "supersedes": old})
    older, newer = (api.get(f"/v1/memories/{memory_id}/why").json() for memory_id in (old, new))
    assert (older["superseded_by"], newer["superseded_by"]) == ([new], [])
    stub = Stub()
    try:
        stub.replies[f"GET /v1/memories/{old}/why"] = Reply(200, older)
        api.service.configure(api_url=stub.url, api_key="ebb_stub")
        shown = CliRunner().invoke(app, ["why", str(old)]).stdout
    finally:
        stub.close()
    [line] = [line.split() for line in shown.splitlines() if line.startswith("superseded")]
    assert line == ["superseded", "by", f"{new}:", "searches", "return", "only", "the", "newer", "memory"]
