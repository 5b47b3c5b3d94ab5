"""Read lists page by page, each page starting after the last row of the previous page (keyset paging)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from sqlalchemy import Connection, Result, text

T = TypeVar("T")

Place: TypeAlias = tuple[datetime, UUID]
"""Time and id of a row, in lists that are ordered by time."""


class Page(list[T]):
    """Rows of one page, in the order of the list.

    Attributes:
        following: Key of the last row, after which the next page starts; None if there is no next page.
    """

    def __init__(self, rows: Iterable[T] = (), following: Any = None) -> None:
        """Create a page from its rows and the key of its last row, if there is a next page."""
        super().__init__(rows)
        self.following = following


def build_one(build: Callable[..., T], rows: Result[Any]) -> T | None:
    """Return the object built from the columns of the only row, or None if there is no row."""
    row = rows.one_or_none()
    return None if row is None else build(*row)


def page_of(rows: Sequence[T], limit: int, key: Callable[[T], object]) -> Page[T]:
    """Return rows as a page. If it has `limit` rows, a next page is assumed, which may turn out to be empty."""
    return Page(rows, key(rows[-1]) if len(rows) == limit else None)


class Latest:
    """Query that reads rows page by page, latest first."""

    def __init__(self, query: str) -> None:
        """Prepare the statement.

        Args:
            query: Statement that ends in `ORDER BY`, a time column, `DESC`, and a column of unique ids.
        """
        query, order = query.rsplit("ORDER BY ", 1)
        at, row_id = order.replace(" DESC", "").split(", ")
        self._key = [name.rpartition(".")[2] for name in (at, row_id)]
        page_at, page_id = "CAST(:page_at AS timestamptz)", "CAST(:page_id AS uuid)"
        older = f"({at}, {row_id}) < ({page_at}, {page_id})"
        if not order.endswith("DESC"):
            older = f"{at} <= {page_at} AND ({at} < {page_at} OR {row_id} > {page_id})"
        self._statement = text(f"{query} AND ({page_at} IS NULL OR ({older})) ORDER BY {order} LIMIT :page_limit")

    def read(
        self, tx: Connection, build: Callable[[Any], T], older_than: Place | None, limit: int, **values: object
    ) -> Page[T]:
        """Return the page after `older_than`, or the first page.

        Args:
            build: Function that converts a row.
            values: The query's parameters.
        """
        at, row_id = older_than or (None, None)
        position = {"page_at": at, "page_id": row_id, "page_limit": limit}
        rows = tx.execute(self._statement, values | position).all()
        page = page_of(rows, limit, lambda row: tuple(getattr(row, name) for name in self._key))
        return Page(map(build, rows), page.following)
