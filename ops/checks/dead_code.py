"""Code that nothing uses, by vulture: functions, classes and methods at any confidence, the rest from 80.

What a template names after a dot is used, as in `charts.spark`. A field of a record or a column is used by name
elsewhere (JSON, SQL), so fields aren't asked about. Names that a library uses stand in vulture_whitelist.py; tests
don't count as use.
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
    """One line for each piece of code without a use."""
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
    """Names after a dot in the expressions of templates."""
    said = "".join(each.read_text(encoding="utf-8") for each in ROOT.glob("app/**/templates/*.html"))
    expressions = re.findall(r"{[{%](.*?)[%}]}", said, re.DOTALL)
    return {name for each in expressions for name in re.findall(r"\.([a-z_]+)", each)}


def main() -> int:
    """Print what is unused; 1 when there is anything."""
    found = unused()
    print("\n".join(found) or "dead code: none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
