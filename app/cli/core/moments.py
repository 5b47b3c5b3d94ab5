"""Moments on the command line: written as the API shows them, or as a day."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

METAVAR = "TIME"


def moment(given: str | None) -> str | None:
    """A moment as the API takes it: a day is its beginning, and what has no offset is UTC. For an option's callback.

    Raises:
        typer.BadParameter: It is no moment.
    """
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise typer.BadParameter("isn't a moment such as 2026-11-20 or 2026-11-20T18:00:00Z") from None
    return found.replace(tzinfo=found.tzinfo or UTC).isoformat()
