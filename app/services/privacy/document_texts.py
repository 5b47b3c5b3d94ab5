"""Read the texts of documents for people: English, or the operator's translation."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from app.domain.privacy.documents.texts import ENGLISH, Texts, parse_translation
from app.errors import Misconfigured
from app.settings import settings


def read() -> Texts:
    """Return the texts of documents for people.

    Raises:
        Misconfigured: The operator's translation can't be read or is incomplete.
    """
    path = settings().document_texts
    return ENGLISH if path is None else _read_translation(path)


@lru_cache(maxsize=1)
def _read_translation(path: Path) -> Texts:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise Misconfigured(f"EBBING_DOCUMENT_TEXTS can't be read: {error}") from None
    return parse_translation(content)
