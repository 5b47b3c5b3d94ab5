"""Run the examples of `client/ADAPTERS.md`: a block of Python, and below it a block with its output."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "client" / "ADAPTERS.md"
_BLOCKS = re.compile(r"<!-- (?P<name>\w+) -->\n+```python\n(?P<code>.*?)```\n+```text\n(?P<output>.*?)```", re.DOTALL)


def _find(name: str) -> re.Match[str]:
    [found] = [block for block in _BLOCKS.finditer(PAGE.read_text("utf-8")) if block["name"] == name]
    return found


def run(name: str) -> str:
    """Run the example of an adapter and return what it prints."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(compile(_find(name)["code"], f"ADAPTERS.md ({name})", "exec"), {"__name__": "__main__"})  # noqa: S102
    return written.getvalue()


def output(name: str) -> str:
    """Return the output that the page shows."""
    return _find(name)["output"]
