"""The bare cost of the same work, as fast as we can make it: named SQL statements, and a minimal server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import LiteralString, cast

_NAMED = re.compile(r"^-- name: (?P<name>\w+)\n(?P<text>.*?)(?=^-- name:|\Z)", re.MULTILINE | re.DOTALL)


def statements(name: str) -> dict[str, LiteralString]:
    """Return the statements of `floors/<name>.sql`, by the name in the line above each."""
    text = (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
    return {found["name"]: cast("LiteralString", found["text"].strip()) for found in _NAMED.finditer(text)}
