"""Output of generated files (`make docs`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


def write(path: Path, text: str) -> None:
    """Write a file of the project, and report it."""
    path.write_text(text)
    print(f"written: {path.relative_to(ROOT)}")
