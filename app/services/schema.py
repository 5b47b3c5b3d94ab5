"""Bring the database to this version's schema."""

from __future__ import annotations

from app.errors import Misconfigured, Unavailable
from app.settings import settings
from app.store.core import database, inspection, migrate


def upgrade(revision: str = "head") -> tuple[str | None, str | None]:
    """Run the migrations that are missing up to `revision`, with the owner's login where one is set.

    A database of a version after this one stays as it is: this one works on it, and may be the way back.

    Returns:
        The revision before and after; None for an empty database.

    Raises:
        Misconfigured: The login's rights don't suffice, or there is no such revision.
        Unavailable: The database can't be reached.
    """
    owner = settings().owner_database_url
    url = owner.get_secret_value() if owner else database.database_url()
    try:
        before = inspection.revision(url)
        if before is not None and revision == "head" and not migrate.knows(before):
            return before, before
        migrate.upgrade(url, revision)
        return before, inspection.revision(url)
    except inspection.UnknownRevision as error:
        raise Misconfigured(f"revision {revision} can't be reached: {error}") from None
    except Exception as error:
        if not database.is_passing(error):
            raise
        detail = "PostgreSQL can't be reached: check EBBING_OWNER_DATABASE_URL, else EBBING_DATABASE_URL"
        raise Unavailable(detail) from error


def newest() -> str:
    """The revision of this version's schema."""
    return migrate.head()
