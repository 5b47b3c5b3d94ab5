"""What forms of several pages have in common: fields read as the API reads its bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from app.api.http.body import decode

T = TypeVar("T")


def read_as(shape: type[T], fields: Mapping[str, object]) -> T:
    """Fields as the API would read them; those that are empty are left out.

    Raises:
        Invalid: A field is wrong.
    """
    return decode(
        msgspec.json.encode({name: value for name, value in fields.items() if value not in ("", None)}), shape
    )
