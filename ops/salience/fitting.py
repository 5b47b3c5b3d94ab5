"""Fit a regularised logistic regression to groups of labelled memories, and predict groups that it hasn't seen.

The labelled memories are English, so the weights of other languages are set by translated statements instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from app.domain.salience import keep_chance
from app.domain.salience.features import Floats
from ops.salience.examples import BETWEEN, YES, Group

STRENGTH: Final = 5.0
"""Inverse of the penalty on the squared weights of standardised features."""
SETS: Final[dict[str, float]] = {"labelled": 0.5}
"""Share of a dataset's weight; 1 if it isn't listed. The labelled texts are few, and no conversations."""


TERSE: Final = 0.2
"""Weight of a dataset's terse copies as a share of the dataset's: more of it ranks terse texts better, others worse."""
LANGUAGES: Final = ("rules.foreign", "other_language", "joined_script")
"""Features whose weights `fit_languages` sets."""
UNFITTED: Final = tuple(keep_chance.FEATURES.index(name) for name in (*LANGUAGES, "rules.unknown"))
"""Places of the features about a text's language, too rare in the datasets to be fitted there."""


class Fit(NamedTuple):
    """A linear predictor.

    Attributes:
        intercept: Log-odds of a memory with average features.
        weights: Weight of each feature, shape (k,).
        means: Mean of each feature, shape (k,).
        stretch: Factor on the log-odds of texts in other languages.
    """

    intercept: float
    weights: Floats
    means: Floats
    stretch: float = 1.0

    def odds(self, features: Floats) -> Floats:
        """Return the log-odds of each memory, shape (n,)."""
        predicted: Floats = self.intercept + (features - self.means) @ self.weights
        if self.stretch == 1:
            return predicted
        return np.where(features[:, keep_chance.OTHER_LANGUAGE] > 0, self.stretch * predicted, predicted)


def fit_weights(groups: Sequence[Group], strength: float = STRENGTH) -> Fit:
    """Fit weights to these groups; each dataset counts alike, and within it those that matter and the others.

    The features about a text's language get no weight.

    Args:
        strength: Inverse of the penalty.
    """
    rated = [group.select(group.labels != BETWEEN) for group in groups]
    features = np.vstack([group.features for group in rated])
    labels = np.concatenate([group.labels for group in rated])
    sets = np.concatenate([[f"{group.form} {group.dataset}"] * group.labels.size for group in rated])
    counts = np.zeros(labels.size)
    for name in sorted(set(sets.tolist())):
        for label in (0, 1):
            chosen = (sets == name) & (labels == label)
            form, dataset = name.split(" ", 1)
            share = SETS.get(dataset, 1.0) * (TERSE if form == "terse" else 1.0)
            counts[chosen] = share / max(chosen.sum(), 1)
    counts /= counts.sum()
    means = np.average(features, axis=0, weights=counts)
    spread = np.sqrt(np.average((features - means) ** 2, axis=0, weights=counts))
    varies = spread > 1e-6
    varies[[place for place in UNFITTED if place < varies.size]] = False
    scaled = (features[:, varies] - means[varies]) / spread[varies]
    model = LogisticRegression(C=strength, max_iter=1000).fit(scaled, labels, sample_weight=counts)
    weights = np.zeros(means.size)
    weights[varies] = model.coef_[0] / spread[varies]
    return Fit(float(model.intercept_[0]), weights, means)


def fit_languages(fit: Fit, parallel: Mapping[str, Floats]) -> Fit:
    """Return the fit with a stretch and weights of `LANGUAGES`, so that a statement has similar odds in every language.

    The stretch is the ratio of the standard deviations of the odds in English and in the other languages.

    Args:
        parallel: Features of the same statements in several languages, one of them `en`, shape (n, k) each.
    """
    places = UNFITTED[: len(LANGUAGES)]
    others = [name for name in parallel if name != "en"]
    english, odds = fit.odds(parallel["en"]), [fit.odds(parallel[name]) for name in others]
    stretch = float(english.std() / np.mean([each.std() for each in odds]))
    missing = np.concatenate([english / stretch - each for each in odds])
    marks = np.vstack([parallel[name][:, places] for name in others])
    weights, means = fit.weights.copy(), fit.means.copy()
    weights[list(places)] = np.linalg.lstsq(marks, missing, rcond=None)[0]
    means[list(places)] = 0.0
    return Fit(fit.intercept, weights, means, stretch)


def predict_left_out(groups: Sequence[Group], key: Callable[[Group], str]) -> list[Floats]:
    """Return the log-odds of each group by weights fitted to the groups with another key."""
    fits = {each: fit_weights([group for group in groups if key(group) != each]) for each in set(map(key, groups))}
    return [fits[key(group)].odds(group.features) for group in groups]


def calibrate(groups: Sequence[Group], odds: Sequence[Floats]) -> tuple[float, float]:
    """Return intercept and slope that turn odds into chances at the datasets' own shares of memories that matter.

    Args:
        odds: Log-odds, or any other scores, of the groups' memories, by weights that haven't seen them.
    """
    rated = [group.labels != BETWEEN for group in groups]
    scores = np.concatenate([each[rows] for each, rows in zip(odds, rated, strict=True)])
    labels = np.concatenate([group.labels[rows] == YES for group, rows in zip(groups, rated, strict=True)])
    sizes = {
        name: sum(g.labels[r].size for g, r in zip(groups, rated, strict=True) if g.dataset == name)
        for name in {group.dataset for group in groups}
    }
    counts = np.concatenate([np.full(int(r.sum()), 1 / sizes[g.dataset]) for g, r in zip(groups, rated, strict=True)])
    model = LogisticRegression(C=1e6, max_iter=1000).fit(scores[:, None], labels, sample_weight=counts * 1000)
    return float(model.intercept_[0]), float(model.coef_[0][0])


def calibrate_left_out(groups: Sequence[Group], odds: Sequence[Floats]) -> list[Floats]:
    """Return the chances of each group, calibrated on the other groups alone.

    Args:
        odds: Log-odds of the groups' memories by weights that haven't seen them, as for `calibrate`.
    """
    chances = []
    for place, own in enumerate(odds):
        others = [each for each in range(len(groups)) if each != place]
        intercept, slope = calibrate([groups[each] for each in others], [odds[each] for each in others])
        chances.append(1 / (1 + np.exp(-(intercept + slope * own))))
    return chances
