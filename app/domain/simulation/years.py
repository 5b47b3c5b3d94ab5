"""The years that can be simulated, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.domain.simulation.hard.year import generate_hard_year
from app.domain.simulation.year import Year, generate_year

YEARS: Final[dict[str, Callable[[int, int, int], Year]]] = {"old": generate_year, "hard": generate_hard_year}
"""Generators by name; each takes the number of memories, the number of days, and a seed.

`old` has 54 topics, whose words the authors of the salience rules had read; `hard` has more than 300, in dialogues and
in words that the rules don't list."""
