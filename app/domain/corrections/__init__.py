"""Detect which of a speaker's earlier statements a later one corrects, in English text."""

from __future__ import annotations

from app.domain.corrections.deciding import Correction, Earlier, Reason, decide, rarity
from app.domain.corrections.english import CHANGES_MARKERS, ENDS_MARKERS, VALUES_MARKERS
from app.domain.corrections.reading import Statement, may_correct, read

__all__ = [
    "CHANGES_MARKERS",
    "ENDS_MARKERS",
    "VALUES_MARKERS",
    "Correction",
    "Earlier",
    "Reason",
    "Statement",
    "decide",
    "may_correct",
    "rarity",
    "read",
]
