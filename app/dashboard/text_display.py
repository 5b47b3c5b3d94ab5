"""Make caller-supplied text safe to display: control and direction characters are shown as code points."""

from __future__ import annotations

import json
from typing import Any

from app.domain.formatting import make_visible

__all__ = ["as_json", "make_visible", "shorten"]


def shorten(text: object, most: int) -> str:
    """Return the visible text as one line, truncated to `most` characters."""
    line = " ".join(make_visible(text).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def as_json(value: Any) -> str:
    """Return metadata as indented JSON."""
    return make_visible(json.dumps(value, ensure_ascii=False, indent=1))
