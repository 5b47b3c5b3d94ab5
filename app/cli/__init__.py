"""The `ebbing` command line. The root imports a command only when it is used, to keep each start fast."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.core.output import examples
from app.cli.core.root_group import RootCommands

__all__ = ["app", "main"]

app = typer.Typer(
    name="ebbing",
    cls=RootCommands,
    help="Ebbing: a memory service for AI agents.",
    epilog=examples("ebbing demo", "ebbing run", "ebbing ingest memories.jsonl", "ebbing search 'where do we meet?'"),
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
