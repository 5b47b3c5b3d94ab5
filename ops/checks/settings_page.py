"""Write ops/settings.md, the reference of every setting, from app/settings.py (`make docs`)."""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.settings import Settings
from ops.checks.writing import ROOT, write

PAGE = ROOT / "ops" / "settings.md"

HEAD = """# Settings

<!-- written by `make docs` from app/settings.py; a test fails if it is outdated -->

Every setting is read from the environment or from a `.env` file in the working directory; the environment takes
precedence. Secrets are never printed. A default of — means that the setting is empty.

| variable | type | default | description |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page, one row per setting in the order of the class."""
    prefix = str(Settings.model_config.get("env_prefix", ""))
    rows = (
        f"| `{(prefix + name).upper()}` | {_type(field.annotation)} | {_default(field)} | {_text(field)} |\n"
        for name, field in Settings.model_fields.items()
    )
    return HEAD + "".join(rows)


def _type(annotation: Any) -> str:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin is typing.Annotated:
        return _type(args[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(each) for each in args if each is not type(None))
    if origin in (frozenset, set, list, tuple):
        return "list, with commas"
    names = {
        SecretStr: "secret",
        str: "text",
        Path: "path",
        bool: "yes or no",
        int: "whole number",
        float: "number",
    }
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value == frozenset() or isinstance(value, SecretStr):
        return "—"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _text(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(each, name)}"
        for each in field.metadata
        for name, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
        if getattr(each, name, None) is not None
    ]
    text = (field.description or "").replace("|", "\\|")
    return f"{text} ({', '.join(bounds)})" if bounds else text


if __name__ == "__main__":
    write(PAGE, page())
