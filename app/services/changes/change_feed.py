"""Read a tenant's feed of changes; `app.store.changes.feed` decides their order."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from app.errors import Conflict
from app.store.changes import feed
from app.store.changes.feed import Change
from app.store.core import database
from app.store.tenants import policies


class CursorLost(Exception):
    """A reader can't continue from the cursor that it gave.

    Later changes were removed, or weren't recorded while the feed was off; or the database was restored from a backup.

    Attributes:
        oldest: The lowest cursor that a reader can go on from.
        is_ahead: The feed hasn't reached the cursor: the database was restored from a backup.
    """

    def __init__(self, oldest: int, *, is_ahead: bool) -> None:
        """Create an error."""
        super().__init__(oldest)
        self.oldest = oldest
        self.is_ahead = is_ahead


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes in commit order.

    Attributes:
        cursor: Cursor for the next page. That page doesn't re-read changes that were skipped because of their type.
        has_more: More changes may be available now.
    """

    changes: list[Change]
    cursor: int
    has_more: bool


def read_page(tenant_id: UUID, cursor: int | None, types: frozenset[str] | None, limit: int) -> ChangePage:
    """Return the changes after a cursor.

    Args:
        cursor: Cursor of the last change that the reader has; None to start with the oldest retained change.
        types: Types to return; None for all.
        limit: Maximum number of changes, at least 1.

    Raises:
        CursorLost: Changes after the cursor were removed or not recorded, or the feed hasn't reached the cursor.
        Conflict: The tenant's policy switches the feed off.
    """
    with database.tenant(tenant_id) as tx:
        _require_on(tx, tenant_id)
        newest, oldest = feed.bounds(tx, tenant_id)
        if cursor is not None and cursor > newest:
            newest = feed.newest(tx, tenant_id)
        if cursor is not None and not oldest <= cursor <= newest:
            raise CursorLost(oldest, is_ahead=cursor > newest)
        after = oldest if cursor is None else cursor
        changes, reached = feed.read_page(tx, tenant_id, after, types, limit)
    return ChangePage(changes, reached, len(changes) == limit)


def find_newest(tenant_id: UUID) -> int:
    """Return the cursor from which a reader gets only changes that are committed after this call.

    Raises:
        Conflict: The tenant's policy switches the feed off.
    """
    with database.tenant(tenant_id) as tx:
        _require_on(tx, tenant_id)
        return feed.newest(tx, tenant_id)


has_news = database.in_tenant(feed.has_news)
"""Return True if there may be changes after a cursor; see `store.changes.feed.has_news`."""


def _require_on(tx: database.Transaction, tenant_id: UUID) -> None:
    if not policies.read_current(tx, tenant_id).changes.keep_days:
        raise Conflict("the change feed is off: set `changes.keep_days` in the policy to at least 1")
