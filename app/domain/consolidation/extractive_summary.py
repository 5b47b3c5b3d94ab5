"""Build summaries from the sources' own sentences, deterministically and without a model.

Sentences are chosen greedily by the value that each adds to those already chosen: facts, words, sources and centrality
(LexRank, Erkan and Radev 2004). The gains are submodular, so the greedy choice is close to the optimum (Lin and Bilmes
2011). A sentence's value rises with its salience under the salience rules. It is 0 if the sentence contains only
instructions to a model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.domain.consolidation.facts import Facts, facts, stems
from app.domain.consolidation.group_types import Form, Source, Summary
from app.domain.consolidation.parameters import KEPT_SHARES, Level
from app.domain.consolidation.rendering import SourceLine, render_lines
from app.domain.consolidation.sentences import split_sentences
from app.domain.salience import ScoringEvidence
from app.domain.salience.features import strip_instructions
from app.domain.salience.rules import rate_saliences
from app.domain.text.words import contains_question, format_line, split_words

FLOOR_CHARACTERS: Final = 120
"""Length that a summary may always have, however short its sources are."""
KEY_POINTS_MAX: Final = 12
SENTENCES_MAX: Final = 250
"""Maximum number of sentences to compare with each other; beyond it, the most salient ones are preselected."""

_WORTH: Final = {"link": 3.0, "number": 3.0, "date": 2.5, "denied": 2.0, "name": 1.5}
_CHANGE_WORTH = 2.0  # for stating a change
_OUTDATED = 0.6  # weight factor if a later sentence states a change of the subject
_SALIENT_WORTH = 5.0  # times salience; counts for each sentence, unlike words, which count once per summary
_SOURCE_WORTH = 1.0
_WORD_WORTH = 0.35
_CENTRAL_WORTH = 1.5
_LATER = 0.3  # extra weight of the latest source: of two values, the newer one is current
_ASKED = 0.4  # weight factor of a question, which states little
_FRESH = 0.25  # share of new words up to which a sentence without new facts is redundant
_EXCHANGES = 4  # number of unchosen sentences, and of chosen ones, for which swaps are tried
_DAMPING = 0.85
_ROUNDS = 30
_COST_EXPONENT = 0.75  # on a sentence's length: balances many short sentences against few informative ones
_COST_CHARACTERS = 20  # overhead per sentence
_DIGITS_SALIENCE = 0.2  # salience bonus for a number when sentences are preselected
_TELLING_WORDS = 3
_PLAIN = 0.3  # weight factor without facts at salience 0, rising to 1 at `_TELLING_SALIENCE`
_TELLING_SALIENCE = 0.25
_IDLE = 0.12  # salience below which a short sentence without facts is chatter

_CHANGES: Final = re.compile(
    r"\b(?:now|no longer|anymore|instead|chang(?:ed?|es)|moved|switched|became|corrected|replaced|from now on|used to"
    r"|jetzt|nun|geändert|ahora|cambi[óo]|maintenant|agora|mudou)\b|现在|改",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A candidate sentence.

    Attributes:
        line: The sentence with its speaker and source.
        worth: Value of each item that it contributes, by the item's name, before `weight`.
        own: Names of the items that are facts.
        weight: Factor on all values.
        tells_change: The sentence states a change.
    """

    line: SourceLine
    worth: dict[str, float]
    own: frozenset[str]
    weight: float
    tells_change: bool


def extract_summary(sources: Sequence[Source], form: Form, level: Level) -> Summary:
    """Return a summary made of the sources' sentences.

    Its length is limited to the level's share of the sources' characters, but at least `FLOOR_CHARACTERS`; if no
    sentence fits, the summary is one longer sentence. For `duplicates` it is the most valuable source in
    full, followed by sentences of other sources that add facts or words, whatever their length.

    Args:
        sources: One or more, in any order.
    """
    ordered = sorted(sources, key=lambda source: (source.said_at, source.memory_id))
    candidates = _candidates(ordered)
    if not candidates:
        return Summary(_plainest(ordered), (), "extractive")
    chosen = _fullest(candidates) if form == "duplicates" else _best(candidates, form, length_limit(sources, level))
    lines = [candidates[at].line for at in sorted(chosen)]
    return Summary(render_lines(lines, form), _key_points(candidates, chosen), "extractive")


def length_limit(sources: Iterable[Source], level: Level) -> int:
    """Return the maximum number of characters for a summary of these sources at a level."""
    return max(FLOOR_CHARACTERS, int(KEPT_SHARES[level][1] * sum(len(source.text) for source in sources)))


