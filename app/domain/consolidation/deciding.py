"""What becomes of memories that belong together: seed 004's table (§3.3), or mnemex's cohesion; and what is kept.

What is kept in full wins over every action (§3.4): importance, never forget, a hold, the last days, one a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from app.domain.consolidation.parameters import Consolidation, Level
from app.domain.dynamics.ops import Floats

Action = Literal["link", "summary", "support", "narrative", "duplicates"]

LINKED_MOST: Final = 3
"""Groups up to this size are linked; larger ones are summarised."""
SUMMARISED_LEAST: Final = 2
"""Fewer than this aren't worth a summary."""
EVEN_SPACING: Final = 0.25
"""Moments are evenly spaced whose gaps deviate from their mean by at most this share of it."""
NO_THREAD: Final = -1


@dataclass(frozen=True, slots=True)
class Members:
    """The memories of a group at a moment; every array has shape (n,), in the order of their ids.

    Attributes:
        importance: Without a context, 0 to 1.
        age_days: Since each was accepted, or brought back.
        said_at: In seconds since 1970, as their callers said, else when they were accepted.
        threads: Equal numbers for equal threads; `NO_THREAD` for none.
        is_kept: Whether it is never forgotten, held, or was used after the moment.
        days: Equal numbers for equal local dates of the group's subject.
        on_day: How many memories of that subject and date are active, the group's included.
    """

    importance: Floats
    age_days: Floats
    said_at: Floats
    threads: npt.NDArray[np.integer[Any]]
    is_kept: npt.NDArray[np.bool_]
    days: npt.NDArray[np.integer[Any]]
    on_day: npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a group.

    Attributes:
        action: None where all stays as it is.
        level: How much shorter a summary shall be.
        taken: Which go into the summary, or are linked; shape (n,).
        waits: Whether somebody has to agree first.
        why: In words and numbers.
    """

    action: Action | None
    level: Level
    taken: npt.NDArray[np.bool_]
    waits: bool
    why: str


def decide(rules: Consolidation, members: Members, cohesion: float, level: Level, *, by_cohesion: bool) -> Verdict:
    """What becomes of a group.

    Args:
        rules: The policy's.
        members: The group, 2 or more.
        cohesion: Mean cosine of its pairs, -1 to 1.
        level: How much shorter summaries shall be.
        by_cohesion: Whether its cohesion decides, instead of the table.
    """
    asked = _by_cohesion(rules, members, cohesion, level) if by_cohesion else _by_table(rules, members, level)
    return asked if asked.action is None or asked.action == "link" else _spared(rules, members, asked)


def agreed(rules: Consolidation, members: Members, level: Level) -> Verdict:
    """What becomes of a group to whose merging somebody has said yes: what is kept in full stays kept."""
    every = np.ones(members.importance.shape, np.bool_)
    return _spared(rules, members, Verdict("duplicates", level, every, waits=False, why="agreed to"))


def _spared(rules: Consolidation, members: Members, asked: Verdict) -> Verdict:
    """The same without what is kept in full; nothing where too few are left."""
    taken = asked.taken & ~_preserved(rules, members)
    if rules.one_a_day:
        taken = _one_a_day(members, taken)
    count = int(taken.sum())
    if count < SUMMARISED_LEAST:
        none = np.zeros_like(taken)
        return Verdict(None, asked.level, none, waits=False, why=f"{asked.why}; {count} of them may be summarised")
    kept = int((~taken).sum())
    return Verdict(asked.action, asked.level, taken, asked.waits, f"{asked.why}; {kept} kept" if kept else asked.why)


def _by_cohesion(rules: Consolidation, members: Members, cohesion: float, level: Level) -> Verdict:
    every = np.ones(members.importance.shape, np.bool_)
    if cohesion >= rules.merged_from:
        return Verdict("duplicates", level, every, waits=False, why=f"cohesion {cohesion:.2f} >= {rules.merged_from}")
    if cohesion >= rules.asked_from:
        return Verdict("duplicates", level, every, waits=True, why=f"cohesion {cohesion:.2f} >= {rules.asked_from}")
    return Verdict(None, level, ~every, waits=False, why=f"cohesion {cohesion:.2f} < {rules.asked_from}")


def _by_table(rules: Consolidation, members: Members, level: Level) -> Verdict:
    """The first that matches: few, all low, some high, the rest."""
    importance, count = members.importance, members.importance.size
    every = np.ones(importance.shape, np.bool_)
    if count <= LINKED_MOST:
        return Verdict("link", level, every, waits=False, why=f"{count} memories")
    in_order: Action | None = "narrative" if is_sequence(members) else None
    told = f"{count} memories" + (" in a sequence" if in_order else "")
    if np.all(importance < rules.low_importance_below):
        why = f"{told}, all below {rules.low_importance_below}"
        return Verdict(in_order or "summary", level, every, waits=False, why=why)
    high = importance > rules.high_importance_above
    if high.any():
        why = f"{told}, {int(high.sum())} above {rules.high_importance_above}"
        return Verdict(in_order or "support", level, ~high, waits=False, why=why)
    is_old = bool(np.all(members.age_days > rules.summarise_after_days))
    why = f"{told}, none above {rules.high_importance_above}"
    why += f", all older than {rules.summarise_after_days:g} d" if is_old else ""
    return Verdict(in_order or "summary", level if is_old else "light", every, waits=False, why=why)


def is_sequence(members: Members) -> bool:
    """Whether memories are events one after another: turns of one thread, or evenly spaced in time."""
    if members.threads[0] != NO_THREAD and np.all(members.threads == members.threads[0]):
        return True
    gaps = np.diff(np.sort(members.said_at))
    return bool(gaps.min() > 0 and np.all(np.abs(gaps - gaps.mean()) <= EVEN_SPACING * gaps.mean()))


def _preserved(rules: Consolidation, members: Members) -> npt.NDArray[np.bool_]:
    important = members.importance > rules.keep_importance_above
    return np.asarray(members.is_kept | important | (members.age_days < rules.keep_days))


def _one_a_day(members: Members, taken: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Leave the most important of each day of which nothing else would be left, the first of those alike."""
    left = taken.copy()
    for day in np.unique(members.days[taken]):
        rows = np.flatnonzero(taken & (members.days == day))
        if rows.size >= members.on_day[rows[0]]:
            left[rows[np.argmax(members.importance[rows])]] = False
    return left
