"""Extract the features of a text and their strengths in one pass over its words; `weights` assigns points to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.domain.data_files import read_table
from app.domain.salience.criteria import ScoringEvidence
from app.domain.text.joined_letters import is_joined

Floats = npt.NDArray[np.float64]

_GRAMMAR = read_table(__package__, "lexicon_grammar.toml")
_TONGUES = read_table(__package__, "lexicon_other_languages.toml")
LISTED: dict[str, str] = {
    feature: words
    for name in ("emotion", "english", "lifestyle")
    for feature, words in read_table(__package__, f"lexicon_{name}.toml")["features"].items()
}
_OTHERS = "text plain number attribute denial loss habit perfect emotional_kind procedural_kind tagged"
FOUND = (*LISTED, *_OTHERS.split())
_SHAPES = """
    impersonal machine assistant code question thin greets unreal jests plays repeats of_others worn near_copy fleeting
    watched
"""
FORMS = tuple(_SHAPES.split())
"""Features that reduce a criterion, whereas those of `FOUND` raise it. Each is 0 if absent, about 1 if clearly present.
"""
FACTS = ("foreign", "unknown", "long", "told")
"""Features that change only the uncertainty, not the criteria."""
PLACE = {name: place for place, name in enumerate((*FOUND, *FORMS, *FACTS))}

NEGATIONS, _RESETS, _COMMON, _BETWEEN, _NOT_A_HABIT, _DONE = (
    frozenset(_GRAMMAR[name].split()) for name in ("negations", "resets", "common", "between", "not_a_habit", "done")
)
_FOREIGN_NEGATIONS, _FOREIGN_COMMON = (frozenset(_TONGUES[name].split()) for name in ("negations", "common"))
_ENGLISH_ALONE = _COMMON - frozenset({"i", "my", "we", "to", "no", "me", "on"})
"""Common English words that are rare in other languages."""
_DEGREES: dict[str, float] = {
    word: degree["factor"] for degree in _GRAMMAR["degrees"] for word in degree["words"].split()
}
_ORDER_HINTS = tuple(_GRAMMAR["order_hints"].split())
_ORDERS = re.compile("|".join(_GRAMMAR["orders"]), re.IGNORECASE)
_TOKEN = re.compile(r"[^\W_]+(?:['\-][^\W_]+)*|[.!?;:,\"\n]|…")
_SENTENCE = re.compile(r"[^.!?\n。\uff01\uff1f]*[.!?\n。\uff01\uff1f]*")
_DATED = re.compile(
    r"\d{4}-\d\d-\d\d|\b\d{1,2}[:.h]\d\d\b|\b\d{1,2}(?:st|nd|rd|th)\b|\d ?[ap]m\b|[0-9一二三四五六七八九十][月日時]"
    r"|\b\d{1,2}\.? (?:de |of )?(?:jan|feb|mar|apr|avr|abr|ma[iy]|ju[nl]|ago?|a[ou][uû]g?|sep|o[ck]t|nov|d[eé][cz])",
    re.IGNORECASE,
)
_JAPANESE_LETTERS = re.compile("[\u3040-\u30ff]")
_ASKS = re.compile(
    r"(?:how|what|which|who|why|where|when|is there|are there|do you|does|can you|could you)\b", re.IGNORECASE
)
_EFFECTIVE = re.compile(
    r"\b(?:from|as of|starting|effective|ab dem|à partir du|a partir del?) (?:the )?"
    r"(?:\d|(?:jan|feb|mar|apr|may|ju[nl]|aug|sep|oct|nov|dec)\w*\b)",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    r"\b(?:(?:[Mm]y|[Oo]ur|[Ii]|[Ww]e)\b[^.?!;\n]{1,60}?(?:\s(?:[A-Z][^\W\d_A-Z]|\d)|\b(?:called|named)\s\w)"
    r"|(?:[Mm]y|[Oo]ur)\s[^.?!;,\n]{1,40}?(?:['’]s|\s(?:is|are))\s(?:an?|in|on|at|near|from|under)\s)"
)
"""Match of "I", "we" or a possession (my, our) that a name, a number or a noun specifies: "my car is a Fiat"."""
_STAGED = re.compile(r"\*[^*\n]{3,}\*|chapter \d|scene \d|act [ivx\d]+\b", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"[{}<>=\\|\[\]_#/`;]")
_MACHINE = "tool system agent bot monitor ci cron sensor scheduler thermostat webhook printer calendar"
_MACHINES = frozenset(_MACHINE.split())
_ASSISTANT = "assistant ai model claude gpt copilot helper"
_ASSISTANTS = frozenset(_ASSISTANT.split())
_LETTERS = str.maketrans(
    {"’": "'", "\u2018": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "\u200b": None, "\u00ad": None}
)
_MILD_EMOJI = frozenset("😂🤣😀😃😄😁😊🙂😍🥰😘😢😭😞😔😟😡😠🤬😱😨😰🥳🎉😤💔❤😩😫🥺")
_TAG = "decision commitment promise user_preference preference personal_fact legal privacy deadline consent"
_TAGS = frozenset(_TAG.split())

_QUOTE = '"'

REACH = 3
"""Number of words after a negation to which it applies."""
MORE = 0.25
"""Share of a match's strength that the second and every further match of a feature adds."""
MOST = 1.5
"""Upper bound of a feature's strength."""
_TURNED = 0.15
_QUOTED = 0.5

