"""Cache figures over all tenants in Redis, because computing them for each scrape or page would cost too much.

A task refreshes the figures about every 15 seconds, and the expensive figures once a minute.
"""

from __future__ import annotations

from typing import Final, cast
from uuid import UUID

import msgspec

from app.clients.redis.connection import FIGURES
from app.clients.redis.stream import backlog, client
from app.domain.ingest.json_input import precompile
from app.domain.salience import agreement
from app.domain.salience.agreement import Agreement
from app.domain.salience.llm_scoring import scorer_version
from app.services.ingest import witness
from app.services.monitoring import lane_rates, provider_status, stats
from app.services.night import night_run
from app.services.privacy import deadlines
from app.settings import settings
from app.store import fleet_gauges
from app.store.core import database
from app.store.enrichment import rating_comparison
from app.store.jobs.schedules import RunStatistics
from app.store.privacy.deadlines import DeadlineTotals
from app.store.webhooks import turns

LETTER_TENANTS_MAX: Final = 50
"""Maximum number of tenants whose dead letters are counted separately."""


@precompile
class Figures(msgspec.Struct, frozen=True):
    """Figures over all tenants as of the last refresh.

    Attributes:
        at_ms: Time of the refresh in milliseconds since 1970; 0 before the first one.
        memories: Number of memories by tier.
        dead_letters: Number of dead letters that need a decision; at most `app.store.fleet_gauges.COUNTED_MOST`.
        letters_by_tenant: Number of these dead letters by tenant, for the `LETTER_TENANTS_MAX` tenants with the most.
        tenants_with_letters: Number of tenants with such dead letters.
        webhooks: Number of webhooks by state: enabled, failing, paused or disabled.
        unaccounted_requests: Number of accepted requests that are neither finished nor pending; 0 unless data was lost.
        provisional: Number of memories that have only a rule-based score.
        unrated: Number of memories that await a rating by a model, at most `app.store.fleet_gauges.COUNTED_MOST`; 0 if
            no provider is configured.
        rating_agreement: Agreement of the last ratings by a model with the rules, by model and prompt version.
        recall_empty: Number of tenants in whose last self-test run nearly all recalls were empty.
        night_success_at: The oldest of the tenants' last successful nightly runs, in seconds
            since 1970 (tenant creation if no run has succeeded); 0 before the first refresh.
        nights: Statistics of the tenants' last nightly runs.
        deadlines: Deadlines of privacy requests.
    """

    at_ms: int = 0
    memories: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(("active", "archived", "cold"), 0))
    dead_letters: int = 0
    unaccounted_requests: int = 0
    provisional: int = 0
    rating_agreement: list[Agreement] = []
    recall_empty: int = 0
    night_success_at: float = 0.0
    nights: RunStatistics = msgspec.field(default_factory=lambda: RunStatistics(0.0, 0.0, 0.0, 0, {}))
    deadlines: DeadlineTotals = msgspec.field(default_factory=lambda: DeadlineTotals({}, None, 0, 0))
    letters_by_tenant: dict[UUID, int] = msgspec.field(default_factory=dict)
    tenants_with_letters: int = 0
    webhooks: dict[str, int] = msgspec.field(default_factory=dict)
    unrated: int = 0

    def count_other_letters(self, tenant_id: UUID, letters: int) -> tuple[dict[UUID, int], int, int]:
        """Return the dead letters of the other tenants: by tenant, the number of tenants, and the total.

        Args:
            letters: Current number of the tenant's own dead letters, used if `letters_by_tenant` may omit the tenant.
        """
        others = {other: count for other, count in self.letters_by_tenant.items() if other != tenant_id}
        own = self.letters_by_tenant.get(tenant_id, 0)
        if not own and self.tenants_with_letters > len(self.letters_by_tenant):
            own = letters
        tenants = self.tenants_with_letters - (1 if own else 0)
        return others, tenants, max(self.dead_letters - own, sum(others.values()))


def refresh(*, thoroughly: bool = False) -> Figures:
    """Refresh the cached figures; once a minute, also refresh the expensive figures and sample the lanes.

    Then check that the model provider answers, if one is configured.

    Args:
        thoroughly: Refresh the expensive figures even if this minute's refresh has already taken place.
    """
    before, now_ms = read(), backlog().now_ms()
    provisional, success_at, nights = before.provisional, before.night_success_at, before.nights
    recall_empty, agreements, unrated = before.recall_empty, before.rating_agreement, before.unrated
    is_minute = lane_rates.take_sample() or thoroughly or not before.at_ms
    with database.drain() as tx:
        totals = fleet_gauges.whole(tx)
        webhook_states = turns.count_states(tx)
        letters, tenants_with_letters = fleet_gauges.dead_letters_by_tenant(tx, LETTER_TENANTS_MAX)
        if is_minute:
            provisional = fleet_gauges.provisional(tx)
            agreements = agreement.compare(rating_comparison.list_last_of_all(tx, agreement.RATINGS_MAX))
            recall_empty = fleet_gauges.empty_recalls(tx)
            unrated = fleet_gauges.count_unrated(tx, _rating_versions()) if settings().has_provider else 0
    if is_minute:
        with database.shared() as tx:
            oldest_success_at = fleet_gauges.oldest_last_success(tx, night_run.KIND)
        success_at, nights = now_ms / 1000 if oldest_success_at is None else oldest_success_at, stats.nights()
    witness.find_gaps()
    unaccounted = backlog().unaccounted()
    lost = witness.count_lost()
    now = Figures(
        now_ms,
        {"active": totals.active, "archived": totals.archived, "cold": totals.cold},
        totals.dead_letters,
        lost + max(before.unaccounted_requests - lost if unaccounted is None else unaccounted, 0),
        provisional,
        agreements,
        recall_empty,
        success_at,
        nights,
        deadlines.deadline_figures(),
        letters,
        tenants_with_letters,
        webhook_states,
        unrated,
    )
    client().set(FIGURES, msgspec.json.encode(now))
    provider_status.check_connection()
    return now


def _rating_versions() -> list[str]:
    """Return the rating versions of tenants without and with cues."""
    return [scorer_version(settings().salience_model, cues=cues) for cues in (False, True)]


def read() -> Figures:
    """Return the cached figures; zeros before the first refresh."""
    stored = cast("bytes | None", client().get(FIGURES))
    try:
        return msgspec.json.decode(stored, type=Figures) if stored else Figures()
    except msgspec.DecodeError:
        return Figures()  # written by another version; the next refresh overwrites it
