"""Estimate the chance that a memory should be kept.

The chance is that of a logistic regression on the features of `features.py` and `keep_features.py` and on the four
criteria. `python -m ops.salience` fits its weights and writes them to `keep_weights.toml`. Salience doesn't depend on
them: it is the sum of the criteria, which `rules.py` calculates with the points of `weights.py`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from app.domain.data_files import read_table
from app.domain.salience.criteria import CRITERIA, Reason
from app.domain.salience.features import PLACE, Floats
from app.domain.salience.keep_features import ASSISTANTS, CONTEXT, LABELS, TEXT

REASONS: Final = 3
"""Number of features that explain a chance."""

FEATURES: Final = (
    *(f"rules.{name}" for name in PLACE),
    *CRITERIA,
    "salience",
    *TEXT,
    *CONTEXT,
    *(f"assistant.{name}" for name in ASSISTANTS),
)
"""Names of the features, in the order of `join_features`."""

_FITTED: Final[dict[str, Any]] = read_table(__package__, "keep_weights.toml")
_WEIGHTS: Final = np.array([_FITTED["weights"].get(name, (0.0, 0.0)) for name in FEATURES], dtype=np.float64)
"""Weight and mean of each feature; a feature that isn't listed has none."""
_INTERCEPT: Final = float(_FITTED["intercept"])
OTHER_LANGUAGE: Final = FEATURES.index("other_language")
_STRETCH: Final = float(_FITTED["stretch"])


def join_features(rows: Floats, criteria: Floats, forms: Floats) -> Floats:
    """Return all features, shape (n, len(FEATURES)).

    Args:
        rows: The features of `features.read`.
        criteria: The four criteria, shape (n, 4), each 0 to 10.
        forms: The features of `keep_features.measure_forms`.
    """
    joined: Floats = np.hstack([rows, criteria / 10, criteria.sum(axis=1, keepdims=True) / 40, forms])
    return joined


def chances(features: Floats) -> Floats:
    """Return the chance of each memory, shape (n,), 0 to 1."""
    odds = (_INTERCEPT + (features - _WEIGHTS[:, 1]) @ _WEIGHTS[:, 0]) * _stretch(features)
    chance: Floats = 1 / (1 + np.exp(-odds.clip(-50, 50)))
    return chance


def _stretch(features: Floats) -> Floats:
    """Return the factor on each memory's log-odds, which corrects for the fewer known words of other languages."""
    return np.where(features[:, OTHER_LANGUAGE] > 0, _STRETCH, 1.0)


def explain(features: Floats) -> list[tuple[Reason, ...]]:
    """Return the `REASONS` features with the largest parts in each memory's chance.

    The parts of features with the same label are added up, because the same words contribute to several features.
    """
    parts = ((features - _WEIGHTS[:, 1]) * _WEIGHTS[:, 0] * _stretch(features)[:, None]) @ _BY_LABEL
    order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :REASONS]
    return [
        tuple(Reason(_LABELS[place], round(float(row[place]), 2)) for place in places)
        for row, places in zip(parts, order.tolist(), strict=True)
    ]


def _label(name: str) -> str:
    """Return a feature's label; a feature of the rules is labelled by its own name, such as "liking"."""
    plain = name.removeprefix("rules.").removeprefix("assistant.")
    return LABELS.get(plain, plain.replace("_", " "))


_LABELS: Final = tuple(dict.fromkeys(_label(name) for name in FEATURES))
_BY_LABEL: Final = np.array([[_label(name) == label for label in _LABELS] for name in FEATURES], dtype=np.float64)