Strength = tuple[int, float]
"""A feature's index in `PLACE` and the strength that a word gives it."""


class Words(NamedTuple):
    """Lexicon entries with the same first word.

    Attributes:
        alone: Features of the word alone.
        phrases: Phrases by their second word, each with its remaining words, its feature's index and its strength.
    """

    alone: tuple[Strength, ...]
    phrases: Mapping[str, tuple[tuple[tuple[str, ...], int, float], ...]]


def _forms(word: str) -> set[str]:
    """Return the regular forms of an English verb or noun, plus some harmless non-words."""
    stem = word.removesuffix("e")
    forms = {word, f"{word}s", f"{word}es", f"{stem}ed", f"{stem}ing", f"{word}{word[-1]}ed", f"{word}{word[-1]}ing"}
    return forms | {f"{word[:-1]}ies", f"{word[:-1]}ied"} if word.endswith("y") else forms


def _listed(listed: str) -> Iterator[tuple[str, float]]:
    for item in listed.split():
        word, colon, strength = item.rpartition(":")
        yield (word, float(strength)) if colon else (item, 1.0)


def _lexicon(features: Mapping[str, str]) -> dict[str, Words]:
    """Index the lists by first word; if a word or phrase occurs twice for a feature, the higher strength counts."""
    index: dict[str, dict[tuple[tuple[str, ...], int], float]] = {}
    for feature, listed in features.items():
        place = PLACE[feature]
        for item, strength in _listed(listed):
            first, *tail = item.split("_")
            for form in _forms(first[:-1]) if first.endswith("~") else {first}:
                senses, key = index.setdefault(form, {}), (tuple(tail), place)
                senses[key] = max(strength, senses.get(key, 0.0))
    return {first: _by_second(senses) for first, senses in index.items()}


def _by_second(senses: Mapping[tuple[tuple[str, ...], int], float]) -> Words:
    phrases: dict[str, tuple[tuple[tuple[str, ...], int, float], ...]] = {}
    for (tail, place), strength in senses.items():
        if tail:
            phrases[tail[0]] = (*phrases.get(tail[0], ()), (tail[1:], place, strength))
    return Words(tuple((place, strength) for (tail, place), strength in senses.items() if not tail), phrases)


_ENGLISH = _lexicon(LISTED)
_FOREIGN = _lexicon(_TONGUES["features"])
_STEMS: dict[str, list[tuple[str, Words]]] = {}
for _first, _meaning in _FOREIGN.items():
    if _first.endswith("…"):
        _STEMS.setdefault(_first[:3], []).append((_first[:-1], _meaning))
