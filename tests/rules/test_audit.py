"""The dependency audit reports `clean` only for packages that it has looked up."""

from __future__ import annotations

from typing import Any

import pytest

from ops.checks.__main__ import summarise
from ops.checks.audit import LOCK, NOT_CHECKED, pins, verdict

GOOD: dict[str, Any] = {"name": "good", "version": "1", "vulns": []}
BAD: dict[str, Any] = {"name": "bad", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
UNKNOWN: dict[str, Any] = {"name": "unknown", "skip_reason": "not found"}


NONE = (
    "audit: NOT CHECKED: {} packages could not be looked up; "
    "run `make audit` where https://pypi.org/pypi can be reached"
)


@pytest.mark.parametrize(
    ("report", "code", "text"),
    [
        (None, NOT_CHECKED, NONE.format("7 of 7")),
        ({"dependencies": []}, NOT_CHECKED, NONE.format("7 of 7")),
        ({"dependencies": [GOOD, UNKNOWN]}, NOT_CHECKED, NONE.format("1 of 2")),
        ({"dependencies": [GOOD]}, 0, "audit: clean (1 packages)"),
        ({"dependencies": [GOOD, BAD]}, 1, "audit: bad 1: CVE-1, fixed in 2"),
        ({"dependencies": [BAD, UNKNOWN]}, 1, "audit: bad 1: CVE-1, fixed in 2\n" + NONE.format("1 of 2")),
    ],
)
def test_the_verdict_follows_what_was_looked_up(report: dict[str, Any] | None, code: int, text: str) -> None:
    assert verdict(report, packages=7) == (code, text)


def test_the_lock_names_its_packages() -> None:
    assert pins(LOCK.read_text()) > 50


def test_a_check_that_could_not_be_done_does_not_look_like_one_that_passed() -> None:
    assert summarise([], []) == "check: all passed"
    assert summarise([], ["audit"]) == "check: the others passed; NOT CHECKED: audit"
    assert summarise(["ruff"], ["audit"]) == "check: 1 failed: ruff; NOT CHECKED: audit"
