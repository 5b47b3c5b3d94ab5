"""The dependency audit reports `clean` only for packages that it has looked up."""

from __future__ import annotations

from typing import Any

import pytest

from ops.checks.audit import LOCK, pins, verdict

GOOD: dict[str, Any] = {"name": "good", "version": "1", "vulns": []}
BAD: dict[str, Any] = {"name": "bad", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
UNKNOWN: dict[str, Any] = {"name": "unknown", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("report", "code", "text"),
    [
        (None, 0, "audit: unknown (7 packages could not be audited)"),
        ({"dependencies": []}, 0, "audit: unknown (7 packages could not be audited)"),
        ({"dependencies": [GOOD, UNKNOWN]}, 0, "audit: unknown (1 packages could not be audited)"),
        ({"dependencies": [GOOD]}, 0, "audit: clean (1 packages)"),
        ({"dependencies": [GOOD, BAD]}, 1, "audit: bad 1: CVE-1, fixed in 2"),
        (
            {"dependencies": [BAD, UNKNOWN]},
            1,
            "audit: bad 1: CVE-1, fixed in 2\naudit: unknown (1 packages could not be audited)",
        ),
    ],
)
def test_the_verdict_follows_what_was_looked_up(report: dict[str, Any] | None, code: int, text: str) -> None:
    assert verdict(report, packages=7) == (code, text)


def test_the_lock_names_its_packages() -> None:
    assert pins(LOCK.read_text()) > 50
