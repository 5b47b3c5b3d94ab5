"""Figures of all tenants together that a scrape or a page can't ask for each time: kept in Redis by a task.

They are as old as the last task, a quarter of a minute as a rule; those that cost more, a minute.
"""

from __future__ import annotations

from typing import cast

import msgspec

from app.clients.redis.redis import FIGURES
from app.clients.redis.stream import backlog, client
from app.domain.ingest.decoding import prepared
from app.services.monitoring import rates, stats
from app.services.night import night
from app.services.privacy import deadlines
from app.store import figures as rows
from app.store.core import database
from app.store.jobs.schedules import Figures as Nights
from app.store.privacy.deadlines import Figures as Deadlines


@prepared
class Figures(msgspec.Struct, frozen=True):
    """What was so when it was last looked at.

    Attributes:
        at_ms: When, in milliseconds since 1970; 0 for never.
        memories: By tier.
        dead_letters: That wait for a person; `store.figures.COUNTED_MOST` at most.
        unaccounted_requests: Accepted, and neither settled nor waiting; 0 unless something was lost.
        provisional: Memories that only the rules have judged.
        recall_empty: Tenants whose last self-tests found recall nearly always empty.
        night_success_at: When a night last ended well, of the tenant for which that is the longest ago; 0 for never.
        nights: How the tenants' last nights went.
        deadlines: Of what people have asked for.
    """

    at_ms: int = 0
    memories: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(("active", "archived", "cold"), 0))
    dead_letters: int = 0
    unaccounted_requests: int = 0
    provisional: int = 0
    recall_empty: int = 0
    night_success_at: float = 0.0
    nights: Nights = msgspec.field(default_factory=lambda: Nights(0.0, 0.0, 0.0, 0, {}))
    deadlines: Deadlines = msgspec.field(default_factory=lambda: Deadlines({}, None, 0, 0))


def keep(*, thoroughly: bool = False) -> Figures:
    """Look, and keep what is seen; once a minute also what costs more, and a sample of the lanes.

    Args:
        thoroughly: Whether to look at what costs more now, whatever the minute.
    """
    before, now_ms = read(), backlog().now_ms()
    provisional, success_at, nights = before.provisional, before.night_success_at, before.nights
    recall_empty = before.recall_empty
    is_minute = rates.keep() or thoroughly or not before.at_ms
    with database.drain() as tx:
        whole = rows.whole(tx)
        if is_minute:
            provisional = rows.provisional(tx)
            recall_empty = rows.empty_recalls(tx)
    if is_minute:
        with database.shared() as tx:
            found = rows.last_success(tx, night.KIND)
        success_at, nights = now_ms / 1000 if found is None else found, stats.nights()
    unaccounted = backlog().unaccounted()
    now = Figures(
        now_ms,
        {"active": whole.active, "archived": whole.archived, "cold": whole.cold},
        whole.dead_letters,
        before.unaccounted_requests if unaccounted is None else unaccounted,
        provisional,
        recall_empty,
        success_at,
        nights,
        deadlines.figures(),
    )
    client().set(FIGURES, msgspec.json.encode(now))
    return now


def read() -> Figures:
    """What was kept last; zeros before the first time."""
    held = cast("bytes | None", client().get(FIGURES))
    try:
        return msgspec.json.decode(held, type=Figures) if held else Figures()
    except msgspec.DecodeError:
        return Figures()  # of another version: the next task writes it anew
