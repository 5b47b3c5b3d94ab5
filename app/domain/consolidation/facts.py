"""Extract facts that a text's form reveals: names, numbers, dates, links and negations.

A summary must neither lose nor invent facts. Each fact is normalised: "3,000" and "three thousand" are one number, "May
3rd" and "2025-05-03" one day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from app.domain.salience.features import NEGATIONS
from app.domain.text.inflection import other_forms
from app.domain.text.time_expressions import DAYS, MONTHS
from app.domain.text.words import STOP_WORDS

_DENIALS_ELSEWHERE = "nicht kein keine keinen keinem nie niemals jamais pas rien nunca jamás não nao mai niet geen inte"
_DENIALS: Final = (NEGATIONS - {"longer"}) | frozenset(_DENIALS_ELSEWHERE.split())
# Negations in scripts without spaces.
_UNSPACED: Final = re.compile("[不没沒未无無別别][\u3040-\u9fff]{1,2}|ない|ません")
_WORD: Final = re.compile(r"[^\W_]+(?:['’](?!s\b)[^\W_]+)*")
_LINK: Final = re.compile(
    r"(?:[a-z][a-z+.-]{1,15}://|www\.)[^\s<>\"]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w.])[@#][^\W\d]\w+"
    r"|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b(?:/[^\s<>\"]*)?",
    re.IGNORECASE,
)
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS) + "|sept"
_DATE: Final = re.compile(
    rf"\b(?P<iso>\d{{4}}-\d\d-\d\d)(?!\d)"
    rf"|\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<month>{_MONTH})\b\.?(?:,? (?P<year>\d{{4}})\b)?"
    rf"|\b(?P<month2>{_MONTH})\.? (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<year2>\d{{4}})\b)?"
    rf"|\b(?P<month3>(?-i:{'|'.join(name.capitalize() for name in MONTHS)}))\b(?: (?P<year3>\d{{4}})\b)?",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d+(?:[.,:/'’-]\d+)*(?P<thousand>k\b)?", re.IGNORECASE)
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:[.,'’]\d{3})+")
_SMALL_WORDS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
)
_SMALL: Final = {word: value for value, word in enumerate(_SMALL_WORDS.split(), start=2)}
_TENS: Final = {
    word: value
    for value, word in zip(
        range(20, 100, 10), ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), strict=True
    )
}
_SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_COUNT = "|".join([*_SMALL, "one", *_TENS])
_SPELT: Final = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})[- ](?P<unit>one|{'|'.join(list(_SMALL)[:8])})|(?P<count>{_COUNT}|an?))\b"
    rf"(?: (?P<scale>{'|'.join(_SCALES)})\b)?",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Herr|Frau)\.?$")
_ENDS: Final = frozenset('.!?:…\n"“”([{-–•*/>')
_NO_NAMES: Final = frozenset({"i", "ok", "am", "pm", "mr", "mrs", "ms", "dr"}) | frozenset(MONTHS) | frozenset(DAYS)
_IDEOGRAPHS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts found in a text by its form; all in lower case.

    Attributes:
        names: Capitalised words other than at the start of a sentence.
        starts: Capitalised words at the start of a sentence, which may or may not be names.
        numbers: Numbers outside dates, in digits.
        dates: Days and months, as `05-03` or `05`, and their years.
        links: Addresses, handles, tags.
        denied: Stems of the words that negations apply to.
    """

    names: frozenset[str]
    starts: frozenset[str]
    numbers: frozenset[str]
    dates: frozenset[str]
    links: frozenset[str]
    denied: frozenset[str]


def facts(text: str) -> Facts:
    """Return the facts of a text."""
    links, rest = _links(text) if any(sign in text for sign in ".@#:") else (frozenset[str](), text)
    dates: frozenset[str] = frozenset()
    if (matches := [*_DATE.finditer(rest)]) and (dates := frozenset(part for each in matches for part in _dated(each))):
        rest = _DATE.sub(" | ", rest)
    names, starts = _names(rest)
    return Facts(names, starts, frozenset(_numbers(rest)), dates, links, frozenset(_denied(rest)))


def numbers(text: str) -> frozenset[str]:
    """Return all numbers in a text, including those in dates and links."""
    return frozenset(_numbers(text))


