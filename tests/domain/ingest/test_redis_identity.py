"""A Redis is accepted or refused by its mark."""

from __future__ import annotations

import pytest

from app.domain.ingest.redis_identity import TAIL_MS, Expected, Mark, diagnose

OURS = Expected(Mark("a", 1_000_000), is_claimed=True)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Mark("a", 1_000_000), OURS),
        (Mark("a", 2_000_000), OURS),  # PostgreSQL was restored from a backup, or is a moment behind
        (Mark("a", 1_000_000 - TAIL_MS), OURS),
        (Mark(None, 0), Expected(Mark("a", 0), is_claimed=False)),
        (Mark("a", 0), Expected(Mark("a", 0), is_claimed=False)),
    ],
)
def test_the_installations_redis_is_accepted(found: Mark, expected: Expected) -> None:
    assert diagnose(found, expected) is None


@pytest.mark.parametrize(
    ("found", "expected", "what"),
    [
        (Mark(None, 0), OURS, "emptied"),
        (Mark("b", 1_000_000), OURS, "another installation"),
        (Mark("b", 0), Expected(Mark("a", 0), is_claimed=False), "another installation"),
        (Mark("a", 1_000_000 - TAIL_MS - 1), OURS, "older copy, 10 s behind"),
    ],
)
def test_any_other_redis_is_refused_with_a_remedy(found: Mark, expected: Expected, what: str) -> None:
    wrong = diagnose(found, expected)
    assert wrong is not None
    assert what in wrong
    assert "ebbing queue accept" in wrong
