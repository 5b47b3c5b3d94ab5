"""Detect secrets in texts: keys, tokens and passwords."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

# Prefixes that issuers use to make their keys recognisable.
_ISSUED: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"sk-(?:proj-|ant-|or-)?[A-Za-z0-9_-]{20,}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{18,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}|dop_v1_[a-f0-9]{60,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|ebb_[A-Za-z0-9]{8,}_[A-Za-z0-9]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r")"
)
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z ]+ )?PRIVATE KEY(?: BLOCK)?-----")
_IN_URL: Final = re.compile(r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:(?P<word>[^\s/@]{3,128})@", re.IGNORECASE)
_TOLD: Final = re.compile(
    r"\b(?P<name>(?:pass\s?(?:word|phrase|code)|passwd|pwd|pin(?:\s+code)?|kennwort|passwort|mot\s+de\s+passe|contraseñ?a"
    r"|api[\s_-]?key|access[\s_-]?(?:key|token)|auth(?:orization)?[\s_-]?token|secret(?:[\s_-]?key)?|client[\s_-]?secret"
    r"|bearer|token|recovery\s+code)s?)\b"
    r"(?:\s+(?:for|to|of|vom|für|de|du)\s+(?:[\w'’-]+\s+){1,4}?)?"
    r"\s*(?:(?:is|was|ist|lautet|war|est|es|è|to)\b\s*(?:now\s+)?[:=]?|[:=]|(?=\s[\"'`]))\s*[\"'`]?(?P<word>[^\s\"'`,;]{4,128})",
    re.IGNORECASE,
)
_ORDINARY: Final = re.compile(r"[A-Za-zÀ-ÿ]+(?:['’-][A-Za-zÀ-ÿ]+)*[.!?)]*", re.UNICODE)
_PIN: Final = re.compile(r"\d{4,8}[.!?)]*")
_ENTROPY_FROM: Final = 3.0
"""Minimum bits per character of a secret of 8 characters or more with one kind of characters; most words have fewer."""


def find_secrets(text: str) -> Iterator[tuple[int, int, float]]:
    """Yield start, end and confidence of each secret; `the password is …` yields only the secret word."""
    for match in _ISSUED.finditer(text):
        yield match.start(), match.end(), 0.98
    for match in _PRIVATE_KEY.finditer(text):
        yield match.start(), match.end(), 0.99
    for match in _IN_URL.finditer(text):
        yield match.start("word"), match.end("word"), 0.995
    for match in _TOLD.finditer(text):
        confidence = _secret_confidence(match["name"].lower(), match["word"])
        if confidence:
            yield match.start("word"), match.end("word"), confidence


def _secret_confidence(name: str, word: str) -> float:
    """Return the confidence that this word, following that name, is the secret and not the rest of a sentence."""
    if name.startswith("pin"):
        return 0.9 if _PIN.fullmatch(word) else 0.0
    if _ORDINARY.fullmatch(word):  # "the password is wrong", but "the password is Tr0ub4dor"
        return 0.0
    character_kinds = sum(bool(re.search(kind, word)) for kind in (r"[a-z]", r"[A-Z]", r"\d", r"[^\w.]"))
    if character_kinds >= 2 and len(word) >= 6:
        return 0.9
    return 0.6 if _entropy(word) >= _ENTROPY_FROM and len(word) >= 8 else 0.0


def _entropy(word: str) -> float:
    counts = Counter(word)
    return -sum(count / len(word) * math.log2(count / len(word)) for count in counts.values())