def _candidates(ordered: Sequence[Source]) -> list[_Sentence]:
    """Return the sources' sentences in order, with their values."""
    lines, saliences = _lines(ordered)
    if not lines:
        return []
    facts_by_line = [facts(line.text) for line in lines]
    speakers = {word for source in ordered for word in split_words(source.speaker or "")}
    names = frozenset().union(*(each.names for each in facts_by_line)) - speakers
    words = [stems(line.text) for line in lines]
    document_counts = Counter(word for each in words for word in set(each))
    centrality = _centrality(_vectors(words, document_counts))
    last = max(len(ordered) - 1, 1)
    candidates = []
    for at, (line, salience) in enumerate(zip(lines, saliences, strict=True)):
        line_facts, line_stems = facts_by_line[at], words[at]
        own = _stated(line_facts, names, asks=contains_question(line.text))
        worth = {name: _WORTH[name.partition(":")[0]] for name in own}
        worth |= {f"word:{word}": _WORD_WORTH * document_counts[word] ** 0.5 for word in line_stems}
        changes = _CHANGES.search(line.text) is not None
        if changes:
            worth[f"change:{at}"] = _CHANGE_WORTH
        worth[f"central:{at}"] = _CENTRAL_WORTH * float(centrality[at])
        worth[f"salience:{at}"] = _SALIENT_WORTH * salience
        worth[f"source:{line.source}"] = _SOURCE_WORTH * min(len(line_stems) / _TELLING_WORDS, 1)
        weight = (0.75 + 0.5 * ordered[line.source].importance) * (1 + _LATER * line.source / last)
        weight *= _ASKED if contains_question(line.text) else 1
        weight *= 1 if own else min(1, _PLAIN + salience * (1 - _PLAIN) / _TELLING_SALIENCE)
        if not strip_instructions(line.text).strip() or not (
            own or salience >= _IDLE or len(line_stems) >= _TELLING_WORDS
        ):
            weight = 0.0
        candidates.append(_Sentence(line, worth, own, weight, changes))
    return [_dated(each, candidates[at + 1 :]) for at, each in enumerate(candidates)]


def _lines(ordered: Sequence[Source]) -> tuple[list[SourceLine], list[float]]:
    """Return the sentences in order with their saliences, limited to the `SENTENCES_MAX` most salient."""
    lines = [
        SourceLine(place, sentence, source.speaker, source.said_at)
        for place, source in enumerate(ordered)
        for sentence in split_sentences(_without_speaker(source))
    ]
    saliences = rate_saliences([ScoringEvidence(line.text, line.speaker) for line in lines])
    if len(lines) > SENTENCES_MAX:
        telling = [
            salience + _DIGITS_SALIENCE * any(map(str.isdigit, line.text))
            for line, salience in zip(lines, saliences, strict=True)
        ]
        best = sorted(sorted(range(len(lines)), key=lambda at: (-telling[at], at))[:SENTENCES_MAX])
        lines, saliences = [lines[at] for at in best], [saliences[at] for at in best]
    return lines, saliences


def _dated(sentence: _Sentence, later: Sequence[_Sentence]) -> _Sentence:
    """Lower a sentence's weight if a later sentence that shares a word with it states a change."""
    words = {name for name in sentence.worth if name.startswith("word:")}
    if any(each.tells_change and each.own and words & each.worth.keys() for each in later):
        return replace(sentence, weight=_OUTDATED * sentence.weight)
    return sentence


def _without_speaker(source: Source) -> str:
    """Return the text without a leading speaker's name, since the speaker is rendered separately."""
    if source.speaker and format_line(source.text, source.speaker) == source.text:
        return source.text.lstrip()[len(source.speaker) + 1 :]
    return source.text


def _stated(found: Facts, names: frozenset[str], *, asks: bool) -> frozenset[str]:
    """Return facts as items (`number:7`); of the capitalised words, only those in `names`."""
    return frozenset(
        [
            *(f"name:{name}" for name in (found.names | found.starts) & names),
            *(f"number:{number}" for number in found.numbers),
            *(f"date:{date}" for date in found.dates if not any(f"{date}-" in other for other in found.dates)),
            *(f"link:{link}" for link in found.links),
            *(f"denied:{word}" for word in found.denied if word and not asks),
        ]
    )


def _vectors(words: Sequence[Sequence[str]], spread: Counter[str]) -> NDArray[np.float64]:
    """Return tf-idf unit vectors, shape (n, words)."""
    place = {word: at for at, word in enumerate(spread)}
    rows = np.zeros((len(words), max(len(place), 1)))
    for at, each in enumerate(words):
        for word in each:
            rows[at, place[word]] += np.log1p(len(words) / spread[word])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float64] = rows / np.where(lengths == 0, 1, lengths)
    return unit


