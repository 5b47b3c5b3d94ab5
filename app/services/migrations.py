"""Bring the database to this version's schema."""

from __future__ import annotations

import time
from typing import Final

import structlog

from app.errors import Misconfigured, Unavailable
from app.settings import settings
from app.store.core import database, migrate, server_info

TRIES: Final = 10
PAUSE_SECONDS: Final = 2.0
"""Pause between two attempts. It lets queries run that were blocked by the migration."""
LOCKED: Final = (
    "the migration can't get its locks, because long transactions use the tables: run `ebbing migrate` again, or stop "
    "the workers first; the steps that are done remain"
)

log = structlog.get_logger(__name__)


def upgrade_schema(revision: str = "head") -> tuple[str | None, str | None]:
    """Run the missing migrations up to `revision`, with the owner's login if one is set.

    A database with a newer schema than this version's remains unchanged: this version works with it, which allows a
    rollback of the code. A step that can't get its lock in time, because the service is under load, is tried again.

    Returns:
        The revision before and after; None for an empty database.

    Raises:
        Misconfigured: The login has insufficient privileges, or the revision doesn't exist.
        Unavailable: The database is unreachable, or each try has met a lock of another transaction.
    """
    owner = settings().owner_database_url
    url = owner.get_secret_value() if owner else database.database_url()
    try:
        before = server_info.read_revision(url)
        if before is not None and revision == "head" and not migrate.is_known(before):
            return before, before
        _upgrade(url, revision)
        return before, server_info.read_revision(url)
    except server_info.UnknownRevision as error:
        raise Misconfigured(f"revision {revision} can't be reached: {error}") from None
    except Exception as error:
        if not database.is_passing(error):
            raise
        detail = "PostgreSQL can't be reached: check EBBING_OWNER_DATABASE_URL (if it is set) or EBBING_DATABASE_URL"
        raise Unavailable(LOCKED if database.is_locked_out(error) else detail) from error


def _upgrade(url: str, revision: str) -> None:
    """Run the missing migrations, each in a transaction; repeat after a lock timeout or a deadlock."""
    for tries_left in reversed(range(TRIES)):
        try:
            migrate.upgrade(url, revision)
        except Exception as error:
            if not (tries_left and database.is_locked_out(error)):
                raise
            log.warning("migration_locked_out", tries_left=tries_left)
            time.sleep(PAUSE_SECONDS)
        else:
            return


def newest_revision() -> str:
    """Return the newest revision of this version's schema."""
    return migrate.newest_revision()
