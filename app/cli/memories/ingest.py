"""`ebbing ingest`: send memories from files in idempotent batches."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, ProgressStep, Url, count_of, examples, print_json, progress, until_none
from app.domain.formatting import count_memories, format_rate, format_span

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from app.cli.core.client import Api, ApiRefusal
    from app.cli.memories.ingest_batches import Batch, LineFormat

PATIENCE_SECONDS: Final = 120.0
STANDSTILL_SECONDS: Final = 120.0

router = typer.Typer()


@router.command(
    epilog=examples(
        "ebbing ingest memories.jsonl",
        "ebbing ingest --text notes.txt --subject orla --thread notes --wait",
        "ebbing ingest chat.json --thread support-4711",
        "zcat export.jsonl.gz | ebbing ingest -",
    )
)
def ingest(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="JSON Lines, a chat, or plain text with --text. Use `-` for standard input."
        ),
    ],
    *,
    text: Annotated[bool, typer.Option("--text", help="Treat each line as the text of a memory.")] = False,
    thread: Annotated[str | None, typer.Option("--thread", help="Thread for memories that don't name one.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Subject for memories that don't name one.")] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, max=4096, help="Memories per request.")] = 500,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait until all pending memories of the tenant are searchable, including those of other clients.",
        ),
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send memories from files.

    A chat is an object with "messages", a list of objects with "role" and "content"; it is either a whole file or one
    line of a JSON Lines file. Each message with text becomes a memory; other fields of the chat, such as "thread",
    apply to each of these memories.

    Each request has an idempotency key derived from file, position and content, so repeating the command within
    24 hours stores nothing twice. Requests are retried while the service is unreachable or overloaded.
    """
    from app.cli.core.client import Api
    from app.cli.memories.ingest_batches import LineFormat

    paths = [_path(name) for name in files]
    form = LineFormat(is_text=text, thread=thread, subject=subject)
    began = time.monotonic()
    memories = requests = repeated = skipped = left_out = 0
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        with progress("sending", _bytes(paths) or None, quiet=as_json) as step:
            for path in paths:
                for part in _batches(path, form, batch):
                    if part.lines:
                        repeated += _send(api, part, memories)
                        requests += 1
                    memories += len(part.lines)
                    skipped += part.skipped
                    left_out += part.left_out
                    rate = memories / max(time.monotonic() - began, 1e-3)
                    step(part.size, note=f"{count_memories(memories)}, {format_rate(rate)}")
        sent = time.monotonic() - began
        if wait:
            with progress("indexing", memories, quiet=as_json) as step:
                wait_searchable(api, step)
    summary = {"memories": memories, "requests": requests, "seconds": round(sent, 3)}
    optional = {"repeated": repeated, "skipped": skipped, "left_out": left_out}
    summary |= {name: count for name, count in optional.items() if count}
    if wait:
        summary["searchable_seconds"] = round(time.monotonic() - began, 3)
    if as_json:
        print_json(summary)
        return
    rate = memories / max(sent, 1e-3)
    accepted = f"{count_memories(memories)} accepted in {count_of(requests, 'request', 'requests')}"
    typer.echo(f"{accepted}, {format_span(sent)} ({format_rate(rate)})")
    _print_unstored(repeated, skipped, left_out)
    if wait:
        typer.echo(f"all searchable after {format_span(summary['searchable_seconds'])}")


def _print_unstored(repeated: int, skipped: int, left_out: int) -> None:
    """Print how much of the input adds no memory, and why."""
    if repeated:
        typer.echo(f"{repeated:,} of them had been accepted before, so nothing is stored twice")
    if skipped:
        typer.echo(f"skipped {count_of(skipped, 'message', 'messages')} without text")
    if left_out:
        typer.echo(f"ignored {count_of(left_out, 'non-text part', 'non-text parts')} of messages, such as images")


def wait_searchable(api: Api, step: ProgressStep, patience_seconds: float = STANDSTILL_SECONDS) -> None:
    """Wait until the tenant has no memories left to store, index or embed.

    Raises:
        CommandFailure: There was no progress for `patience_seconds`.
    """

    def left() -> int:
        pending = api.stats()["pending"]
        # A memory can be pending in the index and embed stages at once, so count the larger one.
        return int(pending["ingest"] + max(pending["index"], pending["embed"]))

    if still := until_none(left, step, patience_seconds):
        raise CommandFailure(
            f"still pending: {count_memories(still)}, with no progress for {format_span(patience_seconds)}. "
            "Accepted memories aren't lost: check the workers with `ebbing doctor`"
        )


def _send(api: Api, part: Batch, before: int) -> int:
    """Send a batch; return how many of its memories an earlier request with its idempotency key sent: all or none."""
    from app.cli.core.client import ApiRefusal

    try:
        answer = api.add(part.body, part.key, media_type=part.media_type)
    except ApiRefusal as refused:
        where = _locate(part, refused)
        again = (
            f" ({before:,} memories before this request were accepted; fix the data and run the same command again: "
            "nothing is stored twice)"
            if refused.status in {400, 413, 422}
            else f" ({before:,} memories were accepted; run the same command again to continue)"
        )
        raise CommandFailure(f"{where}: {refused}{again}", refused.code) from None
    except CommandFailure as failure:
        message = f"{failure} ({before:,} memories were accepted; run the same command again to continue)"
        raise CommandFailure(message, failure.code) from None
    is_new = not answer.request_id or answer.body.get("request_id", answer.request_id) == answer.request_id
    return 0 if is_new else len(part.lines)


def _locate(part: Batch, refused: ApiRefusal) -> str:
    """Return `file:line` of the rejected memory (with the message index in a chat), or the lines of the request."""
    for error in refused.errors:
        index = re.match(r"(?:messages)?\[(\d+)\]", error.field)
        if index and int(index[1]) < len(part.lines):
            where = f"{part.name}:{part.lines[int(index[1])]}"
            return f"{where}, message {part.places[int(index[1])]}" if part.places else where
    if part.places:
        return f"{part.name}:{part.lines[0]}, messages {part.places[0]} to {part.places[-1]}"
    return f"{part.name}:{part.lines[0]}-{part.lines[-1]}"


def _path(name: str) -> Path | None:
    """Return the path of an argument, or None for standard input."""
    if name == "-":
        return None
    path = Path(name)
    if not path.exists():
        raise CommandFailure(f"{name}: no such file", Code.USAGE)
    if path.is_dir():
        raise CommandFailure(f"{name} is a folder: give the files in it", Code.USAGE)
    return path


def _bytes(paths: list[Path | None]) -> int:
    """Return the number of bytes to read; 0 if unknown."""
    return 0 if None in paths else sum(path.stat().st_size for path in paths if path)


def _batches(path: Path | None, form: LineFormat, batch: int) -> Iterator[Batch]:
    from app.cli.memories.ingest_batches import split_batches

    if path is None:
        stream: BinaryIO = sys.stdin.buffer
        yield from split_batches(stream, "-", "-", form, batch)
        return
    try:
        with path.open("rb") as file:
            yield from split_batches(file, str(path), str(path.resolve()), form, batch)
    except OSError as error:
        raise CommandFailure(f"{path} can't be read ({error.strerror})") from None