def denies(text: str) -> bool:
    """Return whether a text contains a negation."""
    return _UNSPACED.search(text) is not None or any(_is_denial(word) for word in _words(text))


def stems(text: str) -> list[str]:
    """Return the stems of a text's content words; scripts without spaces yield overlapping character pairs."""
    text_stems = []
    for word in _words(text):
        if _IDEOGRAPHS.search(word):
            text_stems += [word[at : at + 2] for at in range(max(len(word) - 1, 1))]
        elif word not in STOP_WORDS:
            text_stems.append(stem(word))
    return text_stems


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return a stem shared by a word's inflections, including irregular English ones: went and going have one stem."""
    forms = other_forms(word)
    if forms:
        word = min(word, *forms)
    for ending in ("ies", "ing", "ed", "es", "s", "ly", "er", "en", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("’", "'"))


def _links(text: str) -> tuple[frozenset[str], str]:
    """Return the links, and the text without them."""
    links = frozenset(_bare(link[0]).casefold() for link in _LINK.finditer(text))
    return links, _LINK.sub(lambda link: f"| {link[0][len(_bare(link[0])) :]}", text) if links else text


def _bare(link: str) -> str:
    return link.rstrip(".,;:!?)]}'\"’”/")


def _dated(date: re.Match[str]) -> Iterator[str]:
    """Yield a date's normalised parts: month and day, month, and year, as far as they are stated."""
    if date["iso"]:
        year, month, day = date["iso"].split("-")
        yield from (f"{month}-{day}", month, year)
        return
    name = date["month"] or date["month2"] or date["month3"]
    month = f"{_month(name):02}"
    yield month
    if day := date["day"] or date["day2"]:
        yield f"{month}-{int(day):02}"
    if year := date["year"] or date["year2"] or date["year3"]:
        yield year


def _month(name: str) -> int:
    return next(at for at, month in enumerate(MONTHS, start=1) if month.startswith(name[:3].lower()))


def _numbers(text: str) -> Iterator[str]:
    """Yield a text's numbers in digits, including spelt numbers above one."""
    for match in _NUMBER.finditer(text):
        written = match[0].removesuffix(match["thousand"] or "")
        yield f"{_plain(written)}000" if match["thousand"] else _plain(written)
    for spelt in _SPELT.finditer(text):
        value = _value(spelt)
        if value > 1:
            yield str(value)


def _plain(written: str) -> str:
    """Return a written number without separators of thousands and trailing zeros."""
    if _THOUSANDS.fullmatch(written):
        return re.sub(r"\D", "", written)
    whole, sign, rest = written.partition("." if "." in written else ",")
    if sign and rest.isdecimal():
        return f"{whole}.{rest.rstrip('0')}".rstrip(".")
    return written.removesuffix(":00").replace("’", "'")


def _value(spelt: re.Match[str]) -> int:
    if spelt["tens"]:
        value = _TENS[spelt["tens"].lower()] + _SMALL.get(spelt["unit"].lower(), 1)
    else:
        word = spelt["count"].lower()
        value = _SMALL.get(word) or _TENS.get(word) or 1
    return value * _SCALES[spelt["scale"].lower()] if spelt["scale"] else value


def _names(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return capitalised words in the middle of sentences, and those at the start of one."""
    names: set[str] = set()
    starts: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0]
        if not word[0].isupper():
            continue
        lowered = word.lower().replace("’", "'")
        if lowered in _NO_NAMES or lowered.startswith("i'"):
            continue
        before = text[max(match.start() - 8, 0) : match.start()].rstrip(" \t'’")
        starts_sentence = (not before or before[-1] in _ENDS) and not _TITLE.search(before)
        is_possessive = text.startswith(("'s ", "’s "), match.end()) and lowered not in STOP_WORDS
        (starts if starts_sentence and not is_possessive else names).add(lowered)
    return frozenset(names), frozenset(starts)


def _denied(text: str) -> Iterator[str]:
    """Yield the stem of the first content word after each negation; empty if the next four words have none."""
    words = _words(text)
    for at, word in enumerate(words):
        if _is_denial(word):
            after = (stem(each) for each in words[at + 1 : at + 5] if each not in STOP_WORDS)
            yield next(after, "")
    yield from _UNSPACED.findall(text)


def _is_denial(word: str) -> bool:
    return word in _DENIALS or word.endswith("n't")
