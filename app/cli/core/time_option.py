"""Parse dates and times given as options."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import typer


def time_option(name: str, about: str) -> Any:
    """Return an option that takes a date or a time."""
    return typer.Option(name, callback=parse_time, metavar="TIME", help=about)


def parse_time(given: str | None) -> str | None:
    """Return an ISO 8601 timestamp for the API (option callback). A date means midnight; the default offset is UTC.

    Raises:
        typer.BadParameter: The value is not an ISO 8601 date or time.
    """
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise typer.BadParameter("expected a date or time such as 2026-11-20 or 2026-11-20T18:00:00Z") from None
    return found.replace(tzinfo=found.tzinfo or UTC).isoformat()
