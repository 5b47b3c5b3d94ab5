"""Send requests to the API; `client` has more, but is slow to import."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from app.cli.core.connection import find_connection

PAGE_MAX: Final = 500
"""Maximum entries of a page that every list of the API allows."""


def item_path(collection: str, item_id: str) -> str:
    """Return the path of one item of a collection; any character may be part of its id."""
    from urllib.parse import quote

    return f"{collection}/{quote(item_id, safe='')}"


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that aren't None."""
    return {name: value for name, value in fields.items() if value is not None}


def call(url: str | None, method: str, path: str, **options: Any) -> dict[str, Any]:
    """Send one request to the API and return the JSON of its response.

    Args:
        options: Further arguments of `Api.call`, such as `json` and `params`.
    """
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        return api.call(method, path, **options).body


def fetch_list(url: str | None, path: str, noun: str, limit: int | None = None, **params: Any) -> list[dict[str, Any]]:
    """Return the entries of a paginated list, at most `limit`; parameters that are None are omitted."""
    from app.cli.core.client import Api, pages

    page = PAGE_MAX if limit is None else min(limit, PAGE_MAX)
    with Api(find_connection(url)) as api:
        return list(islice(pages(api, path, noun, {"limit": page, **given(**params)}), limit))
