"""Write ops/settings.md, the reference of every setting, from app/settings.py (`make docs`)."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from itertools import pairwise
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
precedence. A default of — means that the setting is empty. Descriptions name other settings without the prefix
`EBBING_`.

Secrets are never printed. Each setting of the type *secret, or a file* can be in a file instead: the variable with
the suffix `_FILE`, such as `EBBING_MASTER_KEY_FILE=/run/secrets/master-key`, names it. One newline at the end of the
file is removed. Ebbing doesn't start if both are set in the environment, or both in `.env`, or if the file can't be
read, is empty or isn't UTF-8; it warns, as `ebbing doctor` does, if every user of the machine may read the file.
Processes read the files at their start.

| variable | type | default | description |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page, one row per setting in the order of the classes."""
    prefix = str(Settings.model_config.get("env_prefix", ""))
    texts, fields = _descriptions(), Settings.model_fields
    if texts.keys() != fields.keys():
        raise ValueError(f"settings without a docstring: {fields.keys() - texts.keys()}")
    rows = (
        f"| `{(prefix + name).upper()}` | {_type(fields[name].annotation)} | {_default(fields[name])} | "
        f"{_text(fields[name], text)} |\n"
        for name, text in texts.items()
    )
    return HEAD + "".join(rows)


def _descriptions() -> dict[str, str]:
    """Return the docstring of each setting. They aren't read at run time, which would slow every start by 20 ms."""
    return {
        field.target.id: " ".join(text.value.value.split())
        for each in Settings.__mro__
        if each.__module__.startswith("app.")
        for settings in ast.parse(inspect.getsource(each)).body
        if isinstance(settings, ast.ClassDef)
        for field, text in pairwise(settings.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


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
        SecretStr: "secret, or a file",
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


def _text(field: FieldInfo, text: str) -> str:
    bounds = [
        f"{sign} {getattr(each, name)}"
        for each in field.metadata
        for name, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
        if getattr(each, name, None) is not None
    ]
    text = text.replace("|", "\\|")
    return f"{text} ({', '.join(bounds)})" if bounds else text


if __name__ == "__main__":
    write(PAGE, page())
