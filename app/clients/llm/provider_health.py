"""Record the outcomes of model calls in Redis, where every process can read them; no text, no key, no tenant.

A record belongs to a `Target`: a use of models, such as `score`, the provider's address and the model. After a change
of these settings, the records of the former target no longer apply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import structlog

from app.clients.llm.resilience import ProviderFailed, Reason
from app.clients.redis.connection import PROVIDERS, RedisError
from app.clients.redis.stream import backlog, client
from app.errors import Misconfigured
from app.settings import Settings

SUCCESS_EVERY_SECONDS: Final = 1.0
"""Minimum interval between two recorded successes of a process, so that fast calls don't wait for Redis each time."""
NOT_CALLED: Final = frozenset({Reason.CIRCUIT_OPEN, Reason.BUSY})
"""Failures without a call, which say nothing new about the provider."""

CONNECTION: Final = "connection"
"""`Target.use` of the regular check whether the provider answers; the check sends no memory."""
RERANKERS_HERE: Final = frozenset({"none", "cross-encoder"})
"""Rerankers that call nothing outside the process."""

Observer = Callable[[ProviderFailed | None, float], None]
"""Receives the outcome of a call, None for a success, and the seconds for which the circuit breaker stays open."""

log = structlog.get_logger(__name__)


class Target(NamedTuple):
    """A use of models, the provider's address (`host:port`, or the name of a plugin), and the model's name."""

    use: str
    address: str
    model: str


def list_targets(config: Settings) -> list[Target]:
    """Return the targets that the settings name; none if no model is called outside the processes."""
    targets: list[Target] = []
    if config.has_provider or config.embedder == "openai":
        targets.append(Target(CONNECTION, config.provider_address, ""))
    if config.has_provider:
        targets.append(Target("score", config.provider_address, config.salience_model))
        targets.append(Target("summarise", config.provider_address, config.summarising_model))
        targets += [Target(use, config.provider_address, config.salience_model) for use in ("contradict", "self_test")]
    if config.embedder == "openai":
        targets.append(Target("embed", config.provider_address, config.embedder_model))
    if config.reranker not in RERANKERS_HERE:
        targets.append(rerank_target(config))
    return targets


def rerank_target(config: Settings) -> Target:
    """Return the target of the configured reranker."""
    address = config.provider_address if config.reranker == "llm" else config.reranker
    return Target("rerank", address, config.rerank_model)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """Outcomes of the calls of all processes to one target; times in seconds since 1970, 0 if there was none.

    Attributes:
        failures: Number of failures since the last success.
        kind: Kind of the last failure, a `Reason`; empty if there was none.
        open_until: Time until which a process's circuit breaker stays open, unless a call succeeds.
        paused_until: End of the pause that the provider requested, at most an hour after its response.
    """

    success_at: float = 0.0
    failure_at: float = 0.0
    failures: int = 0
    kind: str = ""
    open_until: float = 0.0
    paused_until: float = 0.0


_FIELDS: Final = ("success_ms", "failure_ms", "failures", "kind", "open_until_ms", "paused_until_ms")


def ignore(_failure: ProviderFailed | None, _open_seconds: float) -> None:
    """Record nothing."""


def observer(target: Target) -> Observer:
    """Return a function that records the outcomes of calls to a target, but not each of many successes in a row."""
    success_at = float("-inf")

    def observe(failure: ProviderFailed | None, open_seconds: float) -> None:
        nonlocal success_at
        if failure is not None:
            success_at = float("-inf")
        elif time.monotonic() - success_at < SUCCESS_EVERY_SECONDS:
            return
        if record(target, failure, open_seconds) and failure is None:
            success_at = time.monotonic()

    return observe


def record(target: Target, failure: ProviderFailed | None, open_seconds: float = 0.0) -> bool:
    """Record the outcome of a call, and return whether it was recorded.

    Failures of Redis are logged, not raised, because the call itself is done.

    Args:
        failure: None for a success; failures without a call (`NOT_CALLED`) are ignored.
        open_seconds: Seconds for which the circuit breaker of this process stays open; 0 if it is closed.
    """
    if failure is not None and failure.reason in NOT_CALLED:
        return False
    try:
        _write(target, failure, open_seconds)
    except (RedisError, Misconfigured) as error:
        log.warning("provider_health_not_recorded", use=target.use, error=type(error).__name__)
        return False
    return True


def _write(target: Target, failure: ProviderFailed | None, open_seconds: float) -> None:
    now_ms = backlog().now_ms()
    success_ms, failure_ms, failures, kind, open_until_ms, paused_until_ms = _names(target)
    with client().pipeline(transaction=False) as pipe:
        if failure is None:
            pipe.hset(PROVIDERS, mapping={success_ms: now_ms, failures: 0, open_until_ms: 0, paused_until_ms: 0})
        else:
            pipe.hset(PROVIDERS, mapping={failure_ms: now_ms, kind: failure.reason.value})
            pipe.hincrby(PROVIDERS, failures, 1)
            if open_seconds > 0:
                pipe.hset(PROVIDERS, open_until_ms, now_ms + int(open_seconds * 1000))
            if failure.retry_after_seconds:
                pipe.hset(PROVIDERS, paused_until_ms, now_ms + int(failure.retry_after_seconds * 1000))
        pipe.execute()


def read(targets: Sequence[Target]) -> tuple[float, list[CallRecord]]:
    """Return the present time of Redis in seconds since 1970, and the record of each target.

    Raises:
        RedisError: Redis is unreachable.
    """
    now = backlog().now_ms() / 1000
    if not targets:
        return now, []
    names = [name for target in targets for name in _names(target)]
    values = cast("list[bytes | None]", client().hmget(PROVIDERS, names))
    size = len(_FIELDS)
    return now, [_record(values[begin : begin + size]) for begin in range(0, len(values), size)]


def _names(target: Target) -> list[str]:
    return [f"{target.use}|{target.address}|{target.model}|{name}" for name in _FIELDS]


def _record(values: Sequence[bytes | None]) -> CallRecord:
    success_ms, failure_ms, failures, kind, open_until_ms, paused_until_ms = values
    return CallRecord(
        int(success_ms or 0) / 1000,
        int(failure_ms or 0) / 1000,
        int(failures or 0),
        (kind or b"").decode(),
        int(open_until_ms or 0) / 1000,
        int(paused_until_ms or 0) / 1000,
    )
