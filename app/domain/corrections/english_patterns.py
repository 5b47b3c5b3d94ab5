"""Load the word lists of `english.toml`, and build the patterns from them."""

from __future__ import annotations

import re
from typing import Final

from app.domain.data_files import read_table
from app.domain.text.markers import marker
from app.domain.text.words import STOP_WORDS

_LISTS: Final = read_table(__package__, "english.toml")


def _words(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name].split())


def _any(phrases: list[str]) -> str:
    return "|".join(re.escape(phrase).replace(r"\ ", r"\s+") for phrase in sorted(phrases, key=len, reverse=True))


FILLERS: Final = _words("fillers") | STOP_WORDS
NEGATIONS: Final = _words("negations")
NO_NAMES: Final = _words("no_names") | _words("months") | _words("weekdays")
NO_LABELS: Final = _words("no_labels") | _words("months") | _words("weekdays")
NO_UNITS: Final = _words("no_units")
SMALL_NUMBERS: Final[tuple[str, ...]] = tuple(_LISTS["small_numbers"].split())
_DAY_STARTS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NO_CONTRAST: Final = _words("no_contrast")

# End of a clause: "the call is off" ends the call, "the call is off to a good start" doesn't.
_END: Final = r"(?=\s*(?:[.;:!?,)]|$|\b(?:and|but|so|because|cos|since|at|this|now)\b))"
_PIECE: Final = r"[^\s.;:!?,()]+"

