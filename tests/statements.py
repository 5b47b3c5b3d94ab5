"""Watching the statements that the service sends to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event

from app.store.core import database


@contextmanager
def watched(*roles: database.Role) -> Iterator[list[str]]:
    """Collect the statements of these roles, without those that SQLAlchemy sends on an engine's first connection."""
    seen: list[str] = []

    def record(_connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    engines = [database.engine(role) for role in roles]
    for engine in engines:
        engine.connect().close()
        event.listen(engine, "before_cursor_execute", record)
    try:
        yield seen
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", record)
