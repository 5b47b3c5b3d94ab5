"""Builders of summary sources for tests."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.domain.consolidation.group_types import Source

DAY = 86_400.0
START = 1_746_266_400.0  # 2025-05-03 10:00 UTC


def source(place: int, text: str, speaker: str | None = None, days: float | None = None) -> Source:
    """Build a source, dated one day after the previous one by default."""
    return Source(UUID(int=place + 1), text, speaker, START + DAY * (place if days is None else days), 0.3)


def sources(said: Sequence[str | tuple[str, str]]) -> list[Source]:
    """Build one source per text, or per pair of speaker and text, a day apart."""
    pairs = [(None, each) if isinstance(each, str) else each for each in said]
    return [source(place, text, speaker) for place, (speaker, text) in enumerate(pairs)]


MOVE = [
    ("Ana", "I booked the flight to Lisbon for 12 June, it cost 212 euros. So excited!"),
    ("Ben", "Nice! Did you find a flat?"),
    ("Ana", "Yes, at Rua da Rosa 14. The landlord is Carlos, his number is 555-0117."),
    ("Ben", "Mine is 555-0199, don't mix them up. I don't eat meat, by the way."),
    ("Ana", "The flight was moved to 15 June, see https://tap.example/b/77."),
    ("Ben", "ok thanks"),
]
