"""Read files of tests with the readers of imports."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from app.domain.imports.formats import FORMATS
from app.domain.imports.items import Fault, ImportOptions, Item, Link, Memory, Reading, find_zone

NOW = 1_795_000_000.0
"""2026-11-18."""


def items(format_name: str, content: bytes, **options: Any) -> list[Item]:
    given = ImportOptions(**options)
    return list(FORMATS[format_name].read(io.BytesIO(content), Reading(given, find_zone(given), NOW)))


def memories(found: Iterable[Item]) -> list[Memory]:
    return [item for item in found if isinstance(item, Memory)]


def faults(found: Iterable[Item]) -> list[Fault]:
    return [item for item in found if isinstance(item, Fault)]


def links(found: Iterable[Item]) -> list[Link]:
    return [item for item in found if isinstance(item, Link)]


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def archive(**files: bytes) -> bytes:
    """Return a zip archive; `__` in a name stands for a dot."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name.replace("__", "."), data)
    return content.getvalue()


def database(folder: Path, script: str, *rows: tuple[str, tuple[Any, ...]]) -> bytes:
    """Return the bytes of a SQLite database."""
    path = folder / "source.db"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(script)
    for statement, values in rows:
        connection.execute(statement, values)
    connection.commit()
    connection.close()
    return path.read_bytes()
