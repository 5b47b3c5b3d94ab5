"""What `ebbing search` asks for and shows."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

FOUND = {
    "id": "0190",
    "text": "Mint tea\u001b[31m, [bold]please[/bold]",
    "score": 1.25,
    "subject": "Orla",
    "speaker": None,
    "occurred_at": "2026-05-04T09:00:00Z",
    "explain": {"words": 1.0, "relevance": 0.25},
}


@pytest.fixture(autouse=True)
def _finding(api: Stub) -> None:
    api.replies["POST /v1/search"] = Reply(200, {"results": [FOUND], "took_ms": 3.1})


def test_filters_are_sent_and_what_is_left_out_is_not(cli: Cli, api: Stub) -> None:
    words = [
        "search",
        "tea",
        "--limit",
        "3",
        "--subject",
        "Orla",
        "--thread",
        "t",
        "--tag",
        "a",
        "--tag",
        "b",
        "--kind",
        "semantic",
        "--explain",
    ]
    assert cli(*words, "--after", "2026-01-01", "--before", "2026-02-01T10:00:00").code == 0
    assert cli("search", "tea").code == 0
    assert [asked.json for asked in api.asked] == [
        {
            "query": "tea",
            "limit": 3,
            "subject": "Orla",
            "thread": "t",
            "tags": ["a", "b"],
            "kinds": ["semantic"],
            "after": "2026-01-01T00:00:00+00:00",
            "before": "2026-02-01T10:00:00+00:00",
            "explain": True,
        },
        {"query": "tea", "limit": 10},
    ]


def test_results_are_a_table_of_score_time_who_and_text(cli: Cli) -> None:
    heading, _, row = cli("search", "tea").out.splitlines()[:3]
    assert heading.split() == ["score", "relevance", "words", "when", "who", "text"]
    assert row.split()[:5] == ["1.250", "0.250", "1.000", "2026-05-04", "Orla"]
    assert "[bold]please[/bold]" in row  # text is text, not markup
    assert "\u001b" not in row  # and can't steer the terminal


def test_json_is_the_answer_as_it_came(cli: Cli) -> None:
    assert json.loads(cli("search", "tea", "--json").out) == {"results": [FOUND], "took_ms": 3.1}


def test_nothing_found_is_said_and_no_failure(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/search"] = Reply(200, {"results": [], "took_ms": 1})
    done = cli("search", "tea")
    assert (done.code, done.out, done.err) == (0, "", "nothing found\n")
