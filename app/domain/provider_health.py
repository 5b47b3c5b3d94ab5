"""Judge the state of the configured model providers from the outcomes of their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from app.domain.formatting import format_relative, format_span
from app.domain.health_findings import Finding, ok

ProviderState = Literal["ok", "failing", "unknown", "not_called"]
BreakerState = Literal["closed", "open", "half_open"]

FAILING_CALLS: Final = 3
"""Failures in a row after which a use counts as failing; one is enough for the connection, and before any success."""
SILENT_SECONDS: Final = 300.0
"""Age of the last outcome above which the state of the connection is unknown; it is checked about once a minute."""
OLD_SECONDS: Final = 3600.0
"""Age of a use's last failure above which the use no longer counts as failing.

Without new calls, the state of the use can't be known.
"""
CONNECTION: Final = "connection"

USES: Final[Mapping[str, str]] = {
    CONNECTION: "connection",
    "score": "ratings",
    "embed": "embeddings",
    "summarise": "summaries",
    "rerank": "reranking",
    "contradict": "contradiction checks",
    "self_test": "self-test questions",
}
"""Display name of each use of models."""
KINDS: Final[Mapping[str, str]] = {
    "rate_limited": "too many requests",
    "out_of_quota": "quota used up",
    "timeout": "no answer in time",
    "unreachable": "no connection",
    "server_error": "server error",
    "not_authorised": "API key rejected",
    "not_found": "model or address not found",
    "redirected": "redirected",
    "host_refused": "host not allowed",
    "garbage": "unusable answer",
    "truncated": "truncated answer",
    "refused": "content refused",
    "too_large": "text too long",
    "bad_request": "request rejected",
}
"""Display name of each kind of failure."""
_REMEDIES: Final[Mapping[str, str]] = {
    "rate_limited": "raise the limit at the provider, or lower EBBING_LLM_CONCURRENCY",
    "out_of_quota": "raise the quota at the provider",
    "server_error": "read the provider's status page or its log: the error is there, and nothing needs to change here",
    "not_authorised": "set a valid EBBING_OPENAI_API_KEY for all processes, and restart them",
    "not_found": "check the name of the model and EBBING_OPENAI_BASE_URL",
    "bad_request": "check the model's name, and that the provider supports the requests' parameters: its log has the "
    "reason, which isn't logged here, because it may quote memories",
    "redirected": "set EBBING_OPENAI_BASE_URL to the address that answers",
    "host_refused": "add the host to EBBING_LLM_HOSTS, or allow private addresses",
}
_REMEDY: Final = "check that the provider runs and that EBBING_OPENAI_BASE_URL names it"
_REMEDY_ANSWERS: Final = "read the log of the worker, and set a model that follows the JSON format"
_REMEDY_RESTORED: Final = "wait: the connection works again, and calls resume within a minute"
_ANSWER_FAILURES: Final = frozenset({"garbage", "truncated", "refused", "too_large", "bad_request"})
_UNREACHED: Final = frozenset({"timeout", "unreachable"})
_VERBS: Final[Mapping[str, str]] = {
    "not_authorised": "rejects the API key",
    "server_error": "answers with errors (HTTP 5xx)",
    "bad_request": "refuses requests (HTTP 4xx)",
    "host_refused": "isn't called (host not allowed)",
}
"""State of a connection by kind of failure, for kinds that need other words than a failed check."""


@dataclass(frozen=True)
class ProviderHealth:
    """State of one use of a model provider.

    Attributes:
        use: A key of `USES`.
        address: The provider's address with its port, or the name of a plugin.
        model: Name of the model; empty for the connection.
        state: `unknown` if the connection wasn't checked recently, `not_called` if the use had no call yet.
        success_seconds: Seconds since the last success of any process; None if there was none.
        failure_seconds: Seconds since the last failure; None if there was none.
        failure: Kind of the last failure; empty if there was none.
        failures_in_row: Number of failures since the last success.
        breaker: State of the circuit breaker.
        waiting: Number of memories that wait for a rating; None for other uses.
        paused_until: End of the pause that the provider requested (`Retry-After`); None unless it is in the future.
    """

    use: str
    address: str
    model: str
    state: ProviderState
    success_seconds: float | None
    failure_seconds: float | None
    failure: str
    failures_in_row: int
    breaker: BreakerState
    waiting: int | None = None
    paused_until: datetime | None = None

    @property
    def name(self) -> str:
        """Display name of the use."""
        return USES.get(self.use, self.use)

    @property
    def failure_name(self) -> str:
        """Display name of the kind of the last failure."""
        return KINDS.get(self.failure, self.failure.replace("_", " "))


def judge(
    use: str,
    *,
    success_seconds: float | None,
    failure_seconds: float | None,
    failures_in_row: int,
    breaker: BreakerState,
) -> ProviderState:
    """Return the state of a use.

    Args:
        success_seconds: Seconds since the last success; None if there was none.
        failure_seconds: Seconds since the last failure; None if there was none.
    """
    ages = [age for age in (success_seconds, failure_seconds) if age is not None]
    if use == CONNECTION:
        if not ages or min(ages) > SILENT_SECONDS:
            return "unknown"
        return "failing" if failures_in_row else "ok"
    if not ages:
        return "not_called"
    is_recent = failure_seconds is not None and failure_seconds <= OLD_SECONDS
    fails = failures_in_row >= FAILING_CALLS or breaker != "closed" or (success_seconds is None and failures_in_row > 0)
    return "failing" if is_recent and fails else "ok"


def provider_findings(found: Sequence[ProviderHealth], *, is_starting: bool = False) -> list[Finding]:
    """Return a finding for each provider that can't be reached or whose calls fail; none if all are well.

    Uses that fail because their provider can't be reached are covered by the finding of the connection.

    Args:
        is_starting: True if the service has just started, so that the first check is still to come.
    """
    waiting = next((one.waiting for one in found if one.waiting), 0)
    severity: Literal["attention", "trouble"] = (
        "trouble" if any(one.use == "embed" for one in found) else "attention"
    )  # without embeddings, new memories can't be found by their meaning
    findings = []
    unreachable = set()
    for one in found:
        if one.use == CONNECTION and one.state == "unknown":
            if is_starting:
                findings.append(ok("provider", f"{one.address}, not checked yet: the service has just started"))
                continue
            ages = [age for age in (one.success_seconds, one.failure_seconds) if age is not None]
            last = f"was last checked {format_span(min(ages))} ago" if ages else "hasn't been checked yet"
            what = f"the model provider at {one.address} {last}, so its state is unknown"
            todo = "check that the scheduler (beat) and the maintain worker run: they check it every minute"
            findings.append(Finding("attention", "provider_unchecked", what, todo, "providers"))
        if one.use == CONNECTION and one.state == "failing":
            unreachable.add(one.address)
            what = f"the model provider at {one.address} {_describe_failure(one)}{_waiting(waiting)}"
            findings.append(Finding(severity, "provider", what, remedy(one.failure), "providers"))
    for one in found:
        if one.use == CONNECTION or one.state != "failing":
            continue
        if one.address in unreachable and one.failure not in _ANSWER_FAILURES:
            continue
        if one.paused_until is not None:
            until = f"{one.paused_until:%Y-%m-%d %H:%M} UTC"
            what = f"the model provider at {one.address} requested a pause until {until} ({one.failure_name}), "
            what += f"so {one.name} are paused, except for a small call about every minute"
        else:
            calls = "the last call" if one.failures_in_row == 1 else f"the last {one.failures_in_row:,} calls"
            ago = format_span(one.failure_seconds or 0)
            what = f"{calls} for {one.name} failed ({one.failure_name}, {ago} ago)"
        what += _waiting(one.waiting or 0)
        severity_of_use = severity if one.use == "embed" else "attention"
        todo = _REMEDY_RESTORED if _is_restored(one, found) else remedy(one.failure)
        findings.append(Finding(severity_of_use, f"provider_{one.use}", what, todo, "providers"))
    return findings


def _is_restored(failing: ProviderHealth, found: Sequence[ProviderHealth]) -> bool:
    """Return whether the use couldn't reach the provider, but a check of the connection has succeeded since then."""
    return (
        failing.failure in _UNREACHED
        and failing.failure_seconds is not None
        and any(
            one.use == CONNECTION
            and (one.address, one.state) == (failing.address, "ok")
            and one.success_seconds is not None
            and one.success_seconds < failing.failure_seconds
            for one in found
        )
    )


