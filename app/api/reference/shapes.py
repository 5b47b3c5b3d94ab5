"""Examples of requests and responses, and the schemas that follow from them, read from the files in `examples`.

A file contains `schemas`, by name, and `operations`. In an example, "@Name" stands for the example of that schema.
Types of fields are derived from the example; the attributes of `Shape` declare what an example can't show.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

Json = dict[str, Any]

TEMPLATE: Final = "#/components/schemas/{name}"
_FOLDER: Final = "examples"
_FORMATS: Final = (
    ("uuid", re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")),
    ("date-time", re.compile(r"\d{4}-\d\d-\d\dT.*")),
    ("date", re.compile(r"\d{4}-\d\d-\d\d")),
)
_FORMATTED: Final = ("uuid", "date-time", "date")


class Shape(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Properties of a schema that its example doesn't show. A field is its `name`; in `nullable`, also `parent.name`.

    Attributes:
        nullable: Fields that may be null.
        optional: Fields that may be missing.
        types: JSON type or format of fields that are null in the example; they may be null.
        maps: Objects whose fields have no fixed names.
        any: Fields of any type.
        items: Schemas of the items of lists.
        deprecated: Old names of fields, with the new name.
        about: Descriptions of fields.
        open: The object may have further fields.
    """

    nullable: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    types: dict[str, str] = {}
    maps: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    items: dict[str, str] = {}
    deprecated: dict[str, str] = {}
    about: dict[str, str] = {}
    open: bool = False


class NamedShape(Shape, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A named schema with its example."""

    example: Json


class NamedExample(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One of several examples of a request body."""

    summary: str
    value: Any


class OperationShape(Shape, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The examples of one operation.

    Attributes:
        request: Example of the body.
        requests: Several examples of the body, by name.
        answers: Example of each successful response, by status; null for a response without a body, or with a file.
        media_type: Media type of a response that isn't JSON.
        also: Example of the response in other media types, which a query parameter selects.
    """

    answers: dict[str, Any]
    request: Any = None
    requests: dict[str, NamedExample] = {}
    media_type: str = "application/json"
    also: dict[str, str] = {}


class Examples(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """All named schemas, and all operations by method and path."""

    schemas: dict[str, NamedShape]
    operations: dict[str, OperationShape]


_EXAMPLES: Final = msgspec.json.Decoder(Examples)


@cache
def load_examples() -> Examples:
    """Read the files with examples."""
    schemas: dict[str, NamedShape] = {}
    operations: dict[str, OperationShape] = {}
    folder = resources.files(__package__) / _FOLDER
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        found = _EXAMPLES.decode(file.read_bytes())
        schemas |= found.schemas
        operations |= found.operations
    return Examples(schemas, operations)


def expand_example(value: Any) -> Any:
    """Return an example with the examples of named schemas in place of their names."""
    if isinstance(value, dict):
        return {name: expand_example(item) for name, item in value.items()}
    if isinstance(value, list):
        return [expand_example(item) for item in value]
    name = _referenced(value)
    return value if name is None else expand_example(load_examples().schemas[name].example)


def describe_schemas() -> dict[str, Json]:
    """Return the JSON schemas of the named shapes, each with its example."""
    named = load_examples().schemas
    return {
        name: describe(shape.example, shape) | {"examples": [expand_example(shape.example)]}
        for name, shape in named.items()
    }


def describe(example: Any, shape: Shape) -> Json:
    """Return the JSON schema of a response with this example."""
    schema = _describe("", "", example, shape)
    if shape.open:
        schema["additionalProperties"] = True
    elif isinstance(example, dict):
        schema["required"] = [name for name in example if name not in shape.optional]
    return schema


def _describe(parent: str, name: str, value: Any, shape: Shape) -> Json:
    schema = _describe_type(name, value, shape)
    full = f"{parent}.{name}"
    if name and (name in shape.nullable or full in shape.nullable):
        schema = _or_null(schema)
    if name in shape.deprecated:
        schema |= {"deprecated": True, "description": f"Deprecated: use `{shape.deprecated[name]}`."}
    if name in shape.about:
        schema |= {"description": shape.about[name]}
    return schema


def _describe_type(name: str, value: Any, shape: Shape) -> Json:
    if name in shape.any:
        return {}
    if value is None:
        return _describe_null(name, shape)
    if name in shape.maps:
        return {"type": "object" if isinstance(value, dict) else "array"}
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: _describe(name, key, item, shape) for key, item in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _describe_items(name, value, shape)}
    referenced = _referenced(value)
    return _describe_scalar(value) if referenced is None else _reference(referenced)


def _describe_items(name: str, value: list[Any], shape: Shape) -> Json:
    """Return the schema of a list's items, which are like the first."""
    if name in shape.items:
        return _reference(shape.items[name])
    return _describe(name, "", value[0], shape) if value else {}


def _describe_null(name: str, shape: Shape) -> Json:
    """Return the schema of a field that is null in the example."""
    kind = shape.types.get(name) or ("date-time" if name.endswith("_at") else "string" if name == "next_cursor" else "")
    if not kind:
        return {}
    return _or_null({"type": "string", "format": kind} if kind in _FORMATTED else {"type": kind})


def _describe_scalar(value: str | float) -> Json:
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"}
    if isinstance(value, float):
        return {"type": "number"}
    form = next((name for name, pattern in _FORMATS if pattern.fullmatch(value)), None)
    return {"type": "string"} if form is None else {"type": "string", "format": form}


def _or_null(schema: Json) -> Json:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema | {"type": [schema["type"], "null"]} if isinstance(schema.get("type"), str) else schema


def _reference(name: str) -> Json:
    return {"$ref": TEMPLATE.format(name=name)}


def _referenced(value: object) -> str | None:
    """Return the name of the schema whose example replaces this value, or None."""
    return value[1:] if isinstance(value, str) and value.startswith("@") else None
