"""Errors of commands: a one-line message and an exit code for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from app.cli.menu import OPTION_INTENTIONS
from app.errors import EbbingError, NotAllowed, NotAuthenticated, Unavailable


class Code(IntEnum):
    """Exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_ALLOWED = 4


class CommandFailure(Exception):
    """Failure that ends a command. The message is one line: the cause and the fix."""

    def __init__(self, message: str, code: Code = Code.FAILED) -> None:
        super().__init__(message)
        self.code = code


class Commands(TyperGroup):
    """Command group that prints expected failures as one line instead of a traceback."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # Typer's own context is its base
        """Run the command; exit with a message and a code on expected failures."""
        with expected_failures(), _better_proposals():
            return super().invoke(ctx)


@contextmanager
def expected_failures() -> Iterator[None]:
    """End a command with a message and a code if it fails in an expected way.

    Raises:
        typer.Exit: It failed.
    """
    try:
        yield
    except CommandFailure as failure:
        _end(str(failure), failure.code)
    except EbbingError as error:
        _end(describe_error(error), _code(error))
    except KeyboardInterrupt:
        _end("stopped", Code.FAILED)


@contextmanager
def _better_proposals() -> Iterator[None]:
    """Make the error for an unknown option propose the option listed in `OPTION_INTENTIONS`, or else similar names."""
    try:
        yield
    except Exception as error:
        option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
        if option and context and hasattr(error, "possibilities"):
            known = {name for parameter in context.command.params for name in parameter.opts}
            meant = [name for name, words in OPTION_INTENTIONS.items() if option in words and name in known]
            if proposed := meant or sorted(error.possibilities or ()):
                error.message = f"No such option: {option}. Did you mean {' or '.join(proposed)}?"  # type: ignore[attr-defined]  # a usage error of Typer's parser
                error.possibilities = None
        raise


def describe_error(error: EbbingError) -> str:
    """Return an error of the service as one line, including its fields."""
    return ": ".join(part for part in (str(error), "; ".join(map(str, error.errors))) if part)


def _code(error: EbbingError) -> Code:
    if isinstance(error, NotAllowed | NotAuthenticated):
        return Code.NOT_ALLOWED
    return Code.UNREACHABLE if isinstance(error, Unavailable) else Code.FAILED


def _end(message: str, code: Code) -> None:
    typer.echo(f"ebbing: {message}", err=True)
    raise typer.Exit(code) from None