def _centrality(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each sentence's centrality, scaled to a maximum of 1."""
    near = vectors @ vectors.T
    steps = near / np.maximum(near.sum(axis=1, keepdims=True), 1e-12)
    scores = np.full(len(near), 1 / len(near))
    for _ in range(_ROUNDS):
        scores = (1 - _DAMPING) / len(near) + _DAMPING * (scores @ steps)
    scaled: NDArray[np.float64] = scores / scores.max()
    return scaled


def _table(candidates: Sequence[_Sentence]) -> NDArray[np.float64]:
    """Return each sentence's weighted value per item, shape (n, items)."""
    place = {name: at for at, name in enumerate(dict.fromkeys(name for each in candidates for name in each.worth))}
    rows = np.zeros((len(candidates), len(place)))
    for at, each in enumerate(candidates):
        rows[at, [place[name] for name in each.worth]] = [each.weight * worth for worth in each.worth.values()]
    return rows


def _best(candidates: Sequence[_Sentence], form: Form, most: int) -> list[int]:
    """Return the indices of the best sentences that fit, skipping redundant ones; if none fits, of the shortest one."""
    table = _table(candidates)
    costs = np.array([(len(each.line.text) + _COST_CHARACTERS) ** _COST_EXPONENT for each in candidates])

    def fits(places: Sequence[int]) -> bool:
        return len(render_lines([candidates[at].line for at in sorted(places)], form)) <= most

    chosen: list[int] = []
    covered = np.zeros(table.shape[1])
    remaining = [at for at, each in enumerate(candidates) if each.weight > 0]
    while remaining:
        gains = np.maximum(table[remaining] - covered, 0).sum(axis=1) / costs[remaining]
        best = remaining.pop(int(gains.argmax()))
        if not _repeats(candidates[best], candidates, chosen) and fits([*chosen, best]):
            chosen.append(best)
            covered = np.maximum(covered, table[best])
    if not chosen:
        return [min(range(len(candidates)), key=lambda at: (not candidates[at].weight, len(candidates[at].line.text)))]
    return _swap_sentences(candidates, table, chosen, fits)


def _swap_sentences(
    candidates: Sequence[_Sentence],
    table: NDArray[np.float64],
    chosen: list[int],
    fits: Callable[[Sequence[int]], bool],
) -> list[int]:
    """Swap low-value chosen sentences for the best unchosen ones if the total value rises and the text still fits."""
    unchosen = [at for at, each in enumerate(candidates) if at not in chosen and each.weight > 0]
    for entering in sorted(unchosen, key=lambda at: (-table[at].sum(), at))[:_EXCHANGES]:
        value = table[chosen].max(axis=0).sum()
        for leaving in sorted(chosen, key=lambda at: (table[at].sum(), at))[:_EXCHANGES]:
            others = [at for at in chosen if at != leaving]
            if _repeats(candidates[entering], candidates, others):
                continue
            trial = [*others, entering]
            if table[trial].max(axis=0).sum() > value and fits(trial):
                chosen = trial
                break
    return chosen


def _repeats(sentence: _Sentence, candidates: Sequence[_Sentence], chosen: Sequence[int]) -> bool:
    """Return whether the chosen sentences already contain all facts and most words of this sentence."""
    covered = {name for at in chosen for name in candidates[at].worth}
    words = [name for name in sentence.worth if name.startswith("word:")]
    fresh = sum(name not in covered for name in words)
    return sentence.own <= covered and fresh <= _FRESH * len(words)


def _fullest(candidates: Sequence[_Sentence]) -> list[int]:
    """Return the indices of all sentences of the most valuable source, then of other sources' that add something."""
    by_source: dict[int, list[int]] = {}
    for at, each in enumerate(candidates):
        by_source.setdefault(each.line.source, []).append(at)

    def fullness(source: int) -> tuple[float, int]:
        names = {name: worth for at in by_source[source] for name, worth in candidates[at].worth.items()}
        return sum(names.values()), source

    chosen = by_source[max(by_source, key=fullness)]
    for at in sorted(set(range(len(candidates))) - set(chosen), key=lambda at: (-len(candidates[at].own), at)):
        if candidates[at].weight and not _repeats(candidates[at], candidates, chosen):
            chosen = [*chosen, at]
    return chosen


def _key_points(candidates: Sequence[_Sentence], chosen: Sequence[int]) -> tuple[str, ...]:
    """Return up to `KEY_POINTS_MAX` chosen sentences in order, preferring those that state a fact other than a name."""
    telling = [at for at in chosen if any(not name.startswith("name:") for name in candidates[at].own)]
    telling += [at for at in chosen if at not in telling]
    lines = [candidates[at].line for at in sorted(telling[:KEY_POINTS_MAX])]
    return tuple(dict.fromkeys(format_line(" ".join(line.text.split()), line.speaker) for line in lines))


def _plainest(ordered: Sequence[Source]) -> str:
    """Return the shortest text; used if no source contains a word."""
    return min((source.text for source in ordered), key=len)
