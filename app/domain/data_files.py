"""Read the word lists and tables beside the domain's modules; the domain reads no other files."""

from __future__ import annotations

import tomllib
from pkgutil import get_data
from typing import Any


def read_table(package: str, name: str) -> dict[str, Any]:
    """Return the contents of a TOML file in a package."""
    return tomllib.loads(_read(package, name))


def read_lines(package: str, name: str) -> list[str]:
    """Return the lines of a text file in a package."""
    return _read(package, name).splitlines()


def _read(package: str, name: str) -> str:
    # importlib.resources would do the same but also import zipfile and tempfile.
    data = get_data(package, name)
    if data is None:
        raise FileNotFoundError(name)
    return data.decode()
