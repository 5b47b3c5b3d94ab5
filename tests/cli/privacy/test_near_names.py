"""Commands on a subject that no memory has propose near names, and continue only after confirmation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

ERASURES = "/v1/privacy/erasures"
HOLDS = "/v1/privacy/holds"
SUBJECTS = "/v1/privacy/subjects"
NEAR: dict[str, Any] = {
    "warning": "no stored memory has this subject",
    "near": [
        {"subject": "chen", "likeness": "case", "memories": 212},
        {"subject": "u\x1b7", "likeness": "speaker", "memories": 1},
    ],
}
SAID = (
    "no stored memory has the subject `Chen`; did you mean `chen` (212 memories; differs only in capitals) or `u 7` "
    "(1 memory, with this speaker)?"
)
DATES = {"due_at": None, "erase_after": "2026-03-14T11:00:00Z"}
WOULD = {"memories": 0, "held": 0, "holds": []} | DATES
DONE = {"erasure_id": "e1", "hidden": 0} | WOULD
COUNTS = {"memories": 0, "hidden": 0}
HELD = {
    "subject": "Chen",
    "memories": {"active": 0, "archived": 0, "cold": 0},
    **dict.fromkeys(("hidden", "held", "exports", "open_erasures"), 0),
}
COMMANDS = (
    ("erase", "Chen"),
    ("hold", "place", "--subject", "Chen", "--reason", "x"),
    ("export", "Chen", "--output", "chen.zip"),
)


def answer(api: Stub, more: dict[str, Any]) -> None:
    api.replies[f"POST {ERASURES}"] = Reply(200, DONE | more)
    api.replies[f"POST {HOLDS}"] = Reply(200, {"id": "h1"} | COUNTS | more)
    api.replies[f"GET {HOLDS}/h1"] = Reply(200, {"id": "h1"} | COUNTS)
    api.replies["GET /v1/subjects/Chen"] = Reply(200, HELD | more)


def requested(api: Stub) -> int:
    """Return the number of calls that would change something."""
    return sum(asked.method == "POST" and "dry_run" not in asked.json for asked in api.asked)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("yes", [(), ("--yes",)], ids=["asked", "yes"])
def test_a_near_miss_is_refused_with_the_names(cli: Cli, api: Stub, words: tuple[str, ...], yes: tuple[str]) -> None:
    answer(api, NEAR)
    done = cli(*words, *yes, given="y\n")
    assert done.code == 2
    assert SAID in done.err
    assert "or with --as-written" in done.err
    assert requested(api) == 0


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("yes", [(), ("--yes",)], ids=["asked", "yes"])
def test_an_unknown_name_without_near_ones_is_refused_too(
    cli: Cli, api: Stub, words: tuple[str, ...], yes: tuple[str]
) -> None:
    answer(api, NEAR | {"near": []})
    done = cli(*words, *yes, given="y\n")
    assert (done.code, requested(api)) == (2, 0)
    assert "no stored memory has the subject `Chen`, and no similar name was found" in done.err
    assert "search for the family name alone, or for another spelling (`ebbing privacy subjects --search" in done.err
    assert "or with --as-written" in done.err


@pytest.mark.parametrize("words", COMMANDS[:2], ids=lambda words: words[0])
@pytest.mark.parametrize("near", [NEAR["near"], []], ids=["near", "none"])
def test_it_goes_on_as_written_with_a_warning(cli: Cli, api: Stub, words: tuple[str, ...], near: list[Any]) -> None:
    answer(api, NEAR | {"near": near})
    done = cli(*words, "--yes", "--as-written")
    assert (done.code, requested(api)) == (0, 1)
    assert "warning: no stored memory has the subject `Chen`" in done.err
    assert (SAID in done.err) == bool(near)


def test_an_export_goes_on_as_written(cli: Cli, api: Stub) -> None:
    answer(api, NEAR)
    api.replies["POST /v1/privacy/exports"] = Reply(409, {"title": "stopped here"})
    assert requested(api) == 0
    assert cli(*COMMANDS[2], "--yes", "--as-written").code != 2
    assert requested(api) == 1


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_dry_run_says_it_in_its_result(cli: Cli, api: Stub, words: tuple[str, ...]) -> None:
    answer(api, NEAR)
    shown = cli(*words, "--dry-run").out
    assert SAID in shown
    late = "With --as-written, data that arrives under this name until 2026-03-14 11:00 UTC would be erased."
    assert (late in shown) == (words[0] == "erase")
    assert json.loads(cli(*words, "--dry-run", "--json").out)["near"] == NEAR["near"]


def test_a_dry_run_without_near_names_proposes_a_search(cli: Cli, api: Stub) -> None:
    answer(api, NEAR | {"near": []})
    shown = cli("erase", "Chen", "--dry-run").out
    assert "(`ebbing privacy subjects --search NAME`). With --as-written, data that arrives" in shown
    api.replies[f"POST {SUBJECTS}/search"] = Reply(200, {"subjects": [], "complete": True})
    found = cli("privacy", "subjects", "--search", "Chen")
    assert "no similar name was found: search for the family name alone" in found.err
    api.replies[f"POST {SUBJECTS}/search"] = Reply(200, {"subjects": [], "complete": False})
    assert "no similar name was found" not in cli("privacy", "subjects", "--search", "Chen").err


def test_the_answer_repeats_the_holds_of_the_preview(cli: Cli, api: Stub) -> None:
    holds = [{"hold_id": "8e65", "memories": 2, "placed_at": "2026-03-01T00:00:00Z"}]
    reply = DONE | {"hidden": 212, "memories": 212, "held": 2, "holds": holds, "due_at": "2026-12-21T09:00:00Z"}
    api.replies[f"POST {ERASURES}"] = Reply(202, reply)
    outcome = (
        "210 will be erased permanently after 2026-03-14 11:00 UTC; 2 stay under legal hold 8e65 until its release. "
        "Legal deadline: 2026-12-21."
    )
    assert f"Would hide 212 memories. {outcome}" in cli("erase", "ann", "--dry-run").out
    assert cli("erase", "ann", "--yes").out == f"Request ID e1: 212 memories hidden. {outcome}\n"


def test_other_spellings_of_a_known_name_are_named(cli: Cli, api: Stub) -> None:
    others = [
        {"subject": "Chen Wei", "likeness": "spelling", "memories": 1},
        {"subject": "Wei, Chen", "likeness": "words", "memories": 2},
    ]
    names = "`Chen Wei` (1 memory), `Wei, Chen` (2 memories; other order of the words, or a title)"
    said = f"Not included: {names}, the same name in another spelling or order."
    api.replies[f"POST {ERASURES}"] = Reply(202, DONE | {"hidden": 10, "memories": 10, "other_spellings": others})
    assert said in cli("erase", "Chen", "--dry-run").out
    assert said in cli("erase", "Chen", given="n\n").err
    assert f"warning: {said}" in cli("erase", "Chen", "--yes").err
    api.replies["GET /v1/subjects/Chen"] = Reply(200, HELD | {"other_spellings": others})
    assert said in cli("export", "Chen", "--dry-run").out
    api.replies[f"POST {HOLDS}"] = Reply(200, {"id": "h1"} | COUNTS | {"other_spellings": others})
    place = ("hold", "place", "--subject", "Chen", "--reason", "x")
    assert said in cli(*place, "--dry-run").out
    assert f"warning: {said}" in cli(*place, "--yes").err


def test_a_recorded_request_names_the_command_for_other_spellings(cli: Cli, api: Stub) -> None:
    others = [{"subject": "chen", "likeness": "case", "memories": 1}]
    would = DONE | {"hidden": 10, "memories": 10, "other_spellings": others}
    api.replies[f"POST {ERASURES}"] = Reply(202, would | {"kind": "gdpr", "received_at": "2026-11-16T00:00:00Z"})
    shown = cli("erase", "Chen", "--request", "r1", "--dry-run").out
    assert "`chen` (1 memory; differs only in capitals)" in shown
    assert "run `ebbing erase NAME --law gdpr --received 2026-11-16`, without --request" in shown
    assert "Repeat the command" not in shown
    case = {"case_reference": "DSR-17", "controller": "Example Ltd", "legal_basis": "b"}
    api.replies[f"POST {ERASURES}"] = Reply(
        202, would | case | {"kind": "gdpr", "received_at": "2026-11-16T00:00:00Z", "other_spellings": others}
    )
    shown = cli("erase", "Chen", "--request", "r1", "--dry-run").out
    assert "--received 2026-11-16 --case DSR-17 --controller 'Example Ltd' --legal-basis b`, without --request" in shown
    assert "Record the identity check of that entry too" in shown
    logged = {"law": "gdpr", "received_at": "2026-11-17T00:00:00Z", "case_reference": "DSR-18"}
    api.replies["GET /v1/privacy/requests/r1"] = Reply(200, logged)
    api.replies["GET /v1/subjects/Chen"] = Reply(200, HELD | {"other_spellings": others})
    api.replies["POST /v1/privacy/exports"] = Reply(200, {"kind": "access", "memories": 10})
    shown = cli("export", "Chen", "--request", "r1", "--dry-run").out
    assert "run `ebbing export NAME --law gdpr --received 2026-11-17 --case DSR-18`, without --request" in shown


def test_the_case_is_sent_with_the_request(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {ERASURES}"] = Reply(202, DONE)
    cli("erase", "--thread", "t", "--yes", "--case", "DSR-17", "--controller", "Example Ltd", "--legal-basis", "b")
    sent = api.asked[0].json
    assert (sent["case_reference"], sent["controller"], sent["legal_basis"]) == ("DSR-17", "Example Ltd", "b")


def test_subjects_are_listed_and_searched(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {SUBJECTS}"] = Reply(
        200, {"subjects": [{"subject": "chen", "memories": 212, "hidden": 1}], "next_cursor": None}
    )
    assert ["chen", "212", "1"] in [line.split() for line in cli("privacy", "subjects").out.splitlines()]
    api.replies[f"POST {SUBJECTS}/search"] = Reply(200, {"subjects": NEAR["near"], "complete": False})
    found = cli("privacy", "subjects", "--search", "Chen")
    assert "differs only in capitals" in found.out
    assert "not all subjects were compared" in found.err
    assert api.asked[-1].json == {"name": "Chen", "limit": 100}
    assert "Chen" not in api.asked[-1].path


def test_a_name_in_another_unicode_form_is_told_apart(cli: Cli, api: Stub) -> None:
    composed, decomposed = "Zo\u00eb", "Zoe\u0308"
    near = [{"subject": decomposed, "likeness": "case", "memories": 3}]
    answer(api, {"near": near})
    said = f"did you mean `{decomposed}` (3 memories; the same letters, stored in another Unicode form)"
    assert said in cli("erase", composed, "--dry-run").out
    assert said in cli("erase", composed).err
    api.replies[f"POST {SUBJECTS}/search"] = Reply(200, {"subjects": near, "complete": True})
    found = cli("privacy", "subjects", "--search", composed).out
    assert "the same letters, stored in another Unicode form" in found
    assert "other case" not in found
