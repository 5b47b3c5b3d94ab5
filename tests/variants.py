"""Parameters of a test, of which `make test` runs the usual ones and `make test-long` the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest


def variants(values: Mapping[str, Any] | Iterable[str], usual: Collection[str]) -> list[Any]:
    """Return a parameter for each value, by its name; those that aren't usual are marked `long`.

    At least one value must be usual: variants repeat what `make test` has shown once.
    """
    named = values if isinstance(values, Mapping) else {name: name for name in values}
    unknown = set(usual) - named.keys()
    if unknown or not usual:
        raise ValueError(f"the usual values {sorted(usual)} must be some of {sorted(named)}")
    return [
        pytest.param(value, id=name, marks=() if name in usual else pytest.mark.long) for name, value in named.items()
    ]
