"""Migrate a database to the schema of this version, and read its current revision."""

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

# Key of an advisory lock, because concurrent migrations of one database would conflict on the version row. The lock is
# per database, but the databases of a server share the roles: if two of them are migrated at once, the second migration
# waits for PostgreSQL's lock on a role, at most for the lock timeout, and then finds the role and its grants.
_LOCK = 0x6562_6269


def upgrade(owner_url: str, revision: str = "head") -> None:
    """Run the pending migrations up to `revision`, one process at a time per database.

    Args:
        owner_url: A login that may create roles and extensions in the database.

    Raises:
        Misconfigured: The login lacks privileges; the message says which are needed.
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
    """Revert migrations down to `revision`; the data in their tables is lost."""
    command.downgrade(_config(owner_url), revision)


def newest_revision() -> str:
    """Return the newest schema revision that this version of the code includes.

    Raises:
        Misconfigured: The installation contains no migrations.
    """
    revision = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    if revision is None:
        message = f"no migrations were found in {MIGRATIONS}: the installation isn't complete"
        raise Misconfigured(message)
    return revision


def is_known(revision: str) -> bool:
    """Return True if this version of the code includes the revision; False means that a newer version created it."""
    script = ScriptDirectory(str(MIGRATIONS))
    return revision in {step.revision for step in script.walk_revisions()}


def current_revision(tx: Connection) -> str | None:
    """Return the database's revision, or None if it was never migrated."""
    return MigrationContext.configure(tx).get_current_revision()


def _config(owner_url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = driver_url(owner_url)
    return config
