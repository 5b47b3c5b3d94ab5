"""Message texts that the service can store."""

from __future__ import annotations

from app.domain.ingest.memory import TEXT_MAX_BYTES
from app.domain.prompts import clip


def storable(text: str) -> str:
    """Return the text without NUL characters, which PostgreSQL cannot store, cut to the maximum length of a memory."""
    return clip(text.replace("\0", " "), TEXT_MAX_BYTES)


def changes(cut: int, blank: int = 0, unknown: int = 0) -> tuple[str, ...]:
    """Return the notes about a reader's changes, without those that count 0.

    Args:
        cut: Messages cut to the maximum length of a memory.
        blank: Messages skipped because they have no text.
        unknown: Ids of evidence skipped because no message has them.
    """
    said = {
        f"messages cut to {TEXT_MAX_BYTES // 1024} KiB": cut,
        "messages without text, skipped": blank,
        "unknown ids of evidence, skipped": unknown,
    }
    return tuple(f"{name}: {count:,}" for name, count in said.items() if count)
