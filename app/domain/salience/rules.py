"""Apply the salience rules: turn evidence into judgements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.domain.salience import keep_chance
from app.domain.salience.criteria import Criteria, Judgement, Reason, ScoringEvidence
from app.domain.salience.entities import entities
from app.domain.salience.features import FORMS, FOUND, PLACE, Floats, read
from app.domain.salience.keep_features import measure_forms
from app.domain.salience.split_texts import SplitTexts
from app.domain.salience.weights import KEPT, POINTS, UNSURE, UNSURE_AT_LEAST

_ADDED = np.log1p(-np.array([POINTS[name] for name in FOUND]) / 10)
_LEFT = np.log(np.array([KEPT[name] for name in FORMS]))
_DOUBTS = np.array([UNSURE.get(name, 0.0) for name in PLACE])


def judge(batch: Sequence[ScoringEvidence]) -> list[Judgement]:
    """Judge each memory by the rules alone, in the given order.

    A criterion is `10 · (1 - Π (1 - points/10) ^ strength) · Π kept ^ strength`, with `POINTS` of features and `KEPT`
    of forms. Features combine like independent probabilities: one clear feature suffices, and no number of features
    exceeds 10. The forms of the text then reduce the result.
    """
    split = SplitTexts()
    rows = read(batch, split)
    criteria = _criteria(rows)
    forms = measure_forms(batch, split)
    return [
        Judgement(
            criteria=Criteria(*scores),
            salience=salience,
            uncertainty=doubt,
            kind=None if evidence.kind else _kind(row, scores[0]),
            entities=names
            if evidence.text == split[evidence.text][0] and not row[_FOREIGN]
            else entities(evidence.text, foreign=bool(row[_FOREIGN])),
            keep_chance=chance,
        )
        for evidence, row, scores, salience, doubt, names, chance in zip(
            batch,
            rows.tolist(),
            criteria.tolist(),
            (criteria.sum(axis=1) / 40).tolist(),
            _uncertainty(rows).tolist(),
            forms.names,
            keep_chance.chances(_join_features(rows, forms.features)).tolist(),
            strict=True,
        )
    ]


def rate_saliences(batch: Sequence[ScoringEvidence]) -> list[float]:
    """Return each memory's salience alone, 0 to 1, which takes less time than `judge`."""
    saliences: list[float] = (_criteria(read(batch, SplitTexts())).sum(axis=1) / 40).tolist()
    return saliences


def explain_keep_chance(evidence: ScoringEvidence) -> tuple[Reason, ...]:
    """Return the features with the largest part in the memory's keep chance, largest first."""
    return keep_chance.explain(measure_features([evidence]))[0]


def measure_features(batch: Sequence[ScoringEvidence]) -> Floats:
    """Return the features of the keep chance, shape (n, len(keep_chance.FEATURES)), to fit its weights."""
    split = SplitTexts()
    rows = read(batch, split)
    return _join_features(rows, measure_forms(batch, split).features)


def _join_features(rows: Floats, forms: Floats) -> Floats:
    """Return the features of the keep chance, without novelty among the tenant's memories.

    That novelty depends on when a memory is scored; without it, scoring a memory again gives the same chance.
    """
    timeless = rows.copy()
    timeless[:, _NOVELTY] = 0
    return keep_chance.join_features(timeless, _criteria(timeless), forms)


def _criteria(rows: Floats) -> Floats:
    """Return the four criteria, shape (n, 4), each 0 to 10."""
    features, forms = rows[:, : len(FOUND)], rows[:, len(FOUND) : len(FOUND) + len(FORMS)]
    criteria: Floats = 10 * (1 - np.exp(features @ _ADDED)) * np.exp(forms @ _LEFT)
    return criteria.clip(0, 10)


def _uncertainty(rows: Floats) -> Floats:
    """Return the uncertainty of each judgement, shape (n,), 0 to 1."""
    doubts: Floats = UNSURE_AT_LEAST + rows @ _DOUBTS
    return doubts.clip(0, 1)


_FOREIGN = PLACE["foreign"]
_NOVELTY = [PLACE["worn"], PLACE["near_copy"]]
_SELF, _STEP, _DUTY, _WHEN = (PLACE[name] for name in ("self", "step", "duty", "when"))
_FEELINGS = tuple(PLACE[name] for name in ("mild", "clear", "strong", "body"))
_LASTING = tuple(PLACE[name] for name in ("identity", "liking"))
_HAPPENED = tuple(
    PLACE[name] for name in ("death", "joy", "bond", "career", "danger", "decision", "commitment", "when")
)


def _kind(row: Sequence[float], emotional: float) -> str | None:
    """Infer the kind, most specific first; None for machine output or if no feature suggests one; never `system`."""
    if row[PLACE["machine"]]:
        return None
    statement = not row[PLACE["question"]]
    guesses = (
        ("emotional", emotional >= 5 and max(row[place] for place in _FEELINGS) >= 0.9),
        ("procedural", row[_STEP] + row[_DUTY] >= 1.2 and row[_SELF] <= 0.5 and not row[_WHEN]),
        ("semantic", statement and max(row[place] for place in _LASTING) >= 0.6),
        ("episodic", row[_SELF] > 0 or max(row[place] for place in _HAPPENED) >= 0.5),
        ("semantic", statement and row[PLACE["text"]] >= 0.3 and not row[PLACE["greets"]]),
    )
    return next((kind for kind, applies in guesses if applies), None)
