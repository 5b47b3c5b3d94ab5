"""Numbers for people: significant digits, no exponents, and no digits that nobody compares."""

from __future__ import annotations

import pytest

from app.domain.rounding import round_for_people


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (1.07e-07, "almost 0"),
        (-0.000196, "almost 0"),
        (0.0005, "0.0005"),
        (0.28571, "0.286"),
        (12.34, "12.3"),
        (999.9, "1,000"),
        (12345.6, "12,346"),
    ],
)
def test_a_number_is_rounded(value: float, shown: str) -> None:
    assert round_for_people(value) == shown


def test_more_digits_are_possible() -> None:
    assert round_for_people(30.521, 4) == "30.52"
