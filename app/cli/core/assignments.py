"""`--set path.to.field=value`: words of the command line as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer


def assigned(words: Sequence[str], onto: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object with each value at its path; a value is JSON where it reads as such, else text.

    Args:
        words: Such as `tiers.cold_below=0.1`.
        onto: What to set them in; it is changed.

    Raises:
        BadParameter: There is no `=`, or a path goes through a value.
    """
    whole = {} if onto is None else onto
    for word in words:
        path, equals, value = word.partition("=")
        names = path.split(".")
        if not equals or not all(names):
            raise typer.BadParameter(f"{word!r} isn't of the form field=value, such as tiers.cold_below=0.1")
        place = whole
        for name in names[:-1]:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise typer.BadParameter(f"{path} goes through {name}, which has a value of its own")
        place[names[-1]] = _value(value)
    return whole


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word
