"""Limits on file lengths: under 400 lines in app/ and workers/, under 500 in tests. Longer files should be split."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# a file must have fewer lines than this
LIMITS = {"app": 400, "workers": 400, "tests": 500}


def too_long(root: Path = ROOT) -> list[str]:
    """Return one line for each Python file under `root` that has reached its folder's limit."""
    found = []
    for folder, limit in LIMITS.items():
        for path in sorted((root / folder).rglob("*.py")):
            lines = len(path.read_text().splitlines())
            if lines >= limit:
                found.append(f"{path.relative_to(root)}: {lines} lines, fewer than {limit} allowed; split it")
    return found


def main() -> int:
    """Print the files that are too long; return 1 if there are any."""
    found = too_long()
    print("\n".join(found) or "file lengths: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
