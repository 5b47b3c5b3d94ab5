"""Limits: under 400 lines a file in app/, client/ and workers/, under 500 in tests; up to 20 files a folder of app/."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# a file must have fewer lines than this
LIMITS = {"app": 400, "client": 400, "workers": 400, "tests": 500}
FILES_MAX = 20


def too_long(root: Path = ROOT) -> list[str]:
    """Return one line for each Python file under `root` that has reached its folder's limit."""
    found = []
    for folder, limit in LIMITS.items():
        for path in sorted((root / folder).rglob("*.py")):
            lines = len(path.read_text().splitlines())
            if lines >= limit:
                found.append(f"{path.relative_to(root)}: {lines} lines, fewer than {limit} allowed; split it")
    return found


def too_full(root: Path = ROOT) -> list[str]:
    """Return one line for each folder of app/ under `root` that has more than `FILES_MAX` files."""
    files = Counter(path.parent for path in (root / "app").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return [
        f"{folder.relative_to(root)}: {count} files, at most {FILES_MAX} allowed; make folders of its parts"
        for folder, count in sorted(files.items())
        if count > FILES_MAX
    ]


def main() -> int:
    """Print the files that are too long and the folders that are too full; return 1 if there are any."""
    found = too_long() + too_full()
    print("\n".join(found) or "sizes: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