_JAPANESE = {
    word: (PLACE[feature], strength)
    for feature, listed in _TONGUES["japanese"].items()
    for word, strength in _listed(listed)
}
_JAPANESE_WORD = re.compile("|".join(sorted(map(re.escape, _JAPANESE), key=len, reverse=True)))
_TURNABLE = frozenset(
    PLACE[name] for name in ("mild", "clear", "strong", "death", "joy", "decision", "career", "danger", "health")
)
_FEELINGS = frozenset(PLACE[name] for name in ("mild", "clear", "strong", "body"))
_SPOKEN = _FEELINGS | {PLACE["self"]}
_TELLING = tuple(
    PLACE[name]
    for name in (
        "clear",
        "strong",
        "body",
        "death",
        "joy",
        "bond",
        "career",
        "danger",
        "health",
        "decision",
        "commitment",
    )
)


_WE = frozenset({"i", "we"})
_IS_DONE = frozenset({"have", "has", "i've", "we've", "haven't", "hasn't", "is", "are"})
_HABIT, _PERFECT = PLACE["habit"], PLACE["perfect"]
_MILD, _DENIAL, _SELF = PLACE["mild"], PLACE["denial"], PLACE["self"]


def read(batch: Sequence[ScoringEvidence], split: Mapping[str, tuple[str, list[str]]]) -> Floats:
    """Return the strengths of `FOUND`, `FORMS` and `FACTS`, shape (n, len(PLACE)), each 0 to `MOST`."""
    rows = [_row(evidence, *split[evidence.text]) for evidence in batch]
    return np.array(rows, dtype=np.float64).reshape(len(batch), len(PLACE))


def strip_instructions(text: str) -> str:
    """Remove sentences that instruct the scorer from a text, and normalise its quotation marks."""
    if not text.isascii():
        text = text.translate(_LETTERS)
    low = text.lower()
    if not any(hint in low for hint in _ORDER_HINTS):
        return text
    return "".join(sentence for sentence in _SENTENCE.findall(text) if not _ORDERS.search(sentence))


def is_foreign(tokens: Iterable[str]) -> bool:
    """Return true if the tokens contain more distinct common words of other languages than of English."""
    seen = set(tokens)
    return len(seen & _FOREIGN_COMMON) > len(seen & _COMMON)


def tokens_of(text: str) -> list[str]:
    """Return the lower-cased words and the punctuation that ends clauses."""
    return _TOKEN.findall(text.lower())


def _row(evidence: ScoringEvidence, text: str, tokens: list[str]) -> list[float]:
    row = [0.0] * len(PLACE)
    japanese = not text.isascii() and _JAPANESE_LETTERS.search(text) is not None
    joined = japanese or is_joined(text)
    all_tokens = tokens if text is evidence.text else tokens_of(evidence.text)
    foreign = joined or is_foreign(all_tokens)
    if japanese:
        for word in set(_JAPANESE_WORD.findall(text)):
            _add(row, *_JAPANESE[word])
    elif foreign:
        _find(tokens, row, _FOREIGN, _FOREIGN_NEGATIONS)
        _find_stems(tokens, row)
    else:
        _find(tokens, row, _ENGLISH, NEGATIONS)
        _weigh_grammar(tokens, row)
    if foreign:  # these languages may omit the subject pronoun
        row[_SELF] = max(row[_SELF], 0.7)
        row[PLACE["foreign"]] = 1.0
    elif len(tokens) > 5 and _COMMON.isdisjoint(tokens):
        non_ascii = len(text) - len(text.encode("ascii", "ignore"))
        row[PLACE["unknown"]] = 1.0 if non_ascii * 5 > len(text) else 0.4
    elif not tokens:
        row[PLACE["unknown"]] = 0.4
    row[PLACE["long"]] = _ramp(len(text), 300, 2000)
    content = len(text) / (8 if japanese else 5) if joined else sum([len(token) > 3 for token in all_tokens])
    _weigh_form(text, tokens, row, content)
    _weigh_circumstances(evidence, row)
    return row


