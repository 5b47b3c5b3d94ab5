"""The root command: it imports a command's modules only when that command is used."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, Final

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

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
        _polish_help(self)
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
        """Find the command; for a word in `INTENTIONS`, fail and propose the command that the user probably means."""
        meant = [name for name, words in INTENTIONS.items() if args and args[0].lower() in words]
        if meant:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant[0]!r}?")
        return super().resolve_command(ctx, args)


def _load(modules: tuple[str, ...]) -> dict[str, Any]:
    """Import modules; return the commands of the first module's router, to which the other modules add commands."""
    routers = [import_module(f"{PACKAGE}.{module}").router for module in modules]
    holder = typer.Typer()
    holder.add_typer(routers[0])
    group = typer.main.get_group(holder)
    for command in group.commands.values():
        _polish_help(command)
    return dict(group.commands)


def _polish_help(command: Any) -> None:
    """Join the lines of each paragraph, and give values short placeholders: `N`, not `<int range>`."""
    if command.help:
        command.help = "\n\n".join(" ".join(part.split()) for part in command.help.split("\n\n"))
    for parameter in command.params:
        if isinstance(parameter, TyperOption) and parameter.metavar is None:
            parameter.metavar = _name_value(parameter)
    if not isinstance(command, RootCommands):
        for child in getattr(command, "commands", {}).values():
            _polish_help(child)


def _name_value(option: TyperOption) -> str | None:
    """Return the placeholder of an option's value; empty for a flag, None for a list of choices."""
    value = option.type_descriptor
    if option.is_flag:
        return ""
    if value.is_choice:
        return None
    if value.is_path or value.file_annotation is not None:
        return "FILE"
    return "N" if value.annotation in {int, float} else "TEXT"
