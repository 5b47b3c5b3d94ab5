"""Run benchmarks, print a table of figures, write JSON (`python -m ops.bench`)."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from ops.bench import (
    connections,
    consolidation,
    dashboard,
    drain,
    filters,
    flood,
    imports,
    ingest,
    lifecycle,
    notes,
    plain,
    privacy,
    rating,
    reembed,
    replay,
    search,
    stages,
    startup,
    strength,
    upkeep,
)
from ops.bench.figures import Figure, Plan, result, show
from ops.bench.place import Place

BENCHMARKS: dict[str, Callable[[Place, Plan], Iterator[Figure]]] = {
    "ingest": ingest.measure,
    "connections": connections.measure,
    "drain": drain.measure,
    "flood": flood.measure,
    "imports": imports.measure,
    "stages": stages.measure,
    "search": search.measure,
    "filters": filters.measure,
    "plain": plain.measure,
    "replay": replay.measure,
    "rating": rating.measure,
    "reembed": reembed.measure,
    "strength": strength.measure,
    "upkeep": upkeep.measure,
    "lifecycle": lifecycle.measure,
    "notes": notes.measure,
    "consolidation": consolidation.measure,
    "privacy": privacy.measure,
    "dashboard": dashboard.measure,
    "startup": startup.measure,
}

EXAMPLES = """examples:
  make bench                                      all benchmarks, about a quarter of an hour
  make bench ARGS="--quick"                       small sizes, two rounds: a smoke test without usable figures
  make bench ARGS="drain search --repeats 9"      two benchmarks, with more rounds
  python -m ops.bench ingest --json ingest.json   also write the figures of every round as JSON
"""


def main(arguments: list[str]) -> int:
    """Run the selected benchmarks; return 0, and raise if a measurement fails."""
    wanted = _arguments(arguments)
    repeats = wanted.repeats or (2 if wanted.quick else 5)
    err = Console(stderr=True, highlight=False, markup=False)
    plan = Plan(repeats, wanted.quick, say=lambda text: err.print(f"… {text}"))
    signal.signal(signal.SIGTERM, _end)
    started = time.monotonic()
    figures: list[Figure] = []
    try:
        with Place() as place:
            for name in wanted.names or BENCHMARKS:
                for figure in BENCHMARKS[name](place, plan):
                    figures.append(figure)
                    plan.say(f"{time.monotonic() - started:5.0f} s  {figure.work}: {figure.value:,.4g} {figure.unit}")
    finally:  # also the figures measured before a failure
        # In a file or a pipe, lines have a fixed width.
        show(figures, Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 220))
    if wanted.json:
        document = result(figures, plan, time.monotonic() - started)
        wanted.json.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m ops.bench",
        description="Measure the service and the bare cost of the same work in one run, and report ratios.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"benchmarks to run (default: all): {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, two rounds, no usable figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures of all rounds to this file")
    parser.add_argument("--repeats", type=_count, metavar="N", help="rounds per figure (default: 5, or 2 with --quick)")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    return given


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def _end(*_: object) -> NoReturn:
    """Exit through every `finally` block, so that all started processes are stopped."""
    sys.exit(143)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
