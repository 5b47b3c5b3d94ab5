"""Preview a nightly run: list the changes that its steps would make, one after another, without writing anything."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.errors import FieldError, Invalid
from app.services.night import steps
from app.services.tiers.dry_run import PredictedMove
from app.store.core import database
from app.store.enrichment.work_queue import NIL

SECONDS: Final = 2.0
UNSEEN: Final = "has no dry run"


class NightCursor(NamedTuple):
    """Start of a page: a step, and the id of the last memory on the previous page."""

    step: str
    after: UUID


@dataclass(frozen=True, slots=True)
class StepForecast:
    """Preview of a step, limited to the memories that the page covers.

    Attributes:
        name: Name of the step.
        counts: Number of memories that would move, by target tier.
        note: Reason why no changes are listed; None if the step has a dry run.
    """

    name: str
    counts: dict[str, int]
    note: str | None = None


class NightPage(NamedTuple):
    """A page of the changes that a nightly run would make.

    Attributes:
        as_of: Time of the run; pass the same time for the following pages.
        steps: The steps covered by this page.
        changes: Each change with its step, ordered by step and memory id.
        following: Start of the next page; None for the last page.
    """

    as_of: datetime
    steps: list[StepForecast]
    changes: list[tuple[str, PredictedMove]]
    following: NightCursor | None


def preview_night(tenant_id: UUID, as_of: datetime | None, begin: NightCursor | None, limit: int) -> NightPage:
    """Return a page of the changes that a nightly run would make if nothing else changed before it; take no locks.

    A memory that would move down several tiers is listed once for each step that moves it.

    Args:
        as_of: Time of the run; None for now.
        begin: The `following` of the previous page.
        limit: Maximum number of changes per page. A page ends earlier, after a whole step, once it takes `SECONDS`.

    Raises:
        Invalid: `begin` names an unknown step.
    """
    deadline = time.monotonic() + SECONDS
    names, dry_runs = list(steps.STEPS), steps.dry_runs()
    if begin is not None and begin.step not in names:
        raise Invalid(errors=[FieldError("cursor", "wasn't returned by a dry run of a nightly run")])
    if as_of is None:
        with database.tenant(tenant_id) as tx:
            as_of = database.now(tx)
    forecasts: list[StepForecast] = []
    changes: list[tuple[str, PredictedMove]] = []
    start = begin or NightCursor(names[0], NIL)
    for name in names[names.index(start.step) :]:
        after = start.after if name == start.step else NIL
        if len(changes) >= limit or (forecasts and time.monotonic() >= deadline):
            return NightPage(as_of, forecasts, changes, NightCursor(name, after))
        dry_run = dry_runs.get(name, UNSEEN)
        if isinstance(dry_run, str):
            forecasts.append(StepForecast(name, {}, dry_run))
            continue
        page = dry_run(tenant_id, as_of, after, limit - len(changes))
        changes += [(name, move) for move in (*page.moves, *page.summaries)]
        forecasts.append(
            StepForecast(name, {tier: count for tier, count in page.counts.items() if tier != "looked_at"})
        )
        if page.following is not None:
            return NightPage(as_of, forecasts, changes, NightCursor(name, page.following))
    return NightPage(as_of, forecasts, changes, None)
