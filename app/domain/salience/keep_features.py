"""Measure the form of a text and its relation to the turns before it, for the chance that it should be kept.

The word classes, in English and other languages, and the labels of the features are in `lexicon_keep.toml`, the fitted
weights in `keep_weights.toml`.
A text has the same features in every batch: only the memory itself and the turns before it in its thread count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from app.domain.data_files import read_table
from app.domain.ingest.roles import infer_role
from app.domain.salience.criteria import ScoringEvidence
from app.domain.salience.entities import ENTITIES_MAX, entities
from app.domain.salience.features import Floats
from app.domain.salience.split_texts import SplitTexts
from app.domain.text.joined_letters import JOINED_LETTERS, is_joined
from app.domain.text.words import STOP_WORDS

_TABLE: Final = read_table(__package__, "lexicon_keep.toml")
_CLASSES: Final[dict[str, frozenset[str]]] = {
    name: frozenset(words.split()) for name, words in _TABLE["classes"].items()
}
_REQUEST: Final = _CLASSES.pop("request")
_OTHERS: Final = _TABLE["other_languages"]
LABELS: Final[dict[str, str]] = _TABLE["labels"]
"""Labels of the features, for people."""

_TEXT = """
    length brief lengthy asked stated names name_rate figures figure_rate times time_rate units first second future
    advice past firm own happened absolute proposal list code markup colon quoted request other_language joined_script
"""
TEXT: Final = tuple(_TEXT.split())
"""Features of a text that don't depend on the turns before it."""
_CONTEXT = """
    user assistant opening asked_before question_before answer length_before own_before specifics_before request_before
    echo taken_up new_specifics shared_specifics
"""
CONTEXT: Final = tuple(_CONTEXT.split())
"""Features of the speaker and of the turns before."""
ASSISTANTS: Final = ("length", "figures", "times", "own", "proposal", "advice", "echo", "taken_up", "new_specifics")
"""Features that have a second weight if the assistant speaks."""
TURNS_BEFORE: Final = 2
"""Number of turns before a memory that its features consider."""


def _places(classes: Mapping[str, Iterable[str]]) -> dict[str, tuple[int, ...]]:
    """Return the places in `_CLASSES` of each word's classes."""
    places: dict[str, tuple[int, ...]] = {}
    for place, name in enumerate(_CLASSES):
        for word in classes[name]:
            places[word] = (*places.get(word, ()), place)
    return places


