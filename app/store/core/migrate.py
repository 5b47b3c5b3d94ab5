"""Bring a database to the schema of this version, and ask which it has."""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from app.errors import Misconfigured
from app.store.core.database import driver_url

MIGRATIONS = Path(__file__).resolve().parents[3] / "migrations"

# Two migrations at once would trip over each other's roles and version row.
_LOCK = 0x6562_6269


def upgrade(owner_url: str, revision: str = "head") -> None:
    """Run what is missing up to `revision`, one migration at a time on a server.

    Args:
        owner_url: A login that may create roles and extensions in the database.

    Raises:
        Misconfigured: The login's rights don't suffice; says which are needed.
    """
    with psycopg.connect(owner_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        try:
            command.upgrade(_config(owner_url), revision)
        except Exception as error:
            if isinstance(getattr(error, "orig", None), psycopg.errors.InsufficientPrivilege):
                message = (
                    "this PostgreSQL login may not create the roles of the service: run `ebbing migrate` once with "
                    "EBBING_OWNER_DATABASE_URL set to a superuser, or to a role with CREATEROLE and BYPASSRLS"
                )
                raise Misconfigured(message) from error
            raise


def downgrade(owner_url: str, revision: str) -> None:
    """Take migrations back down to `revision`; loses what their tables hold."""
    command.downgrade(_config(owner_url), revision)


def head() -> str:
    """The newest revision that this version of the code knows."""
    revision = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    if revision is None:
        message = f"no migrations were found in {MIGRATIONS}: the installation isn't complete"
        raise Misconfigured(message)
    return revision


def knows(revision: str) -> bool:
    """Whether this version of the code has the revision; a newer version's it hasn't."""
    script = ScriptDirectory(str(MIGRATIONS))
    return revision in {step.revision for step in script.walk_revisions()}


def current(tx: Connection) -> str | None:
    """The revision of the database, None where it has never been migrated."""
    return MigrationContext.configure(tx).get_current_revision()


def _config(owner_url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = driver_url(owner_url)
    return config
