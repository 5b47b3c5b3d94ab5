"""Define a tool: its texts, the schemas of its arguments and its result, and how its arguments are checked."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from app.api.reference.field_texts import describe_fields
from app.domain.ingest.body_faults import BodyFaults
from app.domain.ingest.json_input import precompile
from app.mcp.backend import Backend, Json, describe_error

_REFERENCES: Final = "#/$defs/{name}"


class Arguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, omit_defaults=True):
    """Arguments of a tool; a base class for those with fields."""


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[A]):
    """A tool of the server.

    Attributes:
        scope: Scope that a key needs for the tool's effect.
        also: Further scopes that a key needs, because the tool also sends requests that require them.
        result: Type of the result, a struct or `dict[str, Any]`; None if the result is a text.
        run: Function that performs the tool; its docstring is the description that models read.
        is_destructive: True if a call can remove or overwrite data. Most such tools only preview unless confirmed.
        is_idempotent: True if repeating a call has no further effect.
    """

    name: str
    title: str
    scope: str
    arguments: type[A]
    result: type[Any] | None
    run: Callable[[Backend, A], Awaitable[Json | str]]
    is_read_only: bool
    is_destructive: bool
    is_idempotent: bool
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Compile both types while only one thread runs this code."""
        precompile(self.arguments)
        if self.result is not None:
            precompile(self.result)

    @property
    def scopes(self) -> frozenset[str]:
        """All scopes that a key needs."""
        return frozenset((self.scope, *self.also))

    @property
    def description(self) -> str:
        """The description that models read, one line per paragraph."""
        paragraphs = inspect.cleandoc(self.run.__doc__ or "").split("\n\n")
        return "\n".join(" ".join(part.split()) for part in paragraphs)

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return object_schema(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON schema of the result; None if the result is a text."""
        return None if self.result is None else object_schema(self.result)

    async def call(self, backend: Backend, given: Mapping[str, Any]) -> Json | str:
        """Check the arguments, run the tool and return its text, or its result with the fields that its schema names.

        Raises:
            ToolFailure: An argument is invalid, or the API refused a request.
        """
        faults = BodyFaults()
        faults.compare(dict(given), self.arguments)
        if (refusal := faults.refusal()) is not None:
            raise describe_error(refusal)
        found = await self.run(backend, msgspec.convert(dict(given), self.arguments))
        if self.result is None or isinstance(found, str):
            return found
        shown: Json = msgspec.to_builtins(msgspec.convert(found, self.result))
        return shown


R = TypeVar("R", Json, str)


def collect(
    tools: list[Tool[Any]],
) -> Callable[..., Callable[[Callable[[Backend, A], Awaitable[R]]], Callable[[Backend, A], Awaitable[R]]]]:
    """Return a decorator that adds a function to a list of tools as `Tool.run`; its arguments set the other fields."""

    def with_fields(
        title: str,
        *,
        scope: str,
        arguments: type[A],
        result: type[Any] | None = None,
        also: tuple[str, ...] = (),
        reads: bool = False,
        destroys: bool = False,
        repeats: bool = False,
    ) -> Callable[[Callable[[Backend, A], Awaitable[R]]], Callable[[Backend, A], Awaitable[R]]]:
        def add(run: Callable[[Backend, A], Awaitable[R]]) -> Callable[[Backend, A], Awaitable[R]]:
            name = run.__name__.rstrip("_")
            tools.append(Tool(name, title, scope, arguments, result, run, reads, destroys, reads or repeats, also))
            return run

        return add

    return with_fields


def object_schema(shape: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of a struct or dict with an object at its root, and its docstrings' texts as descriptions.

    Protocol versions before 2026-07-28 allow no reference at the root.
    """
    [root], parts = msgspec.json.schema_components([shape], ref_template=_REFERENCES)
    if "$ref" not in root:
        return dict(root)
    describe_fields(parts)
    name = str(root["$ref"]).rpartition("/")[2]
    found: dict[str, Any] = parts.pop(name)
    return found | {"$defs": parts} if parts else found


def given_fields(arguments: Arguments, *left_out: str) -> Json:
    """Return, as JSON, the arguments that differ from their defaults and whose names aren't in `left_out`."""
    given: Json = msgspec.to_builtins(arguments)
    return {name: value for name, value in given.items() if name not in left_out}
