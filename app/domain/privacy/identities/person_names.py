"""Find names of persons in texts without a model: titles, introductions, relations, and lists of names.

Names are found in Latin script, where they are capitalised. A word of the lists that is also an ordinary word counts
only beside a surname, or after a title or a relation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from app.domain.data_files import read_table

_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PLAIN: Final = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "\u0131": "i", "ß": "ss", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
)

_CAP: Final = r"(?=[^\W\d_a-zß-öø-ÿ])"
_INTRODUCTION: Final = re.compile(
    r"\b(?:my name is|my name[’']s|call me|mein name ist|ich hei(?:ß|ss)e|namens|je m[’']appelle|me llamo|mi nombre es"
    rf"|mi chiamo|(?:o )?meu nome é|chamo-me|ik heet|nazywam się|jag heter|benim ad\u0131m)\s+(?-i:{_CAP})",
    re.IGNORECASE,
)
_SIGN_OFF: Final = re.compile(
    rf"\b(?:regards|wishes|sincerely|cheers|gr(?:ü|ue)(?:ß|ss)en?|gru(?:ß|ss)|cordialement|saludos|saluti),\s+(?-i:{_CAP})",
    re.IGNORECASE,
)
_GREETING: Final = re.compile(
    rf"(?:^|\n)(?:dear|liebe[rs]?|cher|chère|querid[oa]|car[oa])\s+(?-i:{_CAP})", re.IGNORECASE
)
_RELATIONS: Final = (
    "wife|husband|partner|son|daughter|brother|sister|mother|father|mum|mom|dad|uncle|aunt|cousin|nephew|niece|grandmother"
    "|grandfather|grandma|grandpa|grandson|granddaughter|friend|colleague|co-?worker|boss|manager|neighbou?r|flatmate"
    "|room-?mate|landlord|landlady|doctor|dentist|physiotherapist|accountant|teacher|tutor|gardener|plumber|electrician"
    "|builder|cleaner|nanny|babysitter|therapist|lawyer|caretaker|guide|coach|girl|boy|girlfriend|boyfriend|fianc[ée]e?|ex|client"
    "|assistant|(?:mother|father|sister|brother|son|daughter)-in-law"
    "|frau|mann|sohn|tochter|bruder|schwester|mutter|vater|onkel|tante|cousine|neffe|nichte|oma|opa|freund|freundin|kollege"
    "|kollegin|chef|chefin|nachbar|nachbarin|vermieter|vermieterin|hausarzt|hausärztin|hausmeister|enkel|enkelin|lehrer|lehrerin"
    "|s(?:œ|oe)ur|frère|femme|mari|fils|fille|mère|père|amie?|collègue|voisine?"
    "|herman[oa]|espos[oa]|marido|hij[oa]|madre|padre|amig[oa]|abuel[oa]|prim[oa]|jef[ea]"
    "|fratello|sorella|moglie|marito|figli[oa]|amic[oa]|nonn[oa]"
    "|irmão|irmã|mulher|filh[oa]|mãe|pai|av[óô]"
)
_OWNERS: Final = (
    "my|our|his|her|their|your|the|mein\\w*|unser\\w*|sein\\w*|ihr\\w*|dein\\w*|ma|mon|mes|notre|sa|son|mi|mis|tu|su|mio|mia"
    "|il mio|la mia|meu|minha|o meu|a minha"
)
_RELATION: Final = re.compile(
    rf"\b(?:{_OWNERS})\s+(?:(?:best|new|old|little|big|older|younger|elder|beste[rn]?|neue[rn]?|alte[rn]?)\s+)*"
    rf"(?:{_RELATIONS}),?\s+(?-i:{_CAP})",
    re.IGNORECASE,
)
# A single unlisted word after these usually names an animal, a nationality or a thing.
_NAMING: Final = re.compile(
    rf"\b(?:(?:is|was|are) (?:called|named)|named|hei(?:ß|ss)t|hie(?:ß|ss)|s[’']appelle|se llama|si chiama"
    rf"|(?:{_OWNERS})\s+(?:\w+\s+)?(?:{_RELATIONS})\s+(?:is|was|ist|war|est|es|è))\s+(?-i:{_CAP})",
    re.IGNORECASE,
)


class _Word(NamedTuple):
    """A word of a text: its span, its folded form, and whether it is capitalised."""

    start: int
    end: int
    folded: str
    is_capital: bool


class _Lists(NamedTuple):
    """The lists of `names.toml`; `parts` are words that may follow a given name as a part of the same name."""

    given: frozenset[str]
    ambiguous: frozenset[str]
    surnames: frozenset[str]
    family_first: frozenset[str]
    particles: frozenset[str]
    titles: frozenset[str]
    german: frozenset[str]
    no_names: frozenset[str]
    surname_words: frozenset[str]
    parts: frozenset[str]


@lru_cache(maxsize=1)
def _lists() -> _Lists:
    table = read_table(__package__, "names.toml")
    sets = {name: frozenset(table[name].split()) for name in _Lists._fields if name != "parts"}
    return _Lists(**sets, parts=sets["surnames"] | sets["given"])


def find_person_names(text: str) -> Iterator[tuple[int, int, float]]:
    """Yield the start, end and confidence (0 to 1) of names; matches of several rules may overlap."""
    words = _split_words(text)
    if not any(word.is_capital for word in words):
        return
    is_german = sum(word.folded in _lists().german for word in words) >= 1
    by_start = {word.start: place for place, word in enumerate(words)}
    for pattern, confidence in ((_INTRODUCTION, 0.9), (_SIGN_OFF, 0.8), (_GREETING, 0.8), (_RELATION, 0.75)):
        for match in pattern.finditer(text):
            place = by_start.get(match.end())
            if place is not None and words[place].folded not in _lists().no_names:
                yield words[place].start, _end(text, words, place, is_german=is_german), confidence
    for match in _NAMING.finditer(text):
        place = by_start.get(match.end())
        if place is None or words[place].folded in _lists().no_names:
            continue
        known = words[place].folded in _lists().given
        if known or (_next(text, words, place) is not None and not is_german):
            yield words[place].start, _end(text, words, place, is_german=is_german), 0.8
    for place, word in enumerate(words):
        if word.is_capital and (confidence := _rate(text, words, place, is_german=is_german)):
            yield word.start, _end(text, words, place, is_german=is_german), confidence


def _rate(text: str, words: Sequence[_Word], place: int, *, is_german: bool) -> float:
    """Return the confidence that a capitalised word begins a name, by titles and lists; 0 if nothing suggests it."""
    lists, word = _lists(), words[place].folded
    before = words[place - 1] if place else None
    if before and before.folded in lists.titles and before.is_capital:
        is_near = text[before.end : words[place].start] in {" ", ". "}
        return 0.9 if is_near and word not in lists.titles | lists.no_names else 0
    next_place = _next(text, words, place)
    after = "" if next_place is None else words[next_place].folded
    if word in lists.ambiguous:
        return 0.8 if after in lists.parts and after not in lists.ambiguous else 0
    if word in lists.given or ("-" in word and {word.replace("-", ""), word.split("-")[0]} & lists.given):
        return 0.9 if after in lists.parts else 0.7
    return _rate_unknown(word, after, is_german=is_german) if after and after not in lists.no_names else 0


def _rate_unknown(word: str, after: str, *, is_german: bool) -> float:
    """Return the confidence that a word outside the list of given names begins a name with the next word."""
    lists = _lists()
    if word in lists.no_names:
        return 0
    if word in lists.family_first:
        return 0.7 if after in lists.given or (not is_german and len(after) <= _SYLLABLES) else 0
    is_surname = after in lists.surnames and after not in lists.surname_words
    return 0.6 if is_surname and not is_german else 0


_SYLLABLES: Final = 6  # maximum letters of an unlisted given name after a family name


def _next(text: str, words: Sequence[_Word], place: int) -> int | None:
    """Return the index of the capitalised word that follows, perhaps after particles such as `de la`, or None."""
    for follower in range(place + 1, min(place + 4, len(words))):
        word = words[follower]
        if text[words[follower - 1].end : word.start] != " ":
            return None
        if word.is_capital:
            return follower
        if word.folded not in _lists().particles:
            return None
    return None


def _end(text: str, words: Sequence[_Word], place: int, *, is_german: bool) -> int:
    """Return the end of the name that begins at `place`: up to two further words, in German texts only listed ones."""
    lists, end = _lists(), words[place].end
    if words[place].folded in _lists().titles and (after := _after_title(text, words, place)) is not None:
        place, end = after, words[after].end
    for _ in range(2):
        follower = _next(text, words, place)
        if follower is None or words[follower].folded in _lists().no_names:
            break
        if is_german and words[follower].folded not in lists.parts:
            break
        place, end = follower, words[follower].end
    return end


def _after_title(text: str, words: Sequence[_Word], place: int) -> int | None:
    after = place + 1
    is_near = after < len(words) and text[words[place].end : words[after].start] in {" ", ". "}
    return after if is_near and words[after].is_capital else None


def _split_words(text: str) -> list[_Word]:
    words = []
    for match in _WORD.finditer(text):
        word = re.sub(r"['’]s$", "", match[0])
        # A word in capitals is an abbreviation or shouted; a single capital letter is an initial.
        is_capital = word[0].isupper() and (len(word) == 1 or not word.isupper())
        words.append(_Word(match.start(), match.start() + len(word), _fold(word), is_capital and len(word) > 1))
    return words


def _fold(word: str) -> str:
    """Return a word in lower case without accents and apostrophes."""
    lower = word.lower().translate(_PLAIN).replace("'", "").replace("’", "")
    if lower.isascii():
        return lower
    return "".join(each for each in unicodedata.normalize("NFKD", lower) if not unicodedata.combining(each))
