"""`ebbing import`: import memories from files of other products, or of Ebbing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.calls import given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, examples, plain, print_json
from app.cli.maintenance.jobs import follow_job
from app.domain.formatting import format_bytes

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATH: Final = "/v1/imports"
PATIENCE_SECONDS: Final = 60.0
UPLOAD_BYTES: Final = 1 << 18
SHOWN_MAX: Final = 20
FORMATS: Final = (
    "ebbing, dump, jsonl, csv, cortexgraph, memory-decay, mem0, knowledge-graph, chatgpt, claude, langgraph, letta"
)
_OUTCOMES: Final = {
    "stored": "stored",
    "updated": "updated",
    "unchanged": "unchanged",
    "links": "links",
    "skipped": "skipped",
}

_OPTIONS: Final = {
    "time_zone": "--timezone",
    "tick_seconds": "--tick-seconds",
    "map": "--map",
    "accept": "`ebbing load --accept`",
}
"""Option for each parameter of the API that messages name."""
_PARAMETER: Final = re.compile(r"(?<=\()({0})(?=\))|(?<=[:;] )({0})\b".format("|".join(_OPTIONS)))
_DONE: Final = ("stored", "updated", "unchanged", "links")

router = typer.Typer()


@router.command(
    "import",
    epilog=examples(
        "ebbing import jsonl memories.jsonl",
        "ebbing import csv notes.csv --map text=content,occurred_at=written --timezone Europe/Berlin",
        "ebbing import mem0 history.db --dry-run",
        "ebbing import memory-decay memories.db --tick-seconds 3600",
        "ebbing import chatgpt export.zip --subject orla",
    ),
)
def import_file(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help=f"One of {FORMATS}.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file, as the other product wrote it.")],
    *,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Read this field from this column or key, such as text=content. Repeatable, or several separated by "
            "commas.",
        ),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", help="Subject of memories for which the file names none.")
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", help="Thread of memories for which the file names none.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option("--timezone", help="Time zone of times without an offset, such as Europe/Berlin.")
    ] = None,
    tick_seconds: Annotated[
        float | None, typer.Option("--tick-seconds", help="Length of a tick (memory-decay). Default: 3600.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be stored.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Import memories from a file, and wait until the import ends.

    Each memory gets a stable external id, so repeating the command stores nothing twice: known memories are updated if
    they differ. Uses, times, promotion and strength are preserved. Skipped records are listed with their place in the
    file and the reason; the exit code is 0 if the rest was imported. Interrupting the command doesn't stop the import.
    """
    from app.cli.core.client import Api

    if not file.is_file():
        raise CommandFailure(f"{file}: no such file", Code.USAGE)
    _check_log(file)
    params = given(format=format_name, map=",".join(mapping) if mapping else None, subject=subject, thread=thread)
    params |= given(time_zone=time_zone, tick_seconds=tick_seconds)
    if dry_run:
        params["dry_run"] = "true"
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        finish_import(api, _upload(api, file, params), file, dry_run=dry_run, as_json=as_json)


def _check_log(file: Path) -> None:
    """Refuse a SQLite database whose latest changes are still in its log.

    Raises:
        CommandFailure: There is a log with changes beside the file.
    """
    log = file.with_name(f"{file.name}-wal")
    if log.is_file() and log.stat().st_size:
        close = f"close the program that writes it, or run: sqlite3 {file} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        raise CommandFailure(f"{log} has changes that {file} lacks: {close}", Code.USAGE)


def finish_import(api: Api, started: dict[str, Any], file: Path, *, dry_run: bool, as_json: bool) -> None:
    """Wait until an import ends, and print its report.

    Raises:
        CommandFailure: The import failed, was cancelled or ended by an erasure, or every record was skipped.
    """
    follow_job(api, started["job_id"], quiet=as_json)
    made = api.call("GET", item_path(PATH, started["id"])).body
    if as_json:
        print_json(made)
    elif made["status"] == "done" or made["counts"]:
        _print(made, file, dry_run=dry_run)
    failure = _describe_failure(made, dry_run=dry_run)
    if failure and as_json:
        raise typer.Exit(Code.FAILED)
    if failure:
        raise CommandFailure(failure)


def _describe_failure(made: dict[str, Any], *, dry_run: bool) -> str:
    """Return why nothing was imported, or not everything; empty if only single records were skipped."""
    if made["status"] != "done":
        name = "dry run" if dry_run else "import"
        return f"the {name} {plain(made['status'])}: {name_options(plain(made['failure'] or 'see its job'))}"
    counts = made["counts"]
    if counts.get("skipped") and not any(counts.get(name) for name in _DONE):
        return f"nothing {'would be' if dry_run else 'was'} imported, because every record was skipped"
    return ""


def name_options(text: str) -> str:
    """Return a message of the API with the options of the command instead of the parameters of the request."""
    return _PARAMETER.sub(lambda match: _OPTIONS[match[0]], text)


def upload_file(api: Api, pieces: Iterable[bytes], params: dict[str, Any]) -> dict[str, Any]:
    """Upload a file and return the started import.

    Raises:
        CommandFailure: The service refused it; the message names options of the command.
    """
    from app.cli.core.client import ApiRefusal

    try:
        return api.upload(PATH, pieces, params).body
    except ApiRefusal as refused:
        raise CommandFailure(name_options(str(refused)), refused.code) from None


def _upload(api: Api, file: Path, params: dict[str, Any]) -> dict[str, Any]:
    try:
        with file.open("rb") as content:
            return upload_file(api, iter(lambda: content.read(UPLOAD_BYTES), b""), params)
    except OSError as error:
        raise CommandFailure(f"{file} can't be read ({error.strerror})") from None


def _print(made: dict[str, Any], file: Path, *, dry_run: bool) -> None:
    counts = made["counts"]
    parts = [f"{counts[name]:,} {word}" for name, word in _OUTCOMES.items() if counts.get(name)]
    would = "would be: " if dry_run and parts else ""
    typer.echo(f"{file} ({format_bytes(file.stat().st_size)}): {would}{', '.join(parts) or 'no records'}")
    for reason, number in sorted(made["reasons"].items(), key=lambda pair: -pair[1]):
        typer.echo(f"  {number:,} skipped: {name_options(plain(reason))}")
    for entry in made["skipped"][:SHOWN_MAX]:
        [place] = entry.keys() - {"reason"}
        typer.echo(f"  {place} {entry[place]}: {name_options(plain(entry['reason']))}")
    if len(made["skipped"]) > SHOWN_MAX:
        typer.echo(f"  … {len(made['skipped']) - SHOWN_MAX:,} more with --json")
