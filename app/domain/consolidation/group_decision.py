"""Choose the action for a group of similar memories, by seed 004's table (§3.3) or by mnemex's cohesion rule.

Preserved memories (§3.4) are only ever linked: memories that are important, marked as never to be forgotten, under a
legal hold or recent, and one memory per day and subject. Memories that the policy protects from decay are merged only
in groups that say nearly the same, because a merge loses details and archives memories that decay may not archive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from app.domain.consolidation.parameters import Consolidation, Level
from app.domain.dynamics.ops import Floats

Action = Literal["link", "summary", "support", "narrative", "duplicates"]

LINKED_MOST: Final = 3
"""Groups up to this size are linked; larger ones are summarised."""
SUMMARISED_LEAST: Final = 2
"""Minimum number of memories for a summary."""
EVEN_SPACING: Final = 0.25
"""Maximum deviation of each gap from the mean gap, as a share of the mean, for times to count as evenly spaced."""
NO_THREAD: Final = -1


@dataclass(frozen=True, slots=True)
class Members:
    """The memories of a group as of a moment; every array has shape (n,), in id order.

    Attributes:
        importance: Importance without a context, 0 to 1.
        age_days: Days since each memory was accepted or restored.
        said_at: Seconds since 1970: the caller's timestamp, or the time of acceptance if there is none.
        threads: Equal numbers for equal threads; `NO_THREAD` for none.
        is_kept: The memory is marked as never to be forgotten, is under a legal hold, or was used after that moment.
        is_protected: Its salience or keep chance protects the memory from decay.
        days: Equal numbers for equal local dates of the group's subject.
        on_day: Number of active memories with the same subject and date, including the group's.
    """

    importance: Floats
    age_days: Floats
    said_at: Floats
    threads: npt.NDArray[np.integer[Any]]
    is_kept: npt.NDArray[np.bool_]
    is_protected: npt.NDArray[np.bool_]
    days: npt.NDArray[np.integer[Any]]
    on_day: npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """Action chosen for a group.

    Attributes:
        action: None to leave the group unchanged.
        level: Compression level of the summary.
        taken: True for the members that the action applies to; shape (n,).
        waits: The action needs approval first.
        why: The reason, in words and numbers.
    """

    action: Action | None
    level: Level
    taken: npt.NDArray[np.bool_]
    waits: bool
    why: str


def decide_group(
    rules: Consolidation, members: Members, cohesion: float, level: Level, *, by_cohesion: bool
) -> GroupVerdict:
    """Choose the action for a group.

    Args:
        rules: The policy's consolidation settings.
        members: The group, two or more memories.
        cohesion: Mean cosine of the group's pairs, -1 to 1.
        level: Compression level of summaries.
        by_cohesion: Decide by cohesion instead of the table.
    """
    verdict = _by_cohesion(rules, members, cohesion, level) if by_cohesion else _by_table(rules, members, level)
    if verdict.action is None or verdict.action == "link":
        return verdict
    if cohesion < rules.merged_from:
        members = replace(members, is_kept=members.is_kept | members.is_protected)
    return _spare_preserved(rules, members, verdict)


def approve_verdict(rules: Consolidation, members: Members, level: Level) -> GroupVerdict:
    """Return the verdict for a group whose merge was approved; preserved memories are still left out."""
    all_members = np.ones(members.importance.shape, np.bool_)
    return _spare_preserved(rules, members, GroupVerdict("duplicates", level, all_members, waits=False, why="approved"))


def _spare_preserved(rules: Consolidation, members: Members, asked: GroupVerdict) -> GroupVerdict:
    """Return the verdict without preserved memories, or without an action if too few remain."""
    taken = asked.taken & ~_preserved(rules, members)
    if rules.one_a_day:
        taken = _one_a_day(members, taken)
    count = int(taken.sum())
    if count < SUMMARISED_LEAST:
        none = np.zeros_like(taken)
        return GroupVerdict(
            None, asked.level, none, waits=False, why=f"{asked.why}; only {count} of them may be summarised"
        )
    spared = int((~taken).sum())
    return replace(asked, taken=taken, why=f"{asked.why}; {spared} preserved" if spared else asked.why)


def _by_cohesion(rules: Consolidation, members: Members, cohesion: float, level: Level) -> GroupVerdict:
    """Merge the group from a cohesion of `merged_from` on, and propose its merge from `asked_from` on."""
    all_members = np.ones(members.importance.shape, np.bool_)
    for least, waits in ((rules.merged_from, False), (rules.asked_from, True)):
        if cohesion >= least:
            return GroupVerdict(
                "duplicates", level, all_members, waits=waits, why=f"cohesion {cohesion:.2f} >= {least}"
            )
    return GroupVerdict(None, level, ~all_members, waits=False, why=f"cohesion {cohesion:.2f} < {rules.asked_from}")


def _by_table(rules: Consolidation, members: Members, level: Level) -> GroupVerdict:
    """Apply the first matching row of the table: few members, all unimportant, some important, others."""
    importance, count = members.importance, members.importance.size
    all_members = np.ones(importance.shape, np.bool_)
    if count <= LINKED_MOST:
        return GroupVerdict("link", level, all_members, waits=False, why=f"{count} memories")
    narrative: Action | None = "narrative" if is_sequence(members) else None
    description = f"{count} memories" + (" in a sequence" if narrative else "")
    if np.all(importance < rules.low_importance_below):
        why = f"{description}, all below {rules.low_importance_below}"
        return GroupVerdict(narrative or "summary", level, all_members, waits=False, why=why)
    high = importance > rules.high_importance_above
    if high.any():
        why = f"{description}, {int(high.sum())} above {rules.high_importance_above}"
        return GroupVerdict(narrative or "support", level, ~high, waits=False, why=why)
    is_old = bool(np.all(members.age_days > rules.summarise_after_days))
    why = f"{description}, none above {rules.high_importance_above}"
    why += f", all older than {rules.summarise_after_days:g} d" if is_old else ""
    return GroupVerdict(narrative or "summary", level if is_old else "light", all_members, waits=False, why=why)


def is_sequence(members: Members) -> bool:
    """Return whether memories form a sequence of events: all in one thread, or evenly spaced in time."""
    if members.threads[0] != NO_THREAD and np.all(members.threads == members.threads[0]):
        return True
    gaps = np.diff(np.sort(members.said_at))
    return bool(gaps.min() > 0 and np.all(np.abs(gaps - gaps.mean()) <= EVEN_SPACING * gaps.mean()))


def _preserved(rules: Consolidation, members: Members) -> npt.NDArray[np.bool_]:
    important = members.importance > rules.keep_importance_above
    return np.asarray(members.is_kept | important | (members.age_days < rules.keep_days))


def _one_a_day(members: Members, taken: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Exempt the most important memory of each day that would otherwise lose all of its memories."""
    remaining = taken.copy()
    for day in np.unique(members.days[taken]):
        rows = np.flatnonzero(taken & (members.days == day))
        if rows.size >= members.on_day[rows[0]]:
            remaining[rows[np.argmax(members.importance[rows])]] = False
    return remaining
