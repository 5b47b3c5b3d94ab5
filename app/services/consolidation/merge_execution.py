"""Write merges: link groups, replace them by a summary, or queue them for approval, after planning again under lock.

A crash never loses a memory: in every committed state, a source is either active, or archived and summarised. No model
is called here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

import numpy as np

from app import failpoints, metrics
from app.domain.changes.types import MERGED
from app.domain.consolidation.group_types import Summary
from app.domain.dynamics.timeline import Era
from app.domain.ingest.ids import RANDOM_BYTES, generate_base
from app.domain.ingest.memory import KINDS
from app.domain.ingest.sources import as_stored, lowest
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.keep_rule import merge_chances
from app.services.consolidation import merge_plan
from app.services.consolidation.merge_plan import GroupPlan, RunTerms
from app.services.enrichment import reminders
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.tiers import archive
from app.services.tiers.pca_fitting import ChosenBasis
from app.store.consolidation import consolidation_runs, merged_memories, merges
from app.store.consolidation.merged_memories import SUMMARISES, SUPPORTS, InsertedLink, NewSummary
from app.store.consolidation.merges import Ancestor, Merge, Part, Status
from app.store.enrichment import word_index
from app.store.memories import history
from app.store.memories.history import EventChange
from app.store.memories.tenant_counts import TierCounts

RELATED: Final = "related"
KIND: Final = "consolidation"
LABELS_MOST: Final = 64
"""Maximum number of tags, and of entities, that a summary inherits from its sources; the most frequent come first."""


@dataclass(frozen=True, slots=True)
class SummarisedGroup:
    """A planned group with its summary; `summary` is None if the group is linked or waits for approval."""

    plan: GroupPlan
    summary: Summary | None


def write_merges(
    tenant_id: UUID, run_id: UUID, terms: RunTerms, made: Sequence[SummarisedGroup], chosen: ChosenBasis | None
) -> Counter[str]:
    """Write groups in one transaction; groups whose plan has changed since are left to a later run.

    Args:
        run_id: The run whose counters are updated.
        made: Disjoint groups.
        chosen: PCA basis for archived vectors.

    Returns:
        Counts by column of the table `consolidation_runs`.
    """
    failpoints.trigger("merge.before")
    with memory_write(tenant_id, "tier", "merge.before_commit") as write:
        tx = write.tx
        era, plans = merge_plan.plan_groups(tx, tenant_id, [group.plan.group for group in made], terms, lock=True)
        unchanged = [
            SummarisedGroup(current, group.summary)
            for group, current in zip(made, plans, strict=True)
            if current is not None and current.is_as(group.plan)
        ]
        merge_ids = [uuid4() for _ in unchanged]
        counts, new_summaries = write_groups(write, terms, unchanged, era, chosen)
        rows = list(zip(merge_ids, unchanged, new_summaries, strict=True))
        records = [build_merge(merge_id, run_id, terms.as_of, group, summary) for merge_id, group, summary in rows]
        merges.add(tx, tenant_id, records, list_parts(merge_ids, unchanged))
        consolidation_runs.count(tx, tenant_id, run_id, counts)
        if unchanged:
            ids = [memory_id for group in unchanged for memory_id in group.plan.taken_ids]
            audit_counts = {name: counts[name] for name in ("linked", "merged", "summaries", "waiting") if counts[name]}
            write.audit("memories_merged", ids=ids, details={"run": str(run_id), **audit_counts})
    failpoints.trigger("merge.after_commit")
    count_outcomes(counts)
    return counts


def count_outcomes(counts: Counter[str]) -> None:
    """Add committed counts to the workers' metrics."""
    for name, metric in _METRICS.items():
        metrics.count(metric, counts[name])


_METRICS: Final = {
    "summaries": "summaries_made",
    "merged": "merged_memories",
    "characters_before": "merged_characters",
    "characters_after": "summary_characters",
    "waiting": "merges_put_off",
}


def write_groups(
    write: MemoryWrite,
    terms: RunTerms,
    made: Sequence[SummarisedGroup],
    era: Era,
    chosen: ChosenBasis | None,
    rule: str = KIND,
) -> tuple[Counter[str], list[NewSummary | None]]:
    """Insert summaries and links, and archive the sources; the caller has locked them and writes the merges' rows.

    Args:
        era: The policy in force at the run's time.
        chosen: PCA basis for archived vectors.
        rule: Rule under which the archived sources are counted.

    Returns:
        Counts as returned by `write_merges`, and each group's summary.
    """
    tx, tenant_id = write.tx, write.tenant_id
    new_summaries = [
        None if group.summary is None else _new_summary(group.plan, group.summary, terms.as_of, era) for group in made
    ]
    summaries = [summary for summary in new_summaries if summary is not None]
    if summaries:
        write.insert(summaries)
        _archive_sources(write, [group.plan for group in made if group.summary is not None], terms, era, chosen, rule)
        ids = [summary.memory_id for summary in summaries]
        reminders.refresh_flags(tx, tenant_id, ids)
        word_index.index_words(tx, tenant_id, ids, era.policy.language, era.policy.time_zone)
    merged_memories.add_links(tx, tenant_id, _links(made, new_summaries))
    return _counted(made), new_summaries


def _archive_sources(
    write: MemoryWrite, plans: Sequence[GroupPlan], terms: RunTerms, era: Era, chosen: ChosenBasis | None, rule: str
) -> None:
    """Archive the merged sources in the same way as faded memories."""
    tx, tenant_id = write.tx, write.tenant_id
    sources = sorted(
        (plan.group.ids[position], plan.seen.strength[position]) for plan in plans for position in plan.taken_places
    )
    ids = [memory_id for memory_id, _ in sources]
    archive.deindex(tx, tenant_id, ids, era.policy, chosen)
    merged_memories.deindex(tx, tenant_id, ids)
    strength = np.array([value for _, value in sources])
    change = EventChange(terms.as_of.timestamp(), DECAY_TIERS.index("active"), DECAY_TIERS.index("archived"), strength)
    history.add(tx, tenant_id, "tier", ids, change)
    write.count(TierCounts(-len(ids), len(ids)), {("merged", rule): len(ids)})
    write.report(MERGED, ids)


