"""Run every static check to completion, then print one line per check and a verdict (`make check`)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ops.checks.audit import NOT_CHECKED

PYTHON = sys.executable
BIN = Path(PYTHON).parent

CHECKS: dict[str, list[str]] = {
    "ruff": [f"{BIN}/ruff", "check", "--quiet", "--output-format=concise", "."],
    "format": [f"{BIN}/ruff", "format", "--check", "--quiet", "."],
    "mypy": [f"{BIN}/mypy", "--strict", "--no-error-summary"],
    "arrows": [f"{BIN}/lint-imports", "--no-logo"],
    "dead code": [PYTHON, "-m", "ops.checks.dead_code"],
    "file lengths": [PYTHON, "-m", "ops.checks.file_lengths"],
    "language": [PYTHON, "-m", "ops.checks.language"],
    "containers": [PYTHON, "-m", "ops.checks.docker_lint"],
    "kubernetes": [PYTHON, "-m", "ops.checks.kubernetes"],
    "licences": [PYTHON, "-m", "ops.checks.licences"],
    "audit": [PYTHON, "-m", "ops.checks.audit"],
}


def main(wanted: list[str]) -> int:
    """Run the named checks, or all if none is named; return 1 if any fails.

    The audit doesn't fail if it could not look up every package, but its line and the last one say so.
    """
    if unknown := set(wanted) - set(CHECKS):
        print(f"no such check: {', '.join(sorted(unknown))}; there are: {', '.join(CHECKS)}")
        return 2
    failed: list[str] = []
    unchecked: list[str] = []
    for name in wanted or CHECKS:
        started = time.monotonic()
        done = subprocess.run(CHECKS[name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        is_unchecked = name == "audit" and done.returncode == NOT_CHECKED
        verdict = "NOT CHECKED" if is_unchecked else "FAILED" if done.returncode else "ok"
        print(f"{name:<14}{verdict:<12}{time.monotonic() - started:5.1f} s", flush=True)
        if done.returncode:
            (unchecked if is_unchecked else failed).append(name)
        if done.returncode or name == "audit":
            print(done.stdout.strip(), flush=True)
    print(summarise(failed, unchecked))
    return 1 if failed else 0


def summarise(failed: list[str], unchecked: list[str]) -> str:
    """Return the last line: which checks failed, and which could not be done."""
    rest = f"; NOT CHECKED: {', '.join(unchecked)}" if unchecked else ""
    if failed:
        return f"check: {len(failed)} failed: {', '.join(failed)}{rest}"
    return f"check: {'the others' if unchecked else 'all'} passed{rest}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
