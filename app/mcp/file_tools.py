"""The six commands of Anthropic's memory tool, as tools with the result texts of its reference implementation.

Unlike other sets, nothing asks for `confirm`: an edit keeps the former text, and a deletion has a grace period.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from app.domain.files.commands import (
    CreateCommand,
    DeleteCommand,
    InsertCommand,
    RenameCommand,
    ReplaceCommand,
    ViewCommand,
)
from app.mcp.backend import Backend, ToolFailure
from app.mcp.tool import Arguments, Tool, collect

TOOLS: Final[list[Tool[Any]]] = []
"""The tools, in the order of lists."""

_tool = collect(TOOLS)


def _take(command: type[msgspec.Struct]) -> type[Arguments]:
    """Return the fields of a command as arguments of a tool, without `command`, which the tool's name replaces."""
    fields = [
        (field.name, field.type) if field.required else (field.name, field.type, field.default)
        for field in msgspec.structs.fields(command)
        if field.name != "command"
    ]
    made: type[Any] = msgspec.defstruct(command.__name__, fields, bases=(Arguments,), frozen=True, module=__name__)
    made.__doc__ = command.__doc__
    return made


async def _run(backend: Backend, command: str, given: Arguments) -> str:
    """Send a command and return the text for the model.

    Raises:
        ToolFailure: The command failed; the message is the reference implementation's text. Or the API refused
            the request.
    """
    body = {"command": command} | msgspec.to_builtins(given)
    answer = (await backend.call("POST", f"/v1/files/{command}", body=body)).body
    if answer["is_error"]:
        raise ToolFailure(answer["content"])
    text: str = answer["content"]
    return text


@_tool("View a file or directory", scope="read", arguments=_take(ViewCommand), reads=True)
async def view(backend: Backend, given: Arguments) -> str:
    """Show a file with line numbers, or the files of a directory two levels deep. The root is `/memories`."""
    return await _run(backend, "view", given)


@_tool("Create a file", scope="ingest", arguments=_take(CreateCommand))
async def create(backend: Backend, given: Arguments) -> str:
    """Create a file below `/memories`. An existing file isn't overwritten; directories need not exist."""
    return await _run(backend, "create", given)


@_tool("Replace a string", scope="ingest", arguments=_take(ReplaceCommand), destroys=True)
async def str_replace(backend: Backend, given: Arguments) -> str:
    """Replace a string that occurs exactly once in a file. The result shows the lines around the change."""
    return await _run(backend, "str_replace", given)


@_tool("Insert lines", scope="ingest", arguments=_take(InsertCommand))
async def insert(backend: Backend, given: Arguments) -> str:
    """Insert lines into a file after the line with the number `insert_line`; 0 inserts them at the beginning."""
    return await _run(backend, "insert", given)


@_tool("Delete a file or directory", scope="ingest", arguments=_take(DeleteCommand), destroys=True)
async def delete(backend: Backend, given: Arguments) -> str:
    """Delete a file, or a directory with its files. A person can cancel the deletion during the grace period."""
    return await _run(backend, "delete", given)


@_tool("Rename a file or directory", scope="ingest", arguments=_take(RenameCommand))
async def rename(backend: Backend, given: Arguments) -> str:
    """Rename or move a file, or a directory with its files. The new path must not exist."""
    return await _run(backend, "rename", given)
