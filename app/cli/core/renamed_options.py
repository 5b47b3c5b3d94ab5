"""Accept options under the names that they had before, with a remark on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from app.cli.core.errors import Commands


def with_renamed_options(names: Mapping[str, str]) -> type[TyperCommand]:
    """Return a command class that still accepts old option names.

    Args:
        names: New option names by the old ones.
    """

    class RenamedOptions(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, list(_replace(args, names)))

    return RenamedOptions


def with_renamed_group_options(names: Mapping[str, str]) -> type[TyperGroup]:
    """Return a class like that of `with_renamed_options`, for a group with own options, such as `ebbing jobs`."""

    class RenamedOptions(Commands):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            own = next((place for place, word in enumerate(args) if word in self.commands), len(args))
            return super().parse_args(ctx, [*_replace(args[:own], names), *args[own:]])

    return RenamedOptions


def _replace(args: Iterable[str], names: Mapping[str, str]) -> Iterator[str]:
    """Yield the arguments with old option names replaced; what follows `--` isn't an option."""
    rest = iter(args)
    for word in rest:
        if word == "--":
            yield word
            yield from rest
            return
        name, equals, value = word.partition("=")
        if new := names.get(name):
            typer.echo(f"ebbing: {name} is now {new}; the old name still works for now", err=True)
            word = f"{new}{equals}{value}"  # noqa: PLW2901
        yield word