_CLASS_OF: Final = _places(_CLASSES)
_OTHER_CLASSES: Final = {name: frozenset(words.split()) for name, words in _OTHERS["classes"].items()}
_OTHER_CLASS_OF: Final = _places(_OTHER_CLASSES)
_JOINED_CLASSES: Final = {
    name: frozenset(words.replace("_", " ") for words in listed.split()) for name, listed in _OTHERS["joined"].items()
}
_JOINED_CLASS_OF: Final = _places(_JOINED_CLASSES)
_JOINED_WORD: Final = re.compile("|".join(map(re.escape, sorted(_JOINED_CLASS_OF, key=len, reverse=True))))
_JOINED_REQUEST: Final = re.compile("|".join(map(re.escape, _JOINED_CLASSES["request"])))
_COMMON: Final = STOP_WORDS
_OTHER_COMMON: Final = frozenset(_OTHERS["common"].split()) - STOP_WORDS
_FIRST, _PAST, _FIRM, _PROPOSAL, _TIME, _UNIT = map(
    list(_CLASSES).index, ("first", "past", "firm", "proposal", "time", "unit")
)
_CLASSES_FROM: Final = 5
"""Index in `TextForm.counts` from which the counts are those of word classes, in the order of `_CLASSES`."""
_SHARES: Final = ("list", "code", "markup", "colon", "quoted", "request", "other_language", "joined_script")
_ASKS: Final = _SHARES.index("request")
_RATES: Final = ("first", "second", "future", "advice", "past", "firm")
_MARKS: Final = frozenset('.!?;:,"\n…')
_CLOCK = re.compile(r"\d[:.]\d\d(?!\d)")
_ITEM = re.compile(r"^[^\S\n]*(?:[-*•]|\d{1,3}[.)])\s", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_LATIN_WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
_JOINED_NAME = re.compile(
    "[\u30a1-\u30fa\u30fc]{3,}|[\u4e00-\u9fff]{1,3}(?=さん|先生|様|老师|医生|女士)"
    "|[\uac00-\ud7a3]{2,4}(?= ?(?:씨|님|선생))"
)
"""Words in katakana, most of which are names or loan words, and what precedes a title of respect."""
_JOINED_PER_WORD: Final = 2
"""Number of Chinese, Japanese or Korean letters that carry about as much meaning as an English word."""
_END = re.compile(r"[.!?\n\u3002\uff01\uff1f]+")
_CURRENCIES: Final = "€$£%"


class TextForm(NamedTuple):
    """Form of one text.

    Attributes:
        counts: Number of words (pairs of letters in Chinese, Japanese and Korean), names, figures, times, units, and
            of words of the classes that are measured as rates.
        shares: The features of a text that need no further calculation.
        words: Distinct words of more than three letters.
        specifics: Distinct names, dates, handles and words that begin with a digit, in lower case.
        asked: Share of the text in sentences with a question mark.
        names: Names, dates and handles; found by the English rules unless the text has Chinese, Japanese or Korean
            letters.
    """

    counts: tuple[int, ...]
    shares: tuple[float, ...]
    words: set[str]
    specifics: set[str]
    asked: float
    names: tuple[str, ...]


class Forms(NamedTuple):
    """Forms of a batch.

    Attributes:
        features: The features `TEXT`, `CONTEXT` and `ASSISTANTS`, in this order, shape (n, number of features).
        names: `TextForm.names` of each text, without instructions to the scorer.
    """

    features: Floats
    names: list[tuple[str, ...]]


def measure_forms(batch: Sequence[ScoringEvidence], split: SplitTexts) -> Forms:
    """Measure the texts of a batch and their relations to the turns before."""
    forms: dict[str, TextForm] = {}
    counts, shares, relations, names = [], [], [], []
    for evidence in batch:
        form = _form(evidence.text, forms, split)
        counts.append(form.counts)
        shares.append((form.asked, *form.shares))
        names.append(form.names)
        before = [_form(turn.text, forms, split) for turn in evidence.before[:TURNS_BEFORE]]
        relations.append(_relate(evidence, form, before))
    if not batch:
        return Forms(np.empty((0, len(TEXT) + len(CONTEXT) + len(ASSISTANTS))), names)
    text = _weigh_text(np.array(counts, dtype=np.float64), np.array(shares, dtype=np.float64))
    context = _weigh_relations(np.array(relations, dtype=np.float64))
    joined = np.hstack([text, context])
    by_assistant = joined[:, _ASSISTANT_PLACES] * context[:, [CONTEXT.index("assistant")]]
    return Forms(np.hstack([joined, by_assistant]), names)


_ASSISTANT_PLACES: Final = [(*TEXT, *CONTEXT).index(name) for name in ASSISTANTS]


def _form(text: str, forms: dict[str, TextForm], split: SplitTexts) -> TextForm:
    """Return a text's form, cached in `forms`, because most turns before a memory are texts of the same batch."""
    form = forms.get(text)
    if form is None:
        form = forms[text] = measure_form(*split[text])
    return form


def measure_form(text: str, tokens: list[str]) -> TextForm:
    """Return the form of a text without instructions to the scorer.

    Args:
        tokens: The text's tokens, from `features.tokens_of`.
    """
    words = [token for token in tokens if token not in _MARKS]
    distinct = set(words)
    if is_joined(text):
        return _measure_joined(text, words)
    is_other = len(distinct & _OTHER_COMMON) > len(distinct & _COMMON)
    class_of, requests = (_OTHER_CLASS_OF, _OTHER_CLASSES["request"]) if is_other else (_CLASS_OF, _REQUEST)
    classes = _count_classes(filter(None, map(class_of.get, words)))
    figures = {word for word in distinct if word[0].isdigit()}
    names = entities(text, foreign=False)
    asks = bool(words) and words[0] in requests
    long_words = {word for word in distinct if len(word) > 3}
    return _build_form(text, len(words), long_words, figures, names, classes, asks=asks, languages=(is_other, False))


def _measure_joined(text: str, words: Sequence[str]) -> TextForm:
    """Return the form of a text with Chinese, Japanese or Korean letters; pairs of letters stand for its words."""
    runs = JOINED_LETTERS.findall(text)
    pairs = {run[at : at + 2] for run in runs for at in range(max(len(run) - 1, 1))}
    others = {word for word in words if not JOINED_LETTERS.search(word)}
    count = sum(map(len, runs)) // _JOINED_PER_WORD + len(others)
    names = tuple(dict.fromkeys((*_LATIN_WORD.findall(text), *_JOINED_NAME.findall(text))))[:ENTITIES_MAX]
    figures = set(_NUMBER.findall(text))
    classes = _count_classes(_JOINED_CLASS_OF[word] for word in _JOINED_WORD.findall(text))
    asks = _JOINED_REQUEST.search(text) is not None and _asked_share(text) > 0
    return _build_form(text, count, pairs | others, figures, names, classes, asks=asks, languages=(True, True))


def _count_classes(found: Iterable[tuple[int, ...]]) -> list[int]:
    classes = [0] * len(_CLASSES)
    for places in found:
        for place in places:
            classes[place] += 1
    return classes


def _build_form(
    text: str,
    count: int,
    words: set[str],
    figures: set[str],
    names: tuple[str, ...],
    classes: list[int],
    *,
    asks: bool,
    languages: tuple[bool, bool],
) -> TextForm:
    clocks = len(_CLOCK.findall(text)) if figures else 0
    amounts = classes[_UNIT] + sum(map(text.count, _CURRENCIES))
    counts = (count or 1, len(names), len(figures), classes[_TIME] + clocks, amounts, *classes[: _PROPOSAL + 1])
    shares = (
        min(1.0, len(_ITEM.findall(text)) / 6) if "\n" in text else 0.0,
        float("```" in text),
        min(1.0, text.count("**") / 8),
        float(": " in text or ":\n" in text or " = " in text or "\uff1a" in text),
        float('"' in text),
        float(asks),
        *map(float, languages),
    )
    specifics = figures.union(map(str.lower, names)) if names else figures
    return TextForm(counts, shares, words, specifics, _asked_share(text), names)


def _asked_share(text: str) -> float:
    """Return the share of the text's characters that are in sentences with a question mark."""
    if "?" not in text and "\uff1f" not in text:
        return 0.0
    asked, start = 0, 0
    for end in _END.finditer(text):
        if "?" in end[0] or "\uff1f" in end[0]:
            asked += end.end() - start
        start = end.end()
    return asked / len(text)


def _weigh_text(counts: Floats, shares: Floats) -> Floats:
    """Return the features `TEXT`, shape (n, len(TEXT)), from the forms' counts, and their `asked` and shares."""
    words, *specific = counts[:, :_CLASSES_FROM].T
    names, figures, times, amounts = specific
    classes = counts[:, _CLASSES_FROM:]
    asked = shares[:, 0]
    columns = {
        "length": np.log1p(words) / 5,
        "brief": ((12 - words) / 9).clip(0, 1),
        "lengthy": ((words - 60) / 140).clip(0, 1),
        "asked": asked,
        "stated": np.log1p(words * (1 - asked)) / 5,
        "names": np.log1p(names) / 2,
        "name_rate": (5 * names / words).clip(0, 1),
        "figures": np.log1p(figures) / 2,
        "figure_rate": (5 * figures / words).clip(0, 1),
        "times": np.log1p(times) / 2,
        "time_rate": (10 * times / words).clip(0, 1),
        "units": np.log1p(amounts) / 2,
        **dict(zip(_RATES, (8 * classes[:, : len(_RATES)] / words[:, None]).clip(0, 1).T, strict=True)),
        "own": classes[:, _FIRST] > 0,
        "happened": classes[:, _PAST] > 0,
        "absolute": classes[:, _FIRM] > 0,
        "proposal": (classes[:, _PROPOSAL] / 3).clip(0, 1),
        **dict(zip(_SHARES, shares[:, 1:].T, strict=True)),
    }
    return np.column_stack([columns[name] for name in TEXT]).astype(np.float64)


def _relate(evidence: ScoringEvidence, form: TextForm, before: list[TextForm]) -> tuple[float, ...]:
    """Return the features `CONTEXT`, of the speaker and of the turns before, with counts that aren't weighed yet."""
    role = infer_role(evidence.role, evidence.speaker)
    said_by = float(role == "user"), float(role == "assistant")
    if not before:
        return (*said_by, 1.0, *(0.0,) * 9, len(form.specifics), 0.0)
    last, turn = before[0], evidence.before[0]
    known, heard = last.specifics, last.words
    for each in before[1:]:
        known, heard = known | each.specifics, heard | each.words
    asked = last.asked
    to_other = (evidence.role, evidence.speaker) != (turn.role, turn.speaker)
    answered = (
        (
            float(asked > 0),
            asked,
            asked * (1 - form.asked),
            last.counts[0],
            min(1.0, 8 * last.counts[_CLASSES_FROM] / last.counts[0]),
            len(last.specifics),
            last.shares[_ASKS] * (turn.role == "user"),
        )
        if to_other
        else (0.0, 0.0, 0.0, last.counts[0], 0.0, 0.0, 0.0)
    )
    repeated = len(form.specifics & known)
    return (
        *said_by,
        0.0,
        *answered,
        len(form.words & heard) / max(len(form.words), 1),
        len(form.words & last.words) / max(len(last.words), 1),
        len(form.specifics) - repeated,
        repeated,
    )


def _weigh_relations(relations: Floats) -> Floats:
    """Return the features `CONTEXT`, shape (n, len(CONTEXT)), with logarithms of the counts in `relations`."""
    weighed = relations.copy()
    for name, divisor in (("length_before", 5), ("specifics_before", 2), ("new_specifics", 2), ("shared_specifics", 2)):
        column = CONTEXT.index(name)
        weighed[:, column] = np.log1p(relations[:, column]) / divisor
    return weighed
