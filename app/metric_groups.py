"""Group the workers' counters whose names differ only in a suffix: one metric each, with that suffix as a label.

`/metrics` shows both forms. The old names are deprecated and will be removed in version 0.3. Redis stores the counters
under their old names, so that processes of two versions count into the same series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from app.domain.evaluation.self_test_rules import KINDS


class Group(NamedTuple):
    """A metric made of several counters.

    Attributes:
        description: Text of the metric.
        labels: Names of its labels.
        members: Counter of `app.metrics.WORK` by label values.
    """

    description: str
    labels: tuple[str, ...]
    members: Mapping[tuple[str, ...], str]


def _by(label: str, description: str, **members: str) -> Group:
    return Group(description, (label,), {(value,): counter for value, counter in members.items()})


GROUPS: Final[dict[str, Group]] = {
    "self_tests": Group(
        "Self-tests by kind and outcome.",
        ("kind", "outcome"),
        {(kind, outcome): f"self_tests_{kind}_{outcome}" for kind in sorted(KINDS) for outcome in ("passed", "failed")},
    ),
    "uses": _by(
        "outcome",
        "Uses of memories. `late`: reported after a later use, so they don't reinforce; `refractory`: the same session "
        "used the memory a moment before; `unknown`: the memory doesn't exist.",
        reinforced="reinforced_uses",
        late="late_uses",
        refractory="refractory_uses",
        unknown="unknown_uses",
    ),
    "memories_processed": _by(
        "stage",
        "Memories that completed a stage: stored, indexed for word search, embedded for semantic search, scored for "
        "salience, rated by a model, merged into a summary, archived, or expired.",
        stored="stored_memories",
        indexed="indexed_memories",
        embedded="embedded_memories",
        scored="scored_memories",
        rated="rated_memories",
        merged="merged_memories",
        archived="archived_memories",
        expired="expired_memories",
    ),
    "summaries": _by(
        "writer",
        "Summaries written: by a model, or extractive ones because the model gave no usable response.",
        model="summaries_by_model",
        extraction="summaries_without_model",
    ),
    "cold_storage_memories": _by(
        "action",
        "Memories moved to cold storage or restored from it, and reads of missing or damaged ones.",
        moved="cold_moved",
        restored="cold_restored",
        damaged="cold_damaged",
    ),
    "budget_limits_reached": _by(
        "limit",
        "Tenants close to a budget limit (`soft`) or at one (`hard`), counted once per day and process.",
        soft="budget_soft_reached",
        hard="budget_hard_reached",
    ),
    "quotas_reached": _by(
        "state",
        "Tenants found close to their quota (`near`) or over it (`over`) by a nightly run.",
        near="quota_near",
        over="quota_over",
    ),
    "scheduled_runs": _by("outcome", "Scheduled runs ended.", done="runs_done", failed="runs_failed"),
    "dead_letter_decisions": _by(
        "decision",
        "Dead letters replayed or discarded by an operator.",
        replayed="dead_letters_replayed",
        discarded="dead_letters_discarded",
    ),
}

RENAMED_GAUGES: Final[dict[str, str]] = {
    "quarantine_size": "dead_letters_waiting",
    "privacy_min_days_left": "privacy_deadline_seconds",
}
"""New name of each deprecated gauge."""


def deprecation(name: str) -> str:
    """Return the sentence that names the successor of a deprecated counter or gauge; empty for the others."""
    if name in RENAMED_GAUGES:
        return f" Deprecated, removed in 0.3: use `ebbing_{RENAMED_GAUGES[name]}`."
    for group, values in _memberships(name):
        labels = ", ".join(f'{label}="{value}"' for label, value in zip(GROUPS[group].labels, values, strict=True))
        return f" Deprecated, removed in 0.3: use `ebbing_{group}_total{{{labels}}}`."
    return ""


def _memberships(counter: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, group in GROUPS.items():
        for values, member in group.members.items():
            if member == counter:
                yield name, values
