"""The root command: it imports a command's modules only when that command is used."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, Final

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from app.cli.core.errors import Commands
from app.cli.menu import INTENTIONS, MENU

PACKAGE: Final = "app.cli"


class LazyCommands(MutableMapping[str, Any]):
    """Commands of the menu by name, imported at their first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded |= _load(MENU[name].modules)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MENU)

    def __len__(self) -> int:
        return len(MENU)


class RootCommands(Commands):
    """Command group of `ebbing`: its help comes from the menu, without importing the commands."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = LazyCommands()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the menu, by panels."""
        entries = {
            name: TyperCommand(name, help=entry.summary, rich_help_panel=entry.panel) for name, entry in MENU.items()
        }
        menu = TyperGroup(
            name=self.name,
            commands={**entries},
            help=self.help,
            epilog=self.epilog,
            params=self.params,
        )
        menu.format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; propose the one for a word that people try instead of its name."""
        meant = [name for name, words in INTENTIONS.items() if args and args[0].lower() in words]
        if meant:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant[0]!r}?")
        return super().resolve_command(ctx, args)


def _load(modules: tuple[str, ...]) -> dict[str, Any]:
    """Import modules and return the commands of the first one's router; the others add theirs to it."""
    routers = [import_module(f"{PACKAGE}.{module}").router for module in modules]
    holder = typer.Typer()
    holder.add_typer(routers[0])
    group = typer.main.get_group(holder)
    for name, command in group.commands.items():
        command.name = name
    return dict(group.commands)
