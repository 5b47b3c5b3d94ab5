"""Known vulnerabilities in the locked packages, by pip-audit.

pip-audit exits successfully even if it could not look up any package. This check ends with `NOT_CHECKED` instead,
unless each package was looked up or a vulnerability is known: `make check` then says so beside the other checks, and
`make audit`, which a release needs, fails.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# contains every package of the other locks, at the same version
LOCK = ROOT / "ops" / "locks" / "dev.txt"
LIMIT_SECONDS = 60
NOT_CHECKED = 3
"""Exit code if a package could not be looked up, and no vulnerability is known."""


def pins(lock: str) -> int:
    """Return the number of packages in a lock file."""
    return len(re.findall(r"^[A-Za-z0-9][^\s=]*==", lock, flags=re.MULTILINE))


def verdict(report: dict[str, Any] | None, packages: int) -> tuple[int, str]:
    """Return exit code and text for pip-audit's JSON report, or for None if there was no report."""
    entries = (report or {}).get("dependencies", [])
    vulnerable = [
        f"audit: {entry['name']} {entry['version']}: {vuln['id']}, "
        f"fixed in {', '.join(vuln['fix_versions']) or 'no version yet'}"
        for entry in entries
        for vuln in entry.get("vulns", [])
    ]
    audited = sum("vulns" in entry for entry in entries)
    # the lock, but not the report, has entries for other platforms
    skipped = len(entries) - audited if entries else packages
    lines = list(vulnerable)
    if skipped:
        todo = "run `make audit` where https://pypi.org/pypi can be reached"
        lines.append(f"audit: NOT CHECKED: {skipped} of {audited + skipped} packages could not be looked up; {todo}")
    elif not vulnerable:
        lines.append(f"audit: clean ({audited} packages)")
    if vulnerable:
        return 1, "\n".join(lines)
    return (NOT_CHECKED if skipped else 0), "\n".join(lines)


def report(lock: Path = LOCK) -> dict[str, Any] | None:
    """Return pip-audit's report on the lock file; None if it timed out or failed."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        str(lock),
        "--disable-pip",
        "--require-hashes",
    ]
    try:
        done = subprocess.run(
            [*command, "--format", "json", "--progress-spinner", "off"],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    return answer if isinstance(answer, dict) else None


def main() -> int:
    """Audit the lock and print the verdict."""
    code, text = verdict(report(), pins(LOCK.read_text()))
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
