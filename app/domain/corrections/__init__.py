"""Detect which of a speaker's earlier statements a later one corrects, in English text."""

from __future__ import annotations

from app.domain.corrections.correction_matching import Correction, EarlierStatement, Reason, find_corrections, rarity
from app.domain.corrections.english_patterns import CHANGES_MARKERS, ENDS_MARKERS, VALUES_MARKERS
from app.domain.corrections.statements import ParsedStatement, may_correct, parse_statement

__all__ = [
    "CHANGES_MARKERS",
    "ENDS_MARKERS",
    "VALUES_MARKERS",
    "Correction",
    "EarlierStatement",
    "ParsedStatement",
    "Reason",
    "find_corrections",
    "may_correct",
    "parse_statement",
    "rarity",
]
