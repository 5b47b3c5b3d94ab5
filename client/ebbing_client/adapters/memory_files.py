"""Build the calls that run the commands of Anthropic's memory tool on an Ebbing service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ebbing_client.call import Answer, Call, encode
from ebbing_client.errors import UnexpectedAnswer, invalid_field

COMMANDS: Final = frozenset({"view", "create", "str_replace", "insert", "delete", "rename"})
_JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class FileResult:
    """Result of a command.

    Attributes:
        content: The text for the model.
        is_error: True if the command failed; the text says why.
    """

    content: str
    is_error: bool


def run_command(command: Mapping[str, Any], *, timeout: float | None = None) -> Call[FileResult]:
    """Run a command of the memory tool, given as the input of the model's call.

    Only `view` is repeated after a broken connection: a second `create` would find the file of the first.

    Raises:
        Invalid: There is no such command.
    """
    name = str(command.get("command"))
    if name not in COMMANDS:
        raise invalid_field("command", f"must be one of {', '.join(sorted(COMMANDS))}")
    given = {field: value for field, value in command.items() if value is not None}
    return Call("POST", f"/v1/files/{name}", _read, encode(given), _JSON, is_repeatable=name == "view", timeout=timeout)


def _read(answer: Answer) -> FileResult:
    body = answer.json()
    if not isinstance(body.get("content"), str):
        raise UnexpectedAnswer("the response has no text `content`: check the URL and the service's version")
    return FileResult(body["content"], bool(body.get("is_error")))