def _new_summary(plan: GroupPlan, summary: Summary, as_of: datetime, era: Era) -> NewSummary:
    """Build the memory of a summary from the common properties and labels of its sources.

    Only this function decides which properties a summary inherits. A summary inherits all the sources' categories
    except never-forget ones, so that the strictest retention rules of the categories apply to it. Its `source`
    field is the least trusted of theirs.
    """
    sources = [plan.facts[position] for position in plan.taken_places]
    positions = np.array(plan.taken_places)
    state = plan.held.state
    kinds = np.unique(state.kind[positions])
    protection = era.policy.protection
    latest = max(sources, key=lambda fact: (fact.said_at, fact.seq))
    return NewSummary(
        memory_id=UUID(bytes=generate_base(int(as_of.timestamp() * 1000), os.urandom(RANDOM_BYTES))),
        seq=max(fact.seq for fact in sources),
        subject=sources[0].subject,
        thread=_common_value([fact.thread for fact in sources]),
        kind=_common_value([fact.kind for fact in sources]),
        text=summary.text,
        tags=_sort_labels((fact.tags for fact in sources), LABELS_MOST, protection.never_forget_tags),
        categories=_sort_labels((fact.categories for fact in sources), None, protection.never_forget_categories),
        entities=_sort_labels((fact.entities for fact in sources), LABELS_MOST),
        occurred_at=latest.occurred_at or datetime.fromtimestamp(latest.said_at, UTC),
        made_at=as_of,
        salience=float(state.salience[positions].max()),
        keep_chance=merge_chances(plan.keep[positions], state.salience[positions]),
        multiplier=float(state.multiplier[positions].max()),
        pace=float(state.pace[positions].min()),
        place=int(kinds[0]) if kinds.size == 1 else KINDS.index("episodic"),
        policy_version=era.version,
        source=as_stored(lowest(fact.source for fact in sources)),
    )


def _common_value(values: Sequence[str | None]) -> str | None:
    """Return the common value, or None if the values differ."""
    return values[0] if len(set(values)) == 1 else None


def _sort_labels(labels: Iterable[Sequence[str]], most: int | None, without: Sequence[str] = ()) -> list[str]:
    """Return up to `most` labels of all sources, most frequent first, without the labels in `without`."""
    frequency = Counter(label for source_labels in labels for label in source_labels if label not in without)
    return [label for label, _ in sorted(frequency.items(), key=lambda pair: (-pair[1], pair[0]))[:most]]


def _links(made: Sequence[SummarisedGroup], summaries: Sequence[NewSummary | None]) -> list[InsertedLink]:
    links: list[InsertedLink] = []
    for group, summary in zip(made, summaries, strict=True):
        ids, weight = group.plan.group.ids, min(max(group.plan.group.cohesion, 0.0), 1.0)
        if summary is not None:
            source_ids = set(group.plan.taken_ids)
            links += [
                InsertedLink(summary.memory_id, memory_id, SUMMARISES if memory_id in source_ids else SUPPORTS, weight)
                for memory_id in ids
            ]
        elif group.plan.form is None:
            links += [InsertedLink(first, other, RELATED, weight) for first in ids for other in ids if first != other]
    return links


def build_merge(
    merge_id: UUID, run_id: UUID, as_of: datetime, made: SummarisedGroup, summary: NewSummary | None
) -> Merge:
    """Build the row of a merge."""
    plan = made.plan
    action = plan.verdict.action
    if action is None:
        raise ValueError(merge_id)
    before = sum(len(plan.facts[position].text) for position in plan.taken_places)
    if summary is None or made.summary is None:
        status: Status = "waiting" if plan.verdict.waits else "done"
        return Merge(
            *(merge_id, run_id, action, status, plan.verdict.level, plan.group.cohesion, len(plan.taken_places), as_of),
            characters_before=before if plan.form else 0,
        )
    return Merge(
        *(merge_id, run_id, action, "done", plan.verdict.level, plan.group.cohesion, len(plan.taken_places), as_of),
        summary_id=summary.memory_id,
        summary_version=1,
        method=made.summary.method,
        model=made.summary.model,
        key_points=list(made.summary.key_points),
        characters_before=before,
        characters_after=len(summary.text),
    )


def list_parts(merge_ids: Sequence[UUID], made: Sequence[SummarisedGroup]) -> list[Ancestor]:
    """Return the memories of each merge, each with its part: source, linked or left unmerged."""
    ancestors = []
    for merge_id, group in zip(merge_ids, made, strict=True):
        plan, source_positions = group.plan, set(group.plan.taken_places)
        part: Part = "linked" if plan.form is None else "source"
        ancestors += [
            Ancestor(merge_id, fact.memory_id, fact.text_version, part if position in source_positions else "kept")
            for position, fact in enumerate(plan.facts)
        ]
    return ancestors


def _counted(made: Sequence[SummarisedGroup]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for group in made:
        if group.summary is None:
            counts["linked" if group.plan.form is None else "waiting"] += 1
            continue
        counts["summaries"] += 1
        counts["by_model"] += group.summary.method == "llm"
        counts["merged"] += len(group.plan.taken_places)
        counts["characters_before"] += sum(len(group.plan.facts[position].text) for position in group.plan.taken_places)
        counts["characters_after"] += len(group.summary.text)
    return counts
