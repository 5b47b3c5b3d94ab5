"""Bring the database to this version's schema."""

from __future__ import annotations

from app.errors import Misconfigured, Unavailable
from app.settings import settings
from app.store.core import database, migrate, server_info


def upgrade_schema(revision: str = "head") -> tuple[str | None, str | None]:
    """Run the missing migrations up to `revision`, with the owner's login if one is set.

    A database with a newer schema than this version's remains unchanged: this version works with it, which allows a
    rollback of the code.

    Returns:
        The revision before and after; None for an empty database.

    Raises:
        Misconfigured: The login has insufficient privileges, or the revision doesn't exist.
        Unavailable: The database is unreachable.
    """
    owner = settings().owner_database_url
    url = owner.get_secret_value() if owner else database.database_url()
    try:
        before = server_info.read_revision(url)
        if before is not None and revision == "head" and not migrate.is_known(before):
            return before, before
        migrate.upgrade(url, revision)
        return before, server_info.read_revision(url)
    except server_info.UnknownRevision as error:
        raise Misconfigured(f"revision {revision} can't be reached: {error}") from None
    except Exception as error:
        if not database.is_passing(error):
            raise
        detail = "PostgreSQL can't be reached: check EBBING_OWNER_DATABASE_URL (if it is set) or EBBING_DATABASE_URL"
        raise Unavailable(detail) from error


def newest_revision() -> str:
    """Return the newest revision of this version's schema."""
    return migrate.newest_revision()