def _add(row: list[float], place: int, strength: float) -> None:
    """Add a match to a feature: the strongest match counts in full, every other match by `MORE` of its strength."""
    known = row[place]
    if not known:
        row[place] = min(strength, MOST)
    elif known < strength:
        row[place] = min(strength + MORE * known, MOST)
    else:
        row[place] = min(known + MORE * strength, MOST)


def _find(tokens: list[str], row: list[float], lexicon: Mapping[str, Words], negations: frozenset[str]) -> None:
    """Add the matches of a lexicon, reduced by negations, scaled by degree words and halved inside quotations."""
    negated, quoted = -99, False
    for at, token in enumerate(tokens):
        words = lexicon.get(token)
        if words is not None:
            matches = words.alone
            if words.phrases:
                matches = (*matches, *_phrases(tokens, at, words))
            is_negated = at - negated <= REACH
            for place, strength in matches:
                if is_negated and place in _TURNABLE:
                    if place in _FEELINGS and not quoted:
                        row[_DENIAL] = 1.0
                    _add(row, place, strength * _TURNED)
                elif place in _SPOKEN:
                    degree = _DEGREES.get(tokens[at - 1], 1.0) if at else 1.0
                    _add(row, place, strength * degree * (_QUOTED if quoted else 1.0))
                else:
                    _add(row, place, strength)
        if token in negations:
            negated = at
        elif token in _RESETS:
            negated = -99
        quoted ^= token == _QUOTE


def _find_stems(tokens: list[str], row: list[float]) -> None:
    """Add the matches of lexicon entries by prefix (compounds and endings)."""
    for at, token in enumerate(tokens):
        for stem, words in _STEMS.get(token[:3], ()):
            if token.startswith(stem):
                for place, strength in words.alone:
                    _add(row, place, strength)
                for place, strength in _phrases(tokens, at, words):
                    _add(row, place, strength)


def _phrases(tokens: list[str], at: int, words: Words) -> Iterator[Strength]:
    """Yield the features of the phrases that start at this token and match the next tokens."""
    if at + 1 < len(tokens):
        for tail, place, strength in (*words.phrases.get(tokens[at + 1], ()), *words.phrases.get("*", ())):
            if not tail or _follows(tokens, at + 2, tail):
                yield place, strength


def _follows(tokens: list[str], start: int, tail: tuple[str, ...]) -> bool:
    for ahead, want in enumerate(tail, start):
        if ahead >= len(tokens) or (tokens[ahead] != want and want != "*"):
            return False
    return True


def _weigh_grammar(tokens: list[str], row: list[float]) -> None:
    """Add the features of habits ("I usually walk") and the present perfect ("I have moved")."""
    for at, token in enumerate(tokens):
        if token in _WE and _is_habit(_verb(tokens, at + 1)):
            _add(row, _HABIT, 1.0)
        elif token in _IS_DONE and _is_done(_verb(tokens, at + 1)):
            _add(row, _PERFECT, 1.0)


def _verb(tokens: list[str], at: int) -> str:
    """Return the first of the next three words that is no adverb and not "don't"; empty if there is none."""
    return next((word for word in tokens[at : at + 3] if word not in _BETWEEN), "")


def _is_habit(verb: str) -> bool:
    return verb.isalpha() and verb not in _NOT_A_HABIT and not verb.endswith(("ed", "ing"))


def _is_done(verb: str) -> bool:
    return verb in _DONE or verb.endswith(("ed", "en", "wn"))


