"""Send one request to the API; `client` has more, but is slow to import."""

from __future__ import annotations

from typing import Any

from app.cli.core.connection import find_connection


def call(url: str | None, method: str, path: str, **options: Any) -> dict[str, Any]:
    """Send one request to the API and return the JSON of its response.

    Args:
        options: Further arguments of `Api.call`, such as `json` and `params`.
    """
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        return api.call(method, path, **options).body
