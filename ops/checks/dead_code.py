"""Unused code, by vulture: functions, classes and methods at any confidence, other code from 80.

A name after a dot in a template counts as used, as in `svg_charts.draw_sparkline`. Fields of records and columns are
used by name in JSON and SQL, so fields are not checked. Names used by libraries are listed in vulture_whitelist.py.
Tests do not count as use.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vulture import Vulture
from vulture.config import make_config

ROOT = Path(__file__).resolve().parents[2]
CODE = {"function", "class", "method", "property"}
SURE = 80


def unused() -> list[str]:
    """Return one line for each unused piece of code."""
    config = make_config(["--config", str(ROOT / "pyproject.toml")])
    named = [*config["ignore_names"], *_in_templates()]
    vulture = Vulture(ignore_names=named, ignore_decorators=config["ignore_decorators"])
    vulture.scavenge([str(ROOT / path) for path in config["paths"]])
    return [
        f"{Path(item.filename).relative_to(ROOT)}:{item.first_lineno}: {item.message}"
        for item in vulture.get_unused_code(min_confidence=config["min_confidence"])
        if item.typ in CODE or item.confidence >= SURE
    ]


def _in_templates() -> set[str]:
    """Return the names after a dot in the expressions of templates."""
    said = "".join(each.read_text(encoding="utf-8") for each in ROOT.glob("app/**/templates/**/*.html"))
    expressions = re.findall(r"{[{%](.*?)[%}]}", said, re.DOTALL)
    return {name for each in expressions for name in re.findall(r"\.([a-z_]+)", each)}


def main() -> int:
    """Print unused code; return 1 if there is any."""
    found = unused()
    print("\n".join(found) or "dead code: none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
