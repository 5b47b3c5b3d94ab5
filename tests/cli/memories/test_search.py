"""Requests and output of `ebbing search`."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

ID = "01990c1e-7b1c-7e55-8f4b-0a1b2c3d4e5f"
FOUND = {
    "id": ID,
    "text": "Mint tea\u001b[31m, [bold]please[/bold]",
    "score": 1.375,
    "strength": 0.82,
    "tier": "archived",
    "subject": None,
    "speaker": "Orla",
    "occurred_at": None,
    "created_at": "2026-05-04T09:00:00Z",
}
WHY = {
    "words": 1.0,
    "relevance": 0.25,
    "actor": 0.0,
    "factors": {"strength": 1.1},
    "ranks": {"words": 1, "relevance": None},
    "matched": {"mint": 5.125, "tea": 3.25},
    "near": {"cup\u001b": 1.0},
    "vitals": {"strength": 0.82, "importance": 0.6, "recency": 0.9, "salience": 0.5},
}


@pytest.fixture(autouse=True)
def _finding(api: Stub) -> None:
    api.replies["POST /v1/search"] = Reply(200, {"results": [FOUND], "took_ms": 3.1})


@pytest.mark.parametrize(
    ("words", "field", "sent"),
    [
        (["-n", "3"], "limit", 3),
        (["--subject", "Orla"], "subject", "Orla"),
        (["--thread", "t"], "thread", "t"),
        (["--exclude-thread", "t"], "exclude_thread", "t"),
        (["--tag", "a", "--tag", "b"], "tags", ["a", "b"]),
        (["--category", "a", "--category", "b"], "categories", ["a", "b"]),
        (["--entity", "Ann"], "entities", ["Ann"]),
        (["--speaker", "Ann"], "speaker", "Ann"),
        (["--metadata", "source=crm", "--metadata", "rank=1"], "metadata", {"source": "crm", "rank": 1}),
        (["--metadata", 'labels=["a"]'], "metadata", {"labels": ["a"]}),
        (["--external-id", "k"], "external_id", "k"),
        (["--memory", "m1", "--memory", "m2"], "ids", ["m1", "m2"]),
        (["--kind", "semantic"], "kinds", ["semantic"]),
        (["--role", "tool", "--role", "user"], "roles", ["tool", "user"]),
        (["--source", "user", "--source", "unknown"], "sources", ["user", "unknown"]),
        (["--tier", "active", "--tier", "cold"], "tiers", ["active", "cold"]),
        (["--after", "2026-01-01"], "after", "2026-01-01T00:00:00+00:00"),
        (["--before", "2026-02-01T10:00:00"], "before", "2026-02-01T10:00:00+00:00"),
        (["--as-of", "2026-02-01"], "as_of", "2026-02-01T00:00:00+00:00"),
        (["--mode", "cmm"], "mode", "cmm"),
        (["--weight", "words=2", "--weight", "strength=0.1"], "weights", {"words": 2, "strength": 0.1}),
        (["--rerank", "0"], "rerank", 0),
        (["--review-blend", "0"], "review_blend", 0),
        (["--turn", "0"], "turn", 0),
        (["--superseded"], "superseded", True),
        (["--session", "chat"], "session", "chat"),
        (["--no-reinforce"], "reinforce", False),
        (["--reinforce"], "reinforce", True),
        (["--explain"], "explain", True),
    ],
)
def test_what_is_given_is_sent_and_nothing_else(
    cli: Cli, api: Stub, words: list[str], field: str, sent: object
) -> None:
    assert cli("search", "tea", *words).code == 0
    assert api.asked[0].json == {"query": "tea", "limit": 10} | {field: sent}


@pytest.mark.parametrize("words", [["search", "tea"], ["recall", "tea"], ["threads", "t"], ["keys", "create", "a"]])
def test_a_source_that_doesnt_exist_isnt_sent(cli: Cli, api: Stub, words: list[str]) -> None:
    done = cli(*words, "--source", "users")
    assert (done.code, api.asked) == (2, [])
    assert "'users' isn't a source: use user, agent, document, tool, import or unknown" in " ".join(done.err.split())


def test_a_results_source_is_shown_if_the_reader_should_know_it(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/search"] = Reply(200, {"results": [FOUND | {"source": "tool"}]})
    assert "source  from a tool" in cli("search", "tea").out
    api.replies["POST /v1/search"] = Reply(200, {"results": [FOUND | {"source": "user"}]})
    assert "source" not in cli("search", "tea").out


def test_a_vector_takes_the_place_of_the_words(cli: Cli, api: Stub) -> None:
    assert cli("search", "--vector", "-", given="[0.5, 1]").code == 0
    assert api.asked[0].json == {"query": "", "limit": 10, "vector": [0.5, 1]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search"], "--vector FILE"),
        (["search", "--vector", "-"], "expected a JSON array of numbers"),
        (["search", "tea", "--weight", "2"], "expected field=value"),
    ],
)
def test_what_cant_be_asked_is_said(cli: Cli, api: Stub, words: list[str], said: str) -> None:
    done = cli(*words, given='{"a": 1}')
    assert (done.code, api.asked) == (2, [])
    assert said in " ".join(done.err.replace("│", " ").split())


def test_a_result_is_a_line_of_numbers_with_its_text_below(cli: Cli) -> None:
    heading, numbers, text = cli("search", "tea").out.splitlines()
    assert heading.split() == ["id", "score", "strength", "tier", "when"]
    assert numbers.split() == [ID, "1.375", "0.82", "archived", "2026-05-04"]
    assert max(map(len, (heading, numbers))) <= 80
    assert (
        text == "  Orla: Mint tea [31m, [bold]please[/bold]"
    )  # text is printed as is: no markup, no terminal control sequences


def test_an_explanation_is_a_line_for_each_of_its_parts(cli: Cli, api: Stub) -> None:
    shown = FOUND | {"explain": WHY, "for_review": True, "supersedes": ["m1", "m2"], "superseded_by": ["m9"]}
    api.replies["POST /v1/search"] = Reply(200, {"results": [shown], "took_ms": 3.1})
    assert [line.rstrip() for line in cli("search", "tea", "--explain").out.splitlines()[3:]] == [
        "    review   included because a review is due",
        "    older    supersedes m1, m2",
        "    newer    superseded by m9",
        "    score    words 1.000 (no. 1) + relevance 0.250",
        "    times    strength 1.100",
        "    matched  mint 5.12, tea 3.25",
        "    near     cup  1.00",
        "    vitals   strength 0.82, importance 0.60, recency 0.90, salience 0.50",
    ]


def test_what_has_come_along_says_from_where(cli: Cli, api: Stub) -> None:
    why = {"spread": 0.4, "spread_from": ID, "spread_by": "link", "factors": {"rerank": 10.0}}
    shown = FOUND | {"explain": why | {"reranker": {"model": "small", "score": 0.5}}}
    api.replies["POST /v1/search"] = Reply(200, {"results": [shown], "took_ms": 3.1})
    assert [line.rstrip() for line in cli("search", "tea", "--explain").out.splitlines()[3:]] == [
        "    score   spread 0.400",
        "    times   rerank 10.000",
        f"    spread  from {ID} by link",
        "    rerank  small gave 0.5",
    ]


def test_json_is_the_answer_as_it_came(cli: Cli) -> None:
    assert json.loads(cli("search", "tea", "--json").out) == {"results": [FOUND], "took_ms": 3.1}


def test_nothing_found_is_said_and_no_failure(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/search"] = Reply(200, {"results": [], "took_ms": 1})
    done = cli("search", "tea")
    assert (done.code, done.out, done.err) == (0, "", "no results\n")
