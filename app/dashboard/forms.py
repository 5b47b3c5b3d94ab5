"""Decode form fields with the API's request types and validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from app.api.http.request_body import decode

T = TypeVar("T")


def read_day(form: Mapping[str, str], field: str) -> str:
    """Return the beginning of the day in a field of a form, in UTC; empty without a day."""
    day = form.get(field, "")
    return f"{day}T00:00:00Z" if day else ""


def read_as(shape: type[T], fields: Mapping[str, object]) -> T:
    """Decode form fields into an API request type; empty fields are omitted.

    Raises:
        Invalid: A field is invalid.
    """
    return decode(
        msgspec.json.encode({name: value for name, value in fields.items() if value not in ("", None)}), shape
    )