def working_providers(found: Sequence[ProviderHealth]) -> list[Finding]:
    """Return a finding for each use of a provider that works or wasn't called yet, or one if none is configured.

    Uses of a provider whose connection fails are covered by the finding of the connection.
    """
    if not found:
        return [ok("provider", "none configured, none required: rules rate memories offline")]
    findings = []
    failing = {one.address for one in found if one.use == CONNECTION and one.state == "failing"}
    for one in found:
        if one.state in {"ok", "not_called"} and one.address not in failing:
            last = (
                "not called yet"
                if one.success_seconds is None
                else f"last success {format_relative(one.success_seconds)}"
            )
            where = f"{one.model} at {one.address}" if one.model else one.address
            what = f"{one.name}: {where}, {last}"
            findings.append(ok(f"provider_{one.use}", what))
    return findings


def remedy(kind: str) -> str:
    """Return the next step after failures of a kind."""
    return _REMEDIES.get(kind, _REMEDY_ANSWERS if kind in _ANSWER_FAILURES else _REMEDY)


def _describe_failure(connection: ProviderHealth) -> str:
    verb = "can't be reached" if connection.failure in _UNREACHED else "answers, but the check fails"
    return _VERBS.get(connection.failure, f"{verb} ({connection.failure_name})")


def _waiting(memories: int) -> str:
    if not memories:
        return ""
    return f"; {memories:,} {'memory waits for a rating' if memories == 1 else 'memories wait for a rating'}"
