"""Round numbers for people."""

from __future__ import annotations

from typing import Final

SMALLEST: Final = 0.0005
"""Values closer to zero are shown as `almost 0`."""


def round_for_people(value: float, digits: int = 3) -> str:
    """Format a number with this many significant digits, without exponents: `0.286`, `12,346`, `almost 0`."""
    if 0 < abs(value) < SMALLEST:
        return "almost 0"
    shown = f"{value:.{digits}g}"
    return f"{round(value):,}" if "e" in shown else shown
