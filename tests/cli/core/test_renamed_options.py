"""Options that were renamed: old names still work, with a remark, and aren't shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

WOULD = {"memories": 1, "held": 0, "hidden": 0, "due_at": None, "erase_after": "2026-12-01T00:00:00Z"}
LINK = {"from": "a", "to": "b", "kind": "caused", "weight": 1, "source": "caller", "created_at": "2026-11-22T00:00:00Z"}


@pytest.mark.parametrize("words", [["--kind", "gdpr"], ["--kind=gdpr"], ["--law", "gdpr"]])
def test_the_law_of_an_erasure(cli: Cli, api: Stub, words: list[str]) -> None:
    api.replies["POST /v1/privacy/erasures"] = Reply(200, WOULD)
    done = cli("erase", "ann", "--dry-run", *words)
    assert done.code == 0
    assert api.asked[-1].json["kind"] == "gdpr"
    is_old = words[0].startswith("--kind")
    assert done.err == ("ebbing: --kind is now --law; the old name still works for now\n" if is_old else "")


def test_the_relation_of_a_link(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/links"] = Reply(200, {"links": [LINK], "next_cursor": None})
    old, new = (cli("links", "list", name, "caused", "--json") for name in ("--kind", "--relation"))
    assert json.loads(old.out) == json.loads(new.out) == {"links": [LINK]}
    assert [asked.path.rpartition("&")[2] for asked in api.asked] == ["kind=caused"] * 2
    assert ("--relation" in old.err, new.err) == (True, "")


def test_the_type_of_a_job(cli: Cli, api: Stub) -> None:
    job: dict[str, Any] = {"id": "j1", "kind": "erase", "status": "done", "done": 1, "total": 1}
    api.replies["GET /v1/jobs"] = Reply(200, {"jobs": [job], "next_cursor": None})
    old, new = (cli("jobs", name, "erase") for name in ("--kind", "--type"))
    assert old.out == new.out
    assert [asked.path for asked in api.asked] == ["/v1/jobs?kind=erase&limit=20"] * 2
    assert ("--type" in old.err, new.err) == (True, "")


def test_what_follows_two_dashes_is_no_option(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/privacy/erasures"] = Reply(200, WOULD)
    assert cli("erase", "--dry-run", "--", "--kind").err == ""
    assert api.asked[-1].json["subject"] == "--kind"


@pytest.mark.parametrize("words", [["erase"], ["export"], ["links", "add"], ["links", "list"], ["jobs"]])
def test_old_names_are_not_in_the_help(cli: Cli, words: list[str]) -> None:
    assert "--kind" not in cli(*words, "--help").out


@pytest.mark.parametrize("words", [["search"], ["recall"], ["hold", "place"], ["curve"]])
def test_a_kind_is_one_of_a_memory(cli: Cli, words: list[str]) -> None:
    shown = " ".join(cli(*words, "--help", COLUMNS="200").out.split())
    assert "--kind" in shown
    assert "episodic, semantic, procedural" in shown
