"""Log memories that a model didn't rate, with failures named as in health findings; ids and numbers only, never a text.

While a provider fails, turns that call it fail every few seconds, so only the first failure of a kind is logged, and
then one line every `REPEAT_SECONDS`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

import structlog

from app.clients.llm.resilience import ProviderFailed, Reason
from app.domain.provider_health import name_failure

if TYPE_CHECKING:
    from app.clients.llm.salience_scorer import Gathered

REPEAT_SECONDS: Final = 600.0
"""Interval of the log lines of a process about one kind of failure that continues."""

KEPT_MAX: Final = 1000
"""Maximum number of kinds of failure, by tenant, whose last line is remembered."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _LastLine:
    """The time of the last line about a kind of failure, and the number of failed turns since then."""

    logged_at: float
    unlogged: int = 0


last_lines: dict[tuple[Reason, UUID | None], _LastLine] = {}
"""By kind of failure and, if a tenant's texts may be the cause, by tenant; empty while ratings succeed."""


def log_turn(tenant_id: UUID, model: str, gathered: Gathered, failures: Iterable[ProviderFailed], waiting: int) -> None:
    """Log the memories of a turn that weren't rated: one line for the provider, and one for each kind of failure.

    Args:
        failures: The failure of each memory that keeps its rule-based score.
        waiting: Number of memories that wait because the provider failed.
    """
    if gathered.scores:
        for key in [key for key in last_lines if key[1] in {None, tenant_id}]:
            del last_lines[key]
    if gathered.illness is not None:
        _log_provider(tenant_id, model, waiting, gathered.illness)
    for (reason, detail, status), count in Counter(map(_describe, failures)).items():
        log.warning(
            "not_rated",
            tenant=str(tenant_id),
            memories=count,
            reason=reason,
            model=model,
            status=status,
            detail=detail,
        )


def _log_provider(tenant_id: UUID, model: str, memories: int, failure: ProviderFailed) -> None:
    key = (failure.reason, tenant_id if failure.treatment.halve else None)
    last, now = last_lines.get(key), time.monotonic()
    if last is not None and now - last.logged_at < REPEAT_SECONDS:
        last.unlogged += 1
        return
    if len(last_lines) >= KEPT_MAX:
        last_lines.clear()
    last_lines[key] = _LastLine(now)
    reason, detail, status = _describe(failure)
    log.warning(
        "rating_put_off",
        tenant=str(tenant_id),
        memories=memories,
        reason=reason,
        model=model,
        status=status,
        detail=detail,
        retry_after_seconds=failure.retry_after_seconds,
        unlogged_turns=last.unlogged if last else 0,
    )


def _describe(failure: ProviderFailed) -> tuple[str, str, int | None]:
    """Return the failure's name, detail (a fixed phrase such as `not JSON`, or empty) and HTTP status, if any."""
    return name_failure(failure.reason), failure.detail, failure.status
