"""Requests and output of `ebbing recall`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

BROUGHT: dict[str, Any] = {
    "memories": [{"id": "0190", "text": "Mint tea", "relevance": 0.8}],
    "context": "<memories>\n[0190] 2026-05-04 Mint tea\n</memories>",
    "ids": ["0190"],
    "tokens": 30,
    "thresholds": {"recall.relevance_above": 0.12},
    "took_ms": 3.1,
}


@pytest.fixture(autouse=True)
def _bringing(api: Stub) -> None:
    api.replies["POST /v1/recall"] = Reply(200, BROUGHT)


def test_the_context_is_printed_as_it_is(cli: Cli, api: Stub) -> None:
    assert cli("recall", "hello", "which tea?").out == BROUGHT["context"] + "\n"
    assert api.asked[0].json == {"messages": ["hello", "which tea?"]}


def test_lines_of_standard_input_are_messages_of_which_the_newest_are_sent(cli: Cli, api: Stub) -> None:
    words = ("--budget", "300", "--limit", "3", "--least", "0", "--subject", "Orla", "--tag", "a")
    more = (
        "--exclude-thread",
        "t",
        "--kind",
        "semantic",
        "--role",
        "user",
        "--source",
        "tool",
        "--after",
        "2026-01-01",
    )
    assert (
        cli("recall", "-", "last", *words, *more, given="\n".join(f"line {n}" for n in range(120)) + "\n\n").code == 0
    )
    sent = api.asked[0].json
    assert sent.pop("messages") == [*(f"line {n}" for n in range(21, 120)), "last"]
    assert sent == {
        "token_budget": 300,
        "limit": 3,
        "least": 0.0,
        "subject": "Orla",
        "tags": ["a"],
        "exclude_thread": "t",
        "kinds": ["semantic"],
        "roles": ["user"],
        "sources": ["tool"],
        "after": "2026-01-01T00:00:00+00:00",
    }


def test_no_message_is_said_and_not_sent(cli: Cli, api: Stub) -> None:
    done = cli("recall", "-", given="\n")
    assert (done.code, api.asked) == (2, [])
    assert "no message on standard input" in done.err


def test_json_is_the_answer_as_it_came(cli: Cli) -> None:
    assert json.loads(cli("recall", "tea", "--json").out) == BROUGHT


@pytest.mark.parametrize(("memories", "shown"), [([], "--least 0"), (BROUGHT["memories"], "no memory fits the budget")])
def test_nothing_to_print_is_said_and_no_failure(cli: Cli, api: Stub, memories: object, shown: str) -> None:
    api.replies["POST /v1/recall"] = Reply(200, {**BROUGHT, "memories": memories, "context": "", "ids": []})
    done = cli("recall", "tea")
    assert (done.code, done.out) == (0, "")
    assert shown in done.err


@pytest.mark.parametrize(
    ("thresholds", "shown"),
    [
        ({"least": 0.5}, "no memory is relevant enough to exceed --least (0.5): try `ebbing search`, or lower it"),
        (
            {"recall.relevance_above_for_questions": 0.03, "recall.best_above_for_questions": 0.005},
            "exceed recall.relevance_above_for_questions (0.03) or recall.best_above_for_questions (0.005): try",
        ),
    ],
)
def test_nothing_relevant_names_the_thresholds_that_applied(
    cli: Cli, api: Stub, thresholds: object, shown: str
) -> None:
    api.replies["POST /v1/recall"] = Reply(200, BROUGHT | {"memories": [], "context": "", "thresholds": thresholds})
    assert shown in cli("recall", "tea").err


def test_an_explanation_shows_what_makes_up_a_relevance(cli: Cli, api: Stub) -> None:
    threshold = {"name": "recall.best_above_for_questions", "above": 0.005}
    explain = {
        "threshold": threshold,
        "open": 0.9,
        "worth": 0.75,
        "conversation": {"question": 1.0, "rare": 0.0},
        "memory": {"words": 2.5},
    }
    memory = {"id": "0190", "text": "Mint tea", "relevance": 0.675, "explain": explain}
    api.replies["POST /v1/recall"] = Reply(200, BROUGHT | {"memories": [memory]})
    done = cli("recall", "which tea?", "--explain")
    assert api.asked[0].json == {"messages": ["which tea?"], "explain": True}
    assert done.out.splitlines()[3:] == [
        "",
        "0190  relevance 0.675, exceeds recall.best_above_for_questions (0.005)",
        "    of the conversation  open 0.900  question 1.000",
        "    of the memory        worth 0.750  words 2.500",
    ]
