"""Every option that takes a time accepts the API's timestamps and plain dates."""

from __future__ import annotations

import pytest
import typer

from app.cli.core.time_option import parse_time
from tests.cli.conftest import Cli
from tests.cli.stub import Stub


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("2026-11-20", "2026-11-20T00:00:00+00:00"),
        ("2026-11-20 18:00", "2026-11-20T18:00:00+00:00"),
        ("2026-11-20T15:30:45.933711Z", "2026-11-20T15:30:45.933711+00:00"),
        ("2026-11-20T18:00:00+02:00", "2026-11-20T18:00:00+02:00"),
        (None, None),
    ],
)
def test_a_moment_is_a_day_or_as_the_api_shows_it(given: str | None, taken: str | None) -> None:
    assert parse_time(given) == taken


@pytest.mark.parametrize("given", ["", "today", "2026-13-01", "1795188532"])
def test_what_is_none_is_refused(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 2026-11-20"):
        parse_time(given)


@pytest.mark.parametrize(
    "words",
    [
        ["touch", "m", "--at"],
        ["observe", "m", "--at"],
        ["review", "m", "--passed", "--at"],
        ["maintain", "sweep", "--as-of"],
        ["policy", "diff", "--set", "tiers.cold_below=0.1", "--at"],
        ["search", "x", "--after"],
        ["keys", "create", "n", "--expires"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_every_command_reads_them_alike(cli: Cli, api: Stub, words: list[str]) -> None:
    done = cli(*words, "tomorrow")
    assert done.code == 2
    assert "such as 2026-11-20" in done.err.replace("\n", " ")
    assert not api.asked
