"""The dry run of a whole night: what each step would do, in order, after those before it. Nothing is written."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.errors import FieldError, Invalid
from app.services.night import steps
from app.services.tiers.previews import Move
from app.store.core import database
from app.store.enrichment.work import NIL

SECONDS: Final = 2.0
UNSEEN: Final = "has no dry run"


class Place(NamedTuple):
    """Where a page begins: in this step, after this memory."""

    step: str
    after: UUID


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A step, as far as a page has come in it.

    Attributes:
        name: The step's.
        counts: By tier, the memories that would come to it.
        note: Why it lists nothing; None where it does.
    """

    name: str
    counts: dict[str, int]
    note: str | None = None


class Page(NamedTuple):
    """Some of what a night would change.

    Attributes:
        as_of: The night's moment, for the pages that follow too.
        steps: Those of this page.
        changes: Each with the step that makes it, by step and then by id.
        following: Where the next page begins; None for the last.
    """

    as_of: datetime
    steps: list[Foreseen]
    changes: list[tuple[str, Move]]
    following: Place | None


def preview(tenant_id: UUID, as_of: datetime | None, begin: Place | None, limit: int) -> Page:
    """What a night at a moment would change, as if nothing else happened until then; nothing is locked.

    A memory that goes down several tiers in it is listed by each step that moves it.

    Args:
        tenant_id: The tenant.
        as_of: Any moment; None for now.
        begin: The `following` of the page before.
        limit: Most changes in a page; a page that would take long has fewer.

    Raises:
        Invalid: There is no step of that name.
    """
    until = time.monotonic() + SECONDS
    names, known = list(steps.STEPS), steps.foreseen()
    if begin is not None and begin.step not in names:
        raise Invalid(errors=[FieldError("cursor", "isn't one that a dry run of a night has given")])
    if as_of is None:
        with database.tenant(tenant_id) as tx:
            as_of = database.now(tx)
    found: list[Foreseen] = []
    changes: list[tuple[str, Move]] = []
    place = begin or Place(names[0], NIL)
    for name in names[names.index(place.step) :]:
        after = place.after if name == place.step else NIL
        if len(changes) >= limit or (found and time.monotonic() >= until):
            return Page(as_of, found, changes, Place(name, after))
        foresee = known.get(name, UNSEEN)
        if isinstance(foresee, str):
            found.append(Foreseen(name, {}, foresee))
            continue
        page = foresee(tenant_id, as_of, after, limit - len(changes))
        changes += [(name, move) for move in (*page.moves, *page.summaries)]
        found.append(Foreseen(name, {tier: count for tier, count in page.counts.items() if tier != "looked_at"}))
        if page.following is not None:
            return Page(as_of, found, changes, Place(name, page.following))
    return Page(as_of, found, changes, None)
