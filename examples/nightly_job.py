"""Report the state of the memories: last night, the coming weeks, open decisions and self-tests. For a cron job.

    python examples/nightly_job.py
    python examples/nightly_job.py --export ann --output ann.zip

The exit code is 1 if something needs attention; each such line starts with `!`. Ebbing runs its own maintenance every
night, so this job changes nothing. With `--export`, it also saves a copy of one user's data.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ebbing_client import Ebbing, EbbingError

FORECAST_DAYS = 21
EXPORT_TIMEOUT_SECONDS = 600
RETRIEVAL_TESTS = ("connection", "application", "coherence")
"""Kinds of self-tests that flag a memory if they fail; the other kinds only measure the service."""


class Line(NamedTuple):
    """A line of the report."""

    text: str
    needs_attention: bool = False


def report(ebbing: Ebbing) -> Iterator[Line]:
    """Yield the lines of the report."""
    stats = ebbing.call("GET", "/v1/stats")
    yield Line("memories: " + ", ".join(f"{count:,} {tier}" for tier, count in stats["memories"].items() if count))
    yield Line(f"dead letters: {stats['dead_letters']:,}", stats["dead_letters"] > 0)
    yield from report_nights(ebbing)
    yield from report_future(ebbing)
    waiting = ebbing.call("GET", "/v1/consolidation/merges", params={"status": "waiting"})["merges"]
    yield Line(f"merges that wait for approval: {len(waiting)}", bool(waiting))
    requests = ebbing.call("GET", "/v1/privacy/requests", params={"only_open": True})["requests"]
    days_left = [request["days_left"] for request in requests if request["days_left"] is not None]
    due = f", due in {min(days_left):.0f} days at the earliest" if days_left else ""
    yield Line(f"open privacy requests: {len(requests)}{due}", min(days_left, default=99) < 7)
    yield from report_self_tests(ebbing)


def report_nights(ebbing: Ebbing) -> Iterator[Line]:
    """Yield the last nightly run, and the changes that the next one would make."""
    schedules = {each["name"]: each for each in ebbing.call("GET", "/v1/schedule")["schedule"]}
    if "night" not in schedules:  # a new tenant's schedule is created within a minute
        yield Line("last night: not scheduled yet")
        return
    night = schedules["night"]
    last = night["last_run"]
    if last is None:
        yield Line(f"last night: none yet, the first is due at {night['next_run_at']}")
    else:
        yield Line(f"last night: {last['local_date']}, {last['status']}", last["status"] == "failed")
    if night["late_seconds"] > 3600:
        yield Line(f"the nightly run is overdue by {night['late_seconds'] / 3600:.0f} hours", needs_attention=True)
    preview = ebbing.call("POST", "/v1/schedule/night/run", json={"dry_run": True, "limit": 1000})
    moves = [change["to"] for change in preview["changes"]]
    more = " and more" if preview["next_cursor"] else ""
    counts = [f"{moves.count(tier):,} to {tier}" for tier in ("archived", "cold", "deleted") if tier in moves]
    yield Line(f"the next night would move: {', '.join(counts) or 'nothing'}{more}")


def report_future(ebbing: Ebbing) -> Iterator[Line]:
    """Yield the number of memories that searches will still find if nothing is used."""
    days = ebbing.call("POST", "/v1/forecast", json={"days": FORECAST_DAYS})["days"]
    yield Line(f"active: {days[0]['active']:,} today, {days[-1]['active']:,} in {FORECAST_DAYS} days if none is used")


def report_self_tests(ebbing: Ebbing) -> Iterator[Line]:
    """Yield the results of the last weekly self-tests."""
    runs = ebbing.call("GET", "/v1/self-tests", params={"limit": 1})["runs"]
    if not runs:
        yield Line("self-tests: none yet")
    for kind, results in runs[0]["results"].items() if runs else ():
        passed, failed = results["passed"], results["failed"]
        is_bad = kind in RETRIEVAL_TESTS and failed > passed
        yield Line(f"self-tests, {kind}: {passed} of {passed + failed} passed", is_bad)


def save_export(ebbing: Ebbing, user: str, path: Path) -> None:
    """Export a user's data, wait for the file, and save it.

    Raises:
        TimeoutError: The export isn't ready in time; its download remains possible for a week.
        ApiError: The export failed.
    """
    export: dict[str, Any] = ebbing.call("POST", "/v1/privacy/exports", json={"subject": user, "kind": "portable"})
    deadline = time.monotonic() + EXPORT_TIMEOUT_SECONDS
    while export["status"] == "running":
        if time.monotonic() > deadline:
            raise TimeoutError(f"export {export['id']} is still running")
        time.sleep(0.5)
        export = ebbing.call("GET", f"/v1/privacy/exports/{export['id']}")
    path.write_bytes(ebbing.download(f"/v1/privacy/exports/{export['id']}/file"))


def main() -> int:
    """Print the report; return 1 if a line needs attention."""
    parser = argparse.ArgumentParser(description="Report the state of the memories.")
    parser.add_argument("--export", metavar="USER", help="also save a copy of this user's data")
    parser.add_argument("--output", type=Path, default=Path("export.zip"), help="file for the copy")
    options = parser.parse_args()
    try:
        with Ebbing() as ebbing:
            lines = list(report(ebbing))
            for line in lines:
                print("!" if line.needs_attention else " ", line.text)
            if options.export:
                save_export(ebbing, options.export, options.output)
                print(f"  {options.output}: {options.output.stat().st_size:,} bytes")
    except EbbingError as error:
        sys.exit(str(error))
    return 1 if any(line.needs_attention for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
