"""Read a PostgreSQL server's versions and schema revision for `ebbing migrate` and `ebbing doctor`."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from alembic.util.exc import CommandError as UnknownRevision
from sqlalchemy import Connection, text

__all__ = ["ServerVersions", "UnknownRevision", "read_revision", "read_versions"]


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """Versions of PostgreSQL and pgvector; `pgvector` is None if the extension isn't installed in the database."""

    version: str
    pgvector: str | None


def read_versions(tx: Connection) -> ServerVersions:
    """Read the server's versions."""
    version, pgvector = tx.execute(_VERSIONS).one()
    return ServerVersions(version, pgvector)


_VERSIONS = text("""
SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector')
""")


def read_revision(url: str) -> str | None:
    """Return the schema's revision, or None if the database was never migrated."""
    with psycopg.connect(url, connect_timeout=10) as connection:
        is_migrated = connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
        if is_migrated is None or not is_migrated[0]:
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
