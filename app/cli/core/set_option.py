"""Parse `--set path.to.field=value` options into a nested JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer


def parse_assignments(words: Sequence[str], onto: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return an object with each value at its path. Values that parse as JSON are decoded, others stay text.

    Args:
        words: Assignments such as `tiers.cold_below=0.1`.
        onto: Object to modify in place; a new one if omitted.

    Raises:
        BadParameter: An assignment has no `=`, or a path continues below a plain value.
    """
    whole = {} if onto is None else onto
    for word in words:
        path, equals, value = word.partition("=")
        names = path.split(".")
        if not equals or not all(names):
            raise typer.BadParameter(
                f"{word!r} isn't an assignment: expected field=value, such as tiers.cold_below=0.1"
            )
        place = whole
        for name in names[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise typer.BadParameter(f"{path}: {name} already has a plain value and can't contain fields")
        place[names[-1]] = _value(value)
    return whole


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word
