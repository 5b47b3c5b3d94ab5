"""Commands of the memory tool, as a model writes them, and the limits of a file's text."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from app.domain.ingest.memory import BLANK, TEXT_MAX_BYTES
from app.errors import FieldError, Invalid

_Path = Annotated[str, msgspec.Meta(min_length=1, max_length=65_536)]
_Text = Annotated[str, msgspec.Meta(max_length=16 * TEXT_MAX_BYTES)]
_Line = Annotated[int, msgspec.Meta(ge=-1, le=1_000_000_000)]


class ViewCommand(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Show a file with line numbers, or the files of a directory.

    Attributes:
        path: A path such as `/memories/notes.md`; `/memories` is the root.
        view_range: Numbers of the first and the last line, from 1; -1 as the last one for the end of the file. A
            directory ignores them.
        command: The tool's name of the command.
    """

    path: _Path
    view_range: Annotated[tuple[_Line, _Line] | None, msgspec.Meta(description="First and last line.")] = None
    command: Literal["view"] = "view"


class CreateCommand(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Create a file; an existing one isn't overwritten.

    Attributes:
        path: The new file's path, up to 512 characters; its directories need not exist.
        file_text: The text, 1 byte to 32 KiB of UTF-8, not only white space.
        command: The tool's name of the command.
    """

    path: _Path
    file_text: _Text
    command: Literal["create"] = "create"


class ReplaceCommand(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Replace a string that occurs exactly once in a file.

    Attributes:
        path: The file's path.
        old_str: The string to replace, as it is in the file.
        new_str: The new string; empty to delete the old one.
        command: The tool's name of the command.
    """

    path: _Path
    old_str: Annotated[str, msgspec.Meta(min_length=1, max_length=16 * TEXT_MAX_BYTES)]
    new_str: _Text = ""
    command: Literal["str_replace"] = "str_replace"


class InsertCommand(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Insert lines into a file.

    Attributes:
        path: The file's path.
        insert_line: Number of the line after which the text is inserted; 0 for the beginning.
        insert_text: The lines.
        command: The tool's name of the command.
    """

    path: _Path
    insert_line: Annotated[int, msgspec.Meta(ge=-1_000_000_000, le=1_000_000_000)]
    insert_text: _Text
    command: Literal["insert"] = "insert"


class DeleteCommand(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Delete a file, or a directory with its files.

    Attributes:
        path: The path; the root can't be deleted.
        command: The tool's name of the command.
    """

    path: _Path
    command: Literal["delete"] = "delete"


class RenameCommand(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Rename a file, or a directory with its files.

    Attributes:
        old_path: The present path; the root can't be renamed.
        new_path: The new path, which must not exist.
        command: The tool's name of the command.
    """

    old_path: _Path
    new_path: _Path
    command: Literal["rename"] = "rename"


def check_text(text: str, field: str) -> None:
    """Refuse a text that can't be stored as a file.

    Raises:
        Invalid: The text is blank, longer than 32 KiB of UTF-8, or contains a NUL character.
    """
    if not text.strip():
        raise Invalid(errors=[FieldError(field, f"{BLANK}: an empty file isn't stored")])
    if "\0" in text:
        raise Invalid(errors=[FieldError(field, "contains a NUL character, which can't be stored")])
    size = len(text.encode())
    if size > TEXT_MAX_BYTES:
        raise Invalid(errors=[FieldError(field, "makes the file too long in bytes", size, TEXT_MAX_BYTES)])
