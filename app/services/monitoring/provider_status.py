"""Report the state of the configured model providers, and check regularly that they answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from app.clients.llm import provider_health
from app.clients.llm.provider_health import CONNECTION, CallRecord
from app.domain.provider_health import BreakerState, ProviderHealth, judge, settle
from app.settings import settings

CHECK_SECONDS = 60.0
"""Interval of checks while the provider answers; after a failed check, each call of `check_connection` checks."""


def read_providers(waiting: Mapping[str, int | None] = MappingProxyType({})) -> list[ProviderHealth]:
    """Return the state of each configured use of a model provider; empty if the settings name none.

    Args:
        waiting: Number of memories that wait for a rating (`score`) and for an embedding (`embed`), if it is known.

    Raises:
        RedisError: Redis is unreachable.
    """
    targets = provider_health.list_targets(settings())
    if not targets:
        return []
    now, records = provider_health.read(targets)
    found = []
    for target, record in zip(targets, records, strict=True):
        success_seconds, failure_seconds = _age(now, record.success_at), _age(now, record.failure_at)
        breaker = _breaker(now, record)
        state = judge(
            target.use,
            success_seconds=success_seconds,
            failure_seconds=failure_seconds,
            failures_in_row=record.failures,
            breaker=breaker,
            failure=record.kind,
            waiting=waiting.get("score") if target.use == "score" else None,
        )
        found.append(
            ProviderHealth(
                target.use,
                target.address,
                target.model,
                state,
                success_seconds,
                failure_seconds,
                record.kind,
                record.failures,
                breaker,
                waiting.get(target.use),
                datetime.fromtimestamp(record.paused_until, UTC) if record.paused_until > now else None,
            )
        )
    return settle(found)


def check_connection() -> None:
    """Check that the configured provider answers, unless the last check is recent and succeeded.

    The result is recorded in Redis. No memory is sent.

    Raises:
        RedisError: Redis is unreachable.
    """
    config = settings()
    targets = [target for target in provider_health.list_targets(config) if target.use == CONNECTION]
    if not targets:
        return
    now, [record] = provider_health.read(targets)
    if record.failures == 0 and now - record.success_at < CHECK_SECONDS:
        return
    from app.clients.llm import provider_check  # noqa: PLC0415 - the HTTP client costs memory that most don't need

    provider_check.check_connection(config)


def _age(now: float, at: float) -> float | None:
    return max(now - at, 0.0) if at else None


def _breaker(now: float, record: CallRecord) -> BreakerState:
    if not record.open_until:
        return "closed"
    return "open" if record.open_until > now else "half_open"