def _weigh_form(text: str, tokens: list[str], row: list[float], content: float) -> None:
    """Add the features that follow from the shape of the text."""
    digits = _DIGIT.search(text) is not None
    if (digits or not text.isascii()) and _DATED.search(text):
        _add(row, PLACE["when"], 0.7)
    if (digits or row[PLACE["when"]]) and _EFFECTIVE.search(text):
        _add(row, PLACE["duty"], 0.6)
    if not text.isascii() and not _MILD_EMOJI.isdisjoint(text):
        _add(row, _MILD, 0.5)
    row[PLACE["number"]] = float(digits)
    symbols = len(_CODE.findall(text))
    if symbols > 3 and symbols * 20 > len(text):
        row[PLACE["code"]] = 1.0
    stripped = text.strip()
    if stripped.endswith(("?", "\uff1f")):
        alone = not any(mark in tokens[:-1] for mark in ".;")
        row[PLACE["question"]] = 1.0 if alone else 0.4
    elif "?" in text:
        row[PLACE["question"]] = 0.3
    elif _ASKS.match(stripped) and "." not in stripped:
        row[PLACE["question"]] = 1.0
    if row[PLACE["question"]] < 1 and not row[PLACE["foreign"]] and _ATTRIBUTE.search(text):
        row[PLACE["attribute"]] = float(text.isascii() or not _ENGLISH_ALONE.isdisjoint(tokens))
    if _STAGED.match(stripped):
        row[PLACE["unreal"]] = 1.0
    row[PLACE["thin"]] = max(0.0, 1 - content / 5)
    row[PLACE["text"]] = min(1.0, content / 14)


def _weigh_circumstances(evidence: ScoringEvidence, row: list[float]) -> None:
    """Add the features that follow from the speaker, the caller's kind and tags, and similarity to earlier memories."""
    speaker = evidence.role or (evidence.speaker or "").lower()
    own = min(1.0, row[PLACE["self"]] + row[PLACE["near"]])
    if speaker in _MACHINES or speaker.endswith("bot") or evidence.kind == "system":
        row[PLACE["machine"]] = 1.0
        row[PLACE["attribute"]] = 0.0
        own = 0.0
    elif speaker in _ASSISTANTS:
        row[PLACE["assistant"]] = 1.0
        row[PLACE["attribute"]] = 0.0
        own *= 0.3
    elif speaker:
        own = max(own, 0.4)
    row[PLACE["impersonal"]] = 1.0 - own
    row[PLACE["plain"]] = 1.0
    row[PLACE["emotional_kind"]] = float(evidence.kind == "emotional")
    row[PLACE["procedural_kind"]] = float(evidence.kind == "procedural")
    row[PLACE["tagged"]] = min(1.0, 0.6 * sum(tag.lower() in _TAGS for tag in evidence.tags))
    events = min(MOST, sum([row[place] for place in _TELLING]))
    row[PLACE["told"]] = events
    row[PLACE["thin"]] *= max(0.0, 1 - events - row[PLACE["attribute"]])
    row[PLACE["greets"]] = min(MOST, row[PLACE["filler"]]) * max(0.0, 1 - events / 1.5)
    row[PLACE["unreal"]] = max(row[PLACE["unreal"]], min(1.0, max(0.0, row[PLACE["fiction"]] - 0.4) * 2))
    row[PLACE["loss"]] = min(1.0, row[PLACE["death"]]) * own
    row[PLACE["jests"]] = row[PLACE["joke"]]
    row[PLACE["plays"]] = row[PLACE["game"]]
    row[PLACE["of_others"]] = row[PLACE["others"]]
    row[PLACE["repeats"]] = row[PLACE["again"]]
    brevity = _ramp(len(evidence.text), 240, 120)  # a fleeting remark says little about a longer text
    row[PLACE["fleeting"]] = min(1.0, row[PLACE["passing"]]) * max(0.0, 1 - events / 2.5) * brevity
    row[PLACE["watched"]] = row[PLACE["screen"]] * brevity
    if evidence.rarity is not None:
        row[PLACE["worn"]] = _ramp(evidence.rarity, 0.6, 0.2)
    # If the embedder's vocabulary covers few words of a language, the vectors of all texts in it are close together.
    if evidence.nearest is not None:
        row[PLACE["near_copy"]] = _ramp(evidence.nearest, 0.85 if row[PLACE["foreign"]] else 0.6, 0.95)


def _ramp(value: float, none: float, full: float) -> float:
    """Interpolate linearly from 0 at `none` to 1 at `full`, clamped outside."""
    return min(max((value - none) / (full - none), 0.0), 1.0)
