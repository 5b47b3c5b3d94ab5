"""Name the runbook's section for each reason of a dead letter, and explain the reason in two sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

PAGE: Final = "/ops/runbook"
"""Path of the page that the service serves."""
ANY_ERROR: Final = "The name of an error"
"""Heading for reasons that are names of errors."""
_FOREIGN: Final = (
    "Another program wrote this entry, or Redis lost part of it. A replay fails again: find out what wrote it, then "
    "discard it."
)

EXPLANATIONS: Final[Mapping[str, str]] = {
    "its worker died each time": "Each worker that processed this died, usually for lack of memory. Give the worker "
    "more memory, then replay.",
    "unknown envelope version": "This entry isn't one of Ebbing's, or a newer version wrote it. After an upgrade, "
    "bring the workers to the API's version, then replay; otherwise find out what wrote it, then discard it.",
    "envelope header out of shape": _FOREIGN,
    "envelope body and memory count differ": _FOREIGN,
    "Unreadable": _FOREIGN,
    "Invalid": "A field is invalid for these workers, usually after an upgrade. Bring the workers to the API's "
    "version, then replay.",
    "too_large": "The text exceeds the model's context, so the memory keeps its rule-based score. Discard this, or set "
    "another model and replay.",
    "bad_request": "The provider rejects the request, so the memory keeps its rule-based score. Discard this, or set "
    "another model and replay.",
    "the embedding model can't do it": "The new embedding model rejects the text, so searches find the memory only by "
    "its words. Discard this, or move to another model and replay.",
}
"""Meaning and next step of each fixed reason."""
_EXPLANATION: Final = (
    "Each attempt failed with this error. Find the error's name in the log of the worker, fix the cause of the error, "
    "then replay."
)
UNCOUNTED: Final = frozenset(
    {
        "unknown envelope version",
        "envelope header out of shape",
        "envelope body and memory count differ",
        "Unreadable",
    }
)
"""Reasons of entries that can't be decoded: their number of memories is only what the entry claims."""


def explain_reason(reason: str) -> str:
    """Return the meaning of a dead letter's reason, and the next step."""
    return EXPLANATIONS.get(reason, _EXPLANATION)


def reason_path(reason: str) -> str:
    """Return the path of the runbook's section about a dead letter's reason."""
    return section_path(anchor(reason if reason in EXPLANATIONS else ANY_ERROR))


def section_path(section: str) -> str:
    """Return the path of a section, given its anchor."""
    return f"{PAGE}#{section}"


def anchor(heading: str) -> str:
    """Return the anchor of a heading, by the rule of the sites that show Markdown files."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