CHANGED: Final = re.compile(rf"\b(?:{_any(_LISTS['changed'].split())})\b", re.IGNORECASE)
NOW_BEFORE: Final = re.compile(
    r"^(?!.*\bagain\b).*\bnow(?:,? (?:on|at|in|the|until|only|to))?\s*$", re.IGNORECASE | re.DOTALL
)
NOW_AFTER: Final = re.compile(r"\s*,?\s*now\b", re.IGNORECASE)
_SHIFTS: Final = ("later", "earlier", "sooner")
SHIFTED: Final = re.compile(
    r"\b(?:an?|one|two|three|four|five|six|\d+) (?:hour|day|week|fortnight|month)s? "
    rf"(?:{'|'.join(_SHIFTS)})\b",
    re.IGNORECASE,
)
NEW_ATTRIBUTE: Final = re.compile(
    rf"(?:\b(?:the|my|our|his|her|their|its) (?:{_PIECE} ){{0,2}}|^|[,:;] )new (?:{_PIECE} ){{0,2}}"
    rf"(?:{_any(_LISTS['attributes'].split())})\b",
    re.IGNORECASE,
)
TO_VALUE: Final = re.compile(
    r"(?:\b(?:to|until|till|through|for|at|of|is|be|are|now)|:)\s*(?:(?:be|now|the|about|just|around|only)\s+)?$",
    re.IGNORECASE,
)
ENDED_BEFORE: Final = re.compile(rf"\b(?:{_any(_LISTS['ended_before'])})(?P<over>(?: {_PIECE}){{1,4}})", re.IGNORECASE)
ENDED_AFTER: Final = re.compile(
    rf"(?P<over>(?:{_PIECE} ){{1,4}})(?:is|are|was|were)\s+(?:(?:now|bloody|all|completely)\s+)?"
    rf"(?:{_any(_LISTS['ended_after'])}){_END}",
    re.IGNORECASE,
)
ANY_MORE: Final = re.compile(
    rf"\b(?:isn['’]?t|aren['’]?t|don['’]?t|doesn['’]?t|not|never)(?P<over>(?: {_PIECE}){{1,5}}?)"
    r" any ?(?:more|longer)\b",
    re.IGNORECASE,
)
CONTRAST: Final = re.compile(
    rf"(?P<before>[\w’']+),? not (?:(?:an?|the|my|our|in|on|at|by|with|to|for) )?(?P<over>{_PIECE}){_END}",
    re.IGNORECASE,
)
NAMED_NO_MORE: Final = re.compile(
    rf"\b(?:[Ii]sn['’]?t|(?:[Ii]s|['’]s) not|not called|(?:[Ii]sn['’]?t|not) named) (?P<over>[A-Z][\w’'-]+){_END}"
)
NEGATION: Final = re.compile(rf"\b(?:{_any(sorted(NEGATIONS))})\b", re.IGNORECASE)
SUPPOSED: Final = re.compile(
    rf"\b(?:{_any([*_LISTS['supposed'].split(), *_LISTS['supposed_phrases']])})\b", re.IGNORECASE
)
SENTENCE_END: Final = re.compile(
    r"(?<=[.!?;])\s+|\n+|,\s+(?=(?:and|but|so|or|because|cos|since|which|considering|especially|although|though)\b)|"
    rf",\s+(?=(?:{_any(_LISTS['asks'].split())}) (?:i|you|we|it|that|this|there|they|the|my)\b)",
    re.IGNORECASE,
)
ASKS: Final = re.compile(
    rf"^(?:so |and |but |or |because |also |ok |then )*(?:{_any(_LISTS['asks'].split())})\b", re.IGNORECASE
)
# Prefilters: every text that states a change has a word of `CHANGES_WORDS`, `ENDS_WORDS` or `NOT_WORDS` among its
# `values.letters`.
CHANGES_WORDS: Final = (
    _words("changed") | {word.split("'", maxsplit=1)[0] for word in NEGATIONS} | {"now", "new", *_SHIFTS}
)
"""Words that state a change or a negation, if the text also contains a value."""
VALUES_WORDS: Final = _words("months") | _words("weekdays") | _words("feasts") | {"thur", *SMALL_NUMBERS}
"""Words of values without digits; weekdays also occur with endings."""
ENDS_WORDS: Final = frozenset(
    max(phrase.split(), key=len) for phrase in (*_LISTS["ended_before"], *_LISTS["ended_after"])
) | {"any", "anymore", "anylonger"}
"""One word of each phrase that `ENDS` matches."""
NOT_WORDS: Final = frozenset({"not", "isn", "isnt"})
"""Words of `CONTRAST` and `NAMED_NO_MORE`."""
ENDS: Final = re.compile(
    rf"\b(?:{_any(_LISTS['ended_before'])}) |"
    rf" (?:is|are|was|were)\s+(?:(?:now|bloody|all|completely)\s+)?(?:{_any(_LISTS['ended_after'])})|"
    r" any ?(?:more|longer)\b",
    re.IGNORECASE,
)
"""Matches every text that `ENDED_BEFORE`, `ENDED_AFTER` or `ANY_MORE` matches."""
# In a text that isn't split into clauses, a clause may also end at a line break.
_LINE_END: Final = _END.replace("|$|", r"|\n|$|")
CONTRAST_IN_LINE: Final = re.compile(CONTRAST.pattern.replace(_END, _LINE_END), re.IGNORECASE)
NAMED_NO_MORE_IN_LINE: Final = re.compile(NAMED_NO_MORE.pattern.replace(_END, _LINE_END))

ENDS_MARKERS: Final = (*map(marker, ENDS_WORDS), *map(marker, NOT_WORDS))
"""Markers (`domain.text.markers`) of texts with a word of `ENDS_WORDS`, a contrast or a retracted name."""
CHANGES_MARKERS: Final = (*map(marker, CHANGES_WORDS), "0now ")
VALUES_MARKERS: Final = (*map(marker, VALUES_WORDS), *(f" {day}" for day in _DAY_STARTS), "0", "?")

CODE: Final = re.compile(r"```.*?(?:```|$)|`[^`]*`", re.DOTALL)
QUOTED: Final = re.compile(r"[\"“][^\"“”]{12,}[\"”]|^>.*$", re.MULTILINE)


def contrasts(before: str, over: str) -> bool:
    """Return True if "not" contrasts two words: for "Camborne, not Gwennap", but not for "I'm not sure"."""
    return (
        "'" not in before.replace("’", "'")
        and before.lower() not in FILLERS
        and before.lower() not in NEGATIONS
        and over.lower() not in _NO_CONTRAST
        and over.lower() not in STOP_WORDS
    )
