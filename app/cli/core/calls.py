"""Send one request to the API; `client` has more, but is slow to import."""

from __future__ import annotations

from typing import Any

from app.cli.core.connection import find_connection


def item_path(collection: str, item_id: str) -> str:
    """Return the path of one item of a collection; any character may be part of its id."""
    from urllib.parse import quote

    return f"{collection}/{quote(item_id, safe='')}"


def call(url: str | None, method: str, path: str, **options: Any) -> dict[str, Any]:
    """Send one request to the API and return the JSON of its response.

    Args:
        options: Further arguments of `Api.call`, such as `json` and `params`.
    """
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        return api.call(method, path, **options).body
