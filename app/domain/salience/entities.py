"""Extract names, dates and handles from a text by their form."""

from __future__ import annotations

import re

ENTITIES_MAX = 20
ENTITY_MAX_CHARACTERS = 80

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?"
    r"|Dec(?:ember)?)\b"
)
_DATE = re.compile(
    rf"\b\d{{4}}-\d\d-\d\d\b|\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}(?: \d{{4}})?"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
)
_HANDLE = re.compile(r"(?<![\w.])[@#][^\W\d]\w+|\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_NAME = re.compile(
    r"(?<=[\w,;] )[A-Z][^\W\d_]+(?:['’-][A-Z]?[^\W\d_]+)*(?: [A-Z][^\W\d_]+(?:['’-][A-Z][^\W\d_]+)*){0,3}"
)
_NO_NAME = (
    "I I'm I've I'll I'd I’m I’ve I’ll I’d OK TV AM PM "
    # May is missing because it is also a name.
    "January February March April June July August September October November December "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday "
    "Mondays Tuesdays Wednesdays Thursdays Fridays Saturdays Sundays"
)
_NO_NAMES = frozenset(_NO_NAME.split())
_DIGIT = re.compile(r"\d")
_POSSESSIVE = re.compile(r"['’]s$")


def entities(text: str, *, foreign: bool) -> tuple[str, ...]:
    """Return distinct names (capitalised words inside a sentence), dates and handles in order of appearance.

    Args:
        foreign: Skip names, because other languages also capitalise nouns and titles.
    """
    matches = [(match.start(), match[0]) for match in _DATE.finditer(text)] if _DIGIT.search(text) else []
    if "@" in text or "#" in text:
        matches += [(match.start(), match[0]) for match in _HANDLE.finditer(text)]
    if not foreign:
        matches += [(match.start(), _POSSESSIVE.sub("", match[0])) for match in _NAME.finditer(text)]
    matches = [(at, entity) for at, entity in matches if _is_worth(entity)]
    if len(matches) > 1:
        matches.sort()
    return tuple(dict.fromkeys(entity for _, entity in matches))[:ENTITIES_MAX]


def _is_worth(entity: str) -> bool:
    return (
        len(entity) <= ENTITY_MAX_CHARACTERS and entity not in _NO_NAMES and not (entity.isupper() and len(entity) > 5)
    )
