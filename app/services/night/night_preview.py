"""Preview a whole nightly run: what each step would change, after the steps before it, without writing anything."""

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
    """Start of a page: a step, and the memory to continue after."""

    step: str
    after: UUID


@dataclass(frozen=True, slots=True)
class StepForecast:
    """Preview of a step, as far as a page covers it.

    Attributes:
        name: Name of the step.
        counts: Number of memories that would move, by target tier.
        note: Reason for listing no changes; None if changes are listed.
    """

    name: str
    counts: dict[str, int]
    note: str | None = None


class NightPage(NamedTuple):
    """A page of the changes that a nightly run would make.

    Attributes:
        as_of: Time of the run; also used for the following pages.
        steps: The steps covered by this page.
        changes: Each change with its step, ordered by step and memory id.
        following: Start of the next page; None for the last page.
    """

    as_of: datetime
    steps: list[StepForecast]
    changes: list[tuple[str, PredictedMove]]
    following: NightCursor | None


def preview_night(tenant_id: UUID, as_of: datetime | None, begin: NightCursor | None, limit: int) -> NightPage:
    """Return what a nightly run would change, assuming that nothing else happens until then; takes no locks.

    A memory that would move down several tiers is listed once for each step that moves it.

    Args:
        as_of: Any time; None for now.
        begin: The `following` of the previous page.
        limit: Maximum number of changes per page; pages that would take long have fewer.

    Raises:
        Invalid: `begin` names an unknown step.
    """
    until = time.monotonic() + SECONDS
    names, known = list(steps.STEPS), steps.dry_runs()
    if begin is not None and begin.step not in names:
        raise Invalid(errors=[FieldError("cursor", "isn't one that a dry run of a night has given")])
    if as_of is None:
        with database.tenant(tenant_id) as tx:
            as_of = database.now(tx)
    found: list[StepForecast] = []
    changes: list[tuple[str, PredictedMove]] = []
    place = begin or NightCursor(names[0], NIL)
    for name in names[names.index(place.step) :]:
        after = place.after if name == place.step else NIL
        if len(changes) >= limit or (found and time.monotonic() >= until):
            return NightPage(as_of, found, changes, NightCursor(name, after))
        foresee = known.get(name, UNSEEN)
        if isinstance(foresee, str):
            found.append(StepForecast(name, {}, foresee))
            continue
        page = foresee(tenant_id, as_of, after, limit - len(changes))
        changes += [(name, move) for move in (*page.moves, *page.summaries)]
        found.append(StepForecast(name, {tier: count for tier, count in page.counts.items() if tier != "looked_at"}))
        if page.following is not None:
            return NightPage(as_of, found, changes, NightCursor(name, page.following))
    return NightPage(as_of, found, changes, None)
