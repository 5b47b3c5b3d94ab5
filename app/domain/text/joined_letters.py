"""Recognise Chinese, Japanese and Korean texts, in which spaces don't separate words as they do elsewhere."""

from __future__ import annotations

import re
from typing import Final

JOINED_LETTERS: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3]+")
"""A run of Chinese, Japanese or Korean letters."""
_ONE_IN: Final = 3


def is_joined(text: str) -> bool:
    """Return whether at least a third of the characters are Chinese, Japanese or Korean letters."""
    return not text.isascii() and _ONE_IN * sum(map(len, JOINED_LETTERS.findall(text))) >= len(text)
