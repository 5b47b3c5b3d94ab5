"""Descriptions of fields in the OpenAPI document, from the docstrings of request bodies."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

_HEADING: Final = "\nAttributes:\n"
_FIELD: Final = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def describe_fields(schemas: Mapping[str, dict[str, Any]]) -> None:
    """Move each `Attributes` section of a schema's description to the fields that it describes, in place."""
    for schema in schemas.values():
        about, _, fields = inspect.cleandoc(schema.get("description", "")).partition(_HEADING)
        if not fields:
            continue
        schema["description"] = about.strip()
        for name, text in _FIELD.findall(fields):
            if name in schema.get("properties", {}):
                schema["properties"][name]["description"] = " ".join(text.split())
