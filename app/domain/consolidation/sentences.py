"""Split text in any script into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LONG_CHARACTERS: Final = 320
"""Length beyond which a sentence is split at a pause: long text without full stops isn't a single thought."""

_SHORT_FORMS: Final = (
    "dr mr mrs ms prof st no vs etc e.g i.e approx inc ltd co jr sr dept est fig min max jan feb mar apr jun jul aug "
    "sep sept oct nov dec bzw z.b usw ca nr"
)
_SHORT: Final = frozenset(_SHORT_FORMS.split())
# The end of a sentence or a line; scripts without spaces have their own punctuation.
_END: Final = re.compile(
    r"(?P<stop>[.!?…]+[\"'”’)\]]*)(?=\s)|[!?。！？｡।॥۔؟]+[\"'”’」』）)]*|\n+"  # noqa: RUF001 - punctuation of other scripts
)
# "am 3. Oktober": an ordinal if a lower-case letter or a month follows
_DAY_BEFORE: Final = re.compile(r"(?:^|\s)\d{1,2}$")
_MONTH_AFTER: Final = re.compile(r"\s+(?:[^\W\d_A-Z]|Jan|Feb|M[aä]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])")
_BULLET: Final = re.compile(r"^\s*(?:[-*•–]|\d{1,2}[.)])\s+")
_PAUSE: Final = re.compile(r"[;,:，、；،]\s*|\s[–—-]\s|\s")  # noqa: RUF001
_WORDY: Final = re.compile(r"[^\W_]")
_CLOSED: Final = re.compile(r"[.!?…。！？｡।॥۔؟:;,][\"'”’」』）)\]]*$")  # noqa: RUF001
_NO_BLANKS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def split_sentences(text: str) -> list[str]:
    """Return a text's non-empty sentences in order, without bullets and surrounding whitespace."""
    return [part for sentence in _split(text) for part in _parts(_BULLET.sub("", sentence, count=1).strip())]


def join_sentences(parts: list[str]) -> str:
    """Join sentences into one text, adding a full stop to those without closing punctuation."""
    text = ""
    for part in parts:
        foreign = _NO_BLANKS.search(part[-3:]) is not None
        closed = part if _CLOSED.search(part) else f"{part}{'。' if foreign else '.'}"
        text += closed if not text or foreign else f" {closed}"
    return text


def _split(text: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(text):
        if end["stop"] == "." and _is_abbreviation(text[start : end.start()], text[end.end() : end.end() + 8]):
            continue
        yield text[start : end.end()]
        start = end.end()
    yield text[start:]


def _is_abbreviation(before: str, after: str) -> bool:
    """Return whether the full stop between these texts belongs to an abbreviation, an initial or an ordinal day."""
    if _DAY_BEFORE.search(before) and _MONTH_AFTER.match(after):
        return True
    word = before.rsplit(None, 1)[-1] if before.strip() else ""
    bare = word.lstrip("(\"'“").casefold()
    if "." in bare and after.lstrip()[:1].islower():
        return True
    return bare in _SHORT or (len(word) == 1 and word.isupper() and word != "I")


def _parts(sentence: str) -> Iterator[str]:
    """Yield the sentence, split if it is too long; nothing if it contains no word."""
    while len(sentence) > LONG_CHARACTERS:
        ends = [pause.end() for pause in _PAUSE.finditer(sentence, LONG_CHARACTERS // 3, LONG_CHARACTERS)]
        punctuated = [end for end in ends if not sentence[:end].rstrip()[-1:].isalnum()]
        cut = (punctuated or ends or [LONG_CHARACTERS])[-1]
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    if _WORDY.search(sentence):
        yield sentence
