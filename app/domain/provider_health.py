"""Judge the state of the configured model providers from the outcomes of their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from app.domain.formatting import count_memories, format_relative, format_span
from app.domain.health_findings import READ_LOG, Finding, ok

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
MODEL_SETTINGS: Final[Mapping[str, str]] = {
    "score": "EBBING_SALIENCE_MODEL",
    "embed": "EBBING_EMBEDDING_MODEL",
    "summarise": "EBBING_SUMMARY_MODEL",
    "rerank": "EBBING_RERANKER_MODEL",
    "contradict": "EBBING_SALIENCE_MODEL",
    "self_test": "EBBING_SALIENCE_MODEL",
}
"""Setting that names the model of each use."""
_ADDRESS: Final = "EBBING_OPENAI_BASE_URL"
_MODEL: Final = "{model}"
_REMEDIES: Final[Mapping[str, tuple[str, str]]] = {
    "rate_limited": ("raise the limit at the provider, or lower {setting}", "EBBING_LLM_CONCURRENCY"),
    "out_of_quota": ("raise the quota at the provider", ""),
    "timeout": ("check that the provider runs and that {setting} names it", _ADDRESS),
    "unreachable": ("check that the provider runs and that {setting} names it", _ADDRESS),
    "server_error": ("read the provider's status page or its log; nothing needs to change here", ""),
    "not_authorised": ("set a valid {setting}", "EBBING_OPENAI_API_KEY"),
    "not_found": (f"set {{setting}} to a model that the provider offers, or correct {_ADDRESS}", _MODEL),
    "redirected": ("set {setting} to the address that answers", _ADDRESS),
    "host_refused": (
        "add the host to {setting}, or permit private addresses with EBBING_LLM_PRIVATE_ADDRESSES",
        "EBBING_LLM_HOSTS",
    ),
    "garbage": (f"{READ_LOG}; if the model doesn't follow the JSON format, set {{setting}} to another one", ""),
    "truncated": ("set {setting} to a model that ends its answers within the token limit", _MODEL),
    "refused": ("set {setting} to a model that doesn't refuse the texts", _MODEL),
    "too_large": ("set {setting} to a model with a longer context", _MODEL),
    "bad_request": (
        "read the reason in the provider's log, and set {setting} to a model that supports the requests",
        _MODEL,
    ),
}
"""Next step after each kind of failure, and the setting to change: empty for none, `_MODEL` for that of the use."""
_REMEDY_TOO_LARGE: Final = (
    "discard the dead letters with the reason too_large, or set {setting} to a model with a longer context and replay "
    "them"
)
"""Next step for ratings that became dead letters; the page Dead letters names the same step."""
_REMEDY_FEW_TOO_LARGE: Final = (
    "nothing needs to change if few texts are concerned; otherwise set {setting} to a model with a longer context, "
    "which then rates memories as well"
)
"""Next step for nightly uses that share the model of ratings, and skip texts that are too long."""
_REMEDY_RESTORED: Final = "wait a minute, because the connection works again and calls resume by themselves"
_ANSWER_FAILURES: Final = frozenset({"garbage", "truncated", "refused", "too_large", "bad_request"})
_DEAD_LETTERED: Final = frozenset({"too_large", "bad_request"})
"""Failures after which a rating becomes a dead letter, whose own finding names the next step."""
_UNREACHED: Final = frozenset({"timeout", "unreachable"})
_CONNECTION_FAILURES: Final = frozenset({"unreachable", "not_authorised", "host_refused", "redirected"})
"""Failures that a check of the connection meets as well, so that a later check that succeeds disproves them."""
_NIGHTLY: Final = frozenset({"contradict", "self_test", "summarise"})
"""Uses that are called mostly at night."""
_VERBS: Final[Mapping[str, str]] = {
    "not_authorised": "rejects the API key",
    "server_error": "answers with errors (HTTP 5xx)",
    "bad_request": "refuses requests (HTTP 4xx)",
    "host_refused": "isn't called (host not allowed)",
}
"""Description of a failing connection by kind of failure; `_describe_failure` describes the other kinds."""


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
        waiting: Number of memories that wait for a rating or an embedding; None for other uses.
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
        return name_failure(self.failure)


def name_failure(kind: str) -> str:
    """Return the display name of a kind of failure."""
    return KINDS.get(kind, kind.replace("_", " "))


def judge(
    use: str,
    *,
    success_seconds: float | None,
    failure_seconds: float | None,
    failures_in_row: int,
    breaker: BreakerState,
    failure: str = "",
    waiting: int | None = None,
) -> ProviderState:
    """Return the state of a use.

    Ratings that became dead letters don't count as failing once no memory waits for a rating.

    Args:
        success_seconds: Seconds since the last success; None if there was none.
        failure_seconds: Seconds since the last failure; None if there was none.
        failure: Kind of the last failure; empty if there was none.
        waiting: Number of memories that wait for a rating; None if it is unknown, and for other uses.
    """
    ages = [age for age in (success_seconds, failure_seconds) if age is not None]
    if use == CONNECTION:
        if not ages or min(ages) > SILENT_SECONDS:
            return "unknown"
        return "failing" if failures_in_row else "ok"
    if not ages:
        return "not_called"
    if failure in _DEAD_LETTERED and waiting == 0:
        return "ok"
    is_recent = failure_seconds is not None and failure_seconds <= OLD_SECONDS
    fails = failures_in_row >= FAILING_CALLS or breaker != "closed" or (success_seconds is None and failures_in_row > 0)
    return "failing" if is_recent and fails else "ok"


def provider_findings(found: Sequence[ProviderHealth], *, is_starting: bool = False) -> list[Finding]:
    """Return findings for providers that fail or whose state is unknown, and for uses of models whose calls fail.

    Uses that fail because their provider can't be reached are covered by the finding of the connection.

    Args:
        is_starting: True if the service has just started; a provider that isn't checked yet is then no problem.
    """
    by_use = {one.use: one for one in found}
    severity: Literal["attention", "trouble"] = (
        "trouble" if "embed" in by_use else "attention"
    )  # without embeddings, new memories can't be found by their meaning
    waiting = "".join(_describe_waiting(by_use[use]) for use in ("score", "embed") if use in by_use)
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
            what = f"the model provider at {one.address} {_describe_failure(one)}{waiting}"
            todo, setting = remedy(one.failure)
            findings.append(Finding(severity, "provider", what, todo, "providers", setting=setting))
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
        what += _describe_waiting(one) + _describe_end(one)
        severity_of_use = severity if one.use == "embed" else "attention"
        todo, setting = (_REMEDY_RESTORED, "") if _is_restored(one, found) else remedy(one.failure, one.use)
        findings.append(Finding(severity_of_use, f"provider_{one.use}", what, todo, "providers", setting=setting))
    return findings


def settle(found: Sequence[ProviderHealth]) -> list[ProviderHealth]:
    """Return the states, with nightly uses as working whose failure a later success of another use disproves.

    Until the next night they have no call that could succeed. The success must be of the same model, since it says
    nothing about other models, and nothing about answers to other prompts; for failures of the connection, its check is
    enough.
    """
    return [
        replace(one, state="ok")
        if one.use in _NIGHTLY and one.state == "failing" and any(_disproves(other, one) for other in found)
        else one
        for one in found
    ]


def _disproves(working: ProviderHealth, failing: ProviderHealth) -> bool:
    is_later = (
        working.success_seconds is not None
        and failing.failure_seconds is not None
        and working.success_seconds < failing.failure_seconds
    )
    is_enough = (
        failing.failure in _CONNECTION_FAILURES
        if working.use == CONNECTION
        else working.model == failing.model and failing.failure not in _ANSWER_FAILURES
    )
    return is_later and is_enough and working.address == failing.address


def defer_reembedding(findings: Sequence[Finding], found: Sequence[ProviderHealth]) -> list[Finding]:
    """Return the findings; while the provider of embeddings fails, the advice to embed again waits for it."""
    addresses = {one.address for one in found if one.use == "embed"}
    fails = any(
        one.use in {CONNECTION, "embed"} and one.state == "failing" for one in found if one.address in addresses
    )
    todo = "once the provider answers, run `ebbing reembed`"
    return [replace(one, todo=todo) if fails and one.code == "embedding_space" else one for one in findings]


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
            last = _describe_last(one)
            where = f"{one.model} at {one.address}" if one.model else one.address
            what = f"{one.name}: {where}, {last}"
            findings.append(ok(f"provider_{one.use}", what))
    return findings


def remedy(kind: str, use: str = CONNECTION) -> tuple[str, str]:
    """Return the next step after failures of a kind, and the setting that it changes; empty for none."""
    todo, setting = _REMEDIES.get(kind, _REMEDIES["unreachable"])
    if kind == "too_large" and use == "score":
        todo = _REMEDY_TOO_LARGE
    if kind == "too_large" and use in {"contradict", "self_test"}:
        todo = _REMEDY_FEW_TOO_LARGE
    model = MODEL_SETTINGS.get(use, MODEL_SETTINGS["score"])
    setting = model if setting == _MODEL else setting
    return todo.format(setting=setting or model), setting


def _describe_last(one: ProviderHealth) -> str:
    if one.success_seconds is not None:
        return f"last success {format_relative(one.success_seconds)}"
    if one.failure_seconds is None:
        return "not called yet"
    return f"no success yet, last failure {format_relative(one.failure_seconds)} ({one.failure_name})"


def _describe_failure(connection: ProviderHealth) -> str:
    verb = "can't be reached" if connection.failure in _UNREACHED else "answers, but the check fails"
    return _VERBS.get(connection.failure, f"{verb} ({connection.failure_name})")


def _describe_waiting(one: ProviderHealth) -> str:
    memories = one.waiting or 0
    if one.use == "embed":
        if not memories:
            return "; new memories aren't found by their meaning until it answers"
        verb, whose = ("isn't", "its") if memories == 1 else ("aren't", "their")
        waits = f"{count_memories(memories)} {'waits' if memories == 1 else 'wait'} for an embedding"
        return f"; {waits}, and {verb} found by {whose} meaning until then"
    return f"; {memories:,} {'memory waits' if memories == 1 else 'memories wait'} for a rating" if memories else ""


def _describe_end(one: ProviderHealth) -> str:
    """Return when the finding of a nightly use ends; empty for others, whose next call is soon."""
    if one.use not in _NIGHTLY:
        return ""
    left = format_span(max(OLD_SECONDS - (one.failure_seconds or 0), 0))
    return f"; most such calls are made at night, and without another failure this warning ends in {left}"
