"""Print results to standard output, progress and remarks to standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from app.cli.core import tables
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.waiting import WaitingLine
from app.domain import formatting

if TYPE_CHECKING:
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="Address of the API. Default: EBBING_API_URL, or EBBING_PORT on this machine, or the address that "
        "`ebbing run` recorded.",
    ),
]


Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")]


count_of = formatting.count_of


def format_ago(moment: str | None) -> str:
    """Format a timestamp of the API relative to now: `1 minute ago`, `in 3 days`; empty for None."""
    if moment is None:
        return ""
    when = datetime.fromisoformat(moment)
    return formatting.format_relative((datetime.now(UTC) - when.replace(tzinfo=when.tzinfo or UTC)).total_seconds())


def format_both(moment: str | None) -> str:
    """Format a timestamp of the API as time and distance: `2026-11-22 08:51 UTC (1 minute ago)`; empty for None."""
    return "" if moment is None else f"{formatting.format_minute(moment)} ({format_ago(moment)})"


class ProgressStep(Protocol):
    """Callback that updates a progress bar."""

    def __call__(self, advance: float = 0, *, done: float | None = None, note: str = "") -> None:
        """Add `advance` to the progress, or set it to `done`."""


def examples(*commands: str) -> str:
    """Return the epilog of a command's help: a list of examples."""
    return "\n".join(["Examples:", *(f"  $ {command}" for command in commands)])


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def print_result(found: object, text: str, *, as_json: bool) -> None:
    """Print a result as JSON, or else this text."""
    if as_json:
        print_json(found)
    else:
        typer.echo(text)


def print_rows(
    found: object, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = (), as_json: bool
) -> None:
    """Print a result as JSON, or else as a table of these rows."""
    if as_json:
        print_json(found)
    else:
        print_table(columns, list(rows), right=right)


def print_fields(found: object, shown: Mapping[str, object], *, width: int, as_json: bool) -> None:
    """Print a result as JSON, or else as these names and values, a line each; long values are wrapped."""
    if as_json:
        print_json(found)
        return
    pairs = [(plain(name), plain(value)) for name, value in shown.items()]
    for line in tables.fields(pairs, width, tables.page_columns()):
        typer.echo(line)


def console(*, err: bool = False) -> Console:
    """Return a console without markup, emoji or highlighting, so that memory text is printed verbatim."""
    from rich.console import Console

    # Don't wrap lines in files and pipes.
    width = None if (sys.stderr if err else sys.stdout).isatty() else 1_000_000
    return Console(stderr=err, highlight=False, markup=False, emoji=False, width=width)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print a table that fits the terminal, or 120 columns in files and pipes; `none` if it has no rows."""
    if not rows:
        typer.echo("none")
        return
    shown = [[_cell(cell) for cell in row] for row in rows]
    for line in tables.lay_out(columns, shown, right=right, width=tables.page_columns()):
        typer.echo(line)


def _cell(value: object) -> str:
    """Return a value as text; whole numbers get commas."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else plain(value)


def confirm(question: str) -> None:
    """Ask for confirmation; return only if the answer is yes.

    Raises:
        CommandFailure: Standard input is not a terminal and contains no answer.
        typer.Abort: The answer is no.
    """
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        typer.echo(err=True)
        raise CommandFailure(
            "no terminal to ask for confirmation, nothing was changed: pass --yes", Code.USAGE
        ) from None
    if not agreed:
        raise typer.Abort


def ask(question: str) -> str | None:
    """Ask for a text; None if the answer is empty, or there is no terminal and no answer on standard input."""
    try:
        answer: str = typer.prompt(question, default="", show_default=False, err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        return None
    return answer.strip() or None


def plain(value: object) -> str:
    """Return a value as text without control characters, which could drive the terminal; empty for None."""
    if value is None:
        return ""
    return "".join(sign if sign.isprintable() else " " for sign in str(value))


@contextmanager
def progress(label: str, total: float | None, *, quiet: bool = False, unit: str = "memories") -> Iterator[ProgressStep]:
    """Show a progress bar on standard error, unless `quiet` or not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield _ignore_progress
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns: list[Any] = [
        TextColumn("{task.description}"),
        BarColumn(),
        *([TaskProgressColumn()] if total else []),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    ]
    with WaitingLine.hidden(), Progress(*columns, console=console(err=True), transient=True) as bar:
        task = bar.add_task(label, total=total, note="", unit=unit)

        def step(advance: float = 0, *, done: float | None = None, note: str = "") -> None:
            bar.update(task, completed=done, advance=advance or None, note=note)

        yield step


def _ignore_progress(advance: float = 0, *, done: float | None = None, note: str = "") -> None:
    """Ignore progress."""


def until_none(left: Callable[[], int], step: ProgressStep, patience_seconds: float) -> int:
    """Wait until no memories are left, or until the count hasn't dropped for `patience_seconds`; return the count."""
    most, least, since = 0, sys.maxsize, time.monotonic()
    while now := left():
        most = max(most, now)
        step(done=most - now, note=f"{now:,} left")
        if now < least:
            least, since = now, time.monotonic()
        if time.monotonic() - since > patience_seconds:
            return now
        time.sleep(0.05 if now < 10_000 else 0.5)
    step(done=most, note="0 left")
    return 0
