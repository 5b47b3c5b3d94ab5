"""The `ebbing` command line. Commands import their dependencies lazily to keep `ebbing --help` fast."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.core.errors import Commands
from app.cli.core.output import examples
from app.cli.demo import demo, simulate
from app.cli.maintenance import (
    consolidation,
    curve,
    dead_letters,
    forecast,
    jobs,
    maintain,
    policy,
    reembed,
    schedule,
    usage,
)
from app.cli.memories import ingest, links, recall, replay, restore, reviews, search, stats, supersessions, touch, why
from app.cli.privacy import (
    audit,
    erase,
    erasure_requests,
    export,
    holds,
    request_answers,
    request_log,
    restore_replay,
    subjects,
)
from app.cli.service import doctor, processes, queue, run, tenants_and_keys

__all__ = ["app", "main"]

app = typer.Typer(
    name="ebbing",
    cls=Commands,
    help="Ebbing: a memory service for AI agents.",
    epilog=examples("ebbing demo", "ebbing run", "ebbing ingest memories.jsonl", "ebbing search 'where do we meet?'"),
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_MODULES = (
    run,
    demo,
    ingest,
    search,
    recall,
    touch,
    links,
    why,
    restore,
    reviews,
    policy,
    replay,
    forecast,
    curve,
    simulate,
    maintain,
    stats,
    usage,
    doctor,
    tenants_and_keys,
    queue,
    audit,
    processes,
    jobs,
    schedule,
    dead_letters,
    reembed,
    erase,
    holds,
    consolidation,
    export,
    erasure_requests,
    restore_replay,
    request_log,
    request_answers,
    subjects,
    supersessions,
)
for router in dict.fromkeys(module.router for module in _MODULES):  # modules of one group share its router
    app.add_typer(router)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"ebbing {version('ebbing')}")
        except PackageNotFoundError:
            typer.echo("ebbing (version unknown: the package isn't installed)")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def options(_version: Version = False) -> None:
    """Ebbing: a memory service for AI agents."""


def main() -> None:
    """Run `ebbing` with the arguments of this process."""
    app(prog_name="ebbing")
