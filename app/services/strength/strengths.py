"""Strength of memories as it is: policies in their order, and inputs that change without rewriting the past."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.state import State
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.policy.policy import Policy
from app.domain.strength import importance
from app.domain.tiers import lifecycle
from app.domain.tiers.lifecycle import Decision, Rules, Standing
from app.domain.tiers.tiers import DECAY_TIERS, Seen, next_due_at
from app.store.core import database
from app.store.core.packed import kept
from app.store.memories import events
from app.store.memories.events import Change, EventKind
from app.store.strength import states
from app.store.strength.states import Held, Looks
from app.store.tenants import policies
from app.store.tiers import standings

# What the formulas take from a memory, and what of it has a history of its own.
_INPUTS: Final[tuple[EventKind, ...]] = ("kind", "salience", "multiplier", "pace")

# A day of a week: how late uses may come and still count as they would have without a sweep in between.
_TOLD_LATE: Final = 1 / 7


def timeline(tx: database.Transaction, tenant_id: UUID) -> Timeline:
    """The tenant's policies in the order of their days."""
    return timeline_of(policies.versions(tx, tenant_id))


def timeline_of(versions: Sequence[tuple[int, float, str]]) -> Timeline:
    """The same of policies that were read before."""
    return Timeline([_era(*version) for version in versions])


def eras(tx: database.Transaction, tenant_id: UUID) -> list[Era]:
    """All versions of the tenant's policy by number, those that never held too."""
    return [_era(*version) for version in policies.versions(tx, tenant_id)]


def pages(
    tenant_id: UUID, rows: int, rules: Sequence[Rules], subject: str | None = None, one_in: int = 1
) -> Iterator[tuple[Held, list[Standing]]]:
    """All of a tenant's memories, or those about a subject, so many at a time by id; each with its standings.

    Each page is a transaction of its own, so that none is open while it is worked on.

    Args:
        tenant_id: The tenant.
        rows: Memories in a page.
        rules: Of the policies that they are looked at under; a standing for each.
        subject: Only memories about this subject.
        one_in: Only one memory in so many, of all subjects.
    """
    after, full = UUID(int=0), True
    while full:
        with database.tenant(tenant_id) as tx:
            held = states.page(tx, tenant_id, after, rows, subject, one_in)
            found = {each: standings.read(tx, tenant_id, held.ids, each) for each in dict.fromkeys(rules)}
        if held.ids:
            yield held, [found[each] for each in rules]
            after = held.ids[-1]
        full = len(held) == rows


def brought(held: Held, times: Timeline, now: float) -> Held:
    """The same memories under the policy that holds at `now`; to be written with its version."""
    return replace(held, state=times.brought(held.state, held.versions, now))


def look(era: Era, state: State, now: float) -> Seen:
    """Strength and importance, without a context, of memories that were brought to this era."""
    return Seen(era.dynamics.strength(state, now), importance.importance(era.policy.importance, state, now))


def due_at(era: Era, state: State, now: float, seen: Seen, standing: Standing | None = None) -> Floats:
    """The first moment at which anything can happen to memories that were brought to this era, or a bound below it.

    Without their standing, what a use can't put off is left out: the ends of grace, age and expiry.
    """
    policy = era.policy
    steps = (policy.protection.semantic_importance_above, policy.protection.grace_importance_above)
    due = next_due_at(policy.tiers, policy.importance, era.dynamics, state, now, seen, steps=steps)
    return due if standing is None else np.minimum(due, lifecycle.fixed_due_at(policy.rules, standing, now, seen))


def decided(era: Era, state: State, now: float, standing: Standing) -> tuple[Seen, Decision]:
    """What memories that were brought to this era are like, and where each shall be kept."""
    seen = look(era, state, now)
    return seen, lifecycle.decide(era.policy.rules, standing, state, now, seen)


def write_uses(
    tx: database.Transaction,
    tenant_id: UUID,
    used: Held,
    era: Era,
    now: float,
    elsewhere: npt.NDArray[np.integer[Any]] | None = None,
) -> None:
    """Write memories that were used, or that a use has strengthened along links.

    A use mostly puts off what would happen next, so a bound stays one. But the memory may have been wanted in another
    tier, or under an older policy, its importance may have risen above a step from which it soon falls again, or its
    strength may fall faster than before: a factor that mnemex keeps until the next use can make a slow curve of an
    old one. Then the next sweep looks at it.

    Args:
        tx: The tenant's transaction, which has locked the rows.
        tenant_id: The tenant.
        used: With the new states, and with versions, tiers and bounds as the rows have them.
        era: Of `now`.
        now: Seconds since 1970.
        elsewhere: How many of the uses were in another domain; none where it is left out.
    """
    due = due_at(era, used.state, now, look(era, used.state, now))
    moved = (used.wanted_tiers > 0) | (used.versions != era.version)
    look_again: npt.NDArray[np.bool_] = moved | (kept(due) < used.next_due_at)
    states.write_uses(tx, tenant_id, used, era.version, elsewhere=elsewhere, look_again=look_again)


def settle(tx: database.Transaction, tenant_id: UUID, held: Held, times: Timeline, now: float) -> Counter[str]:
    """Bring memories that are locked to the policy that holds at `now`, and write where each shall be kept then.

    Anchors are written where the policy is another one, or the model goes by steps. Returns the tiers that are wanted
    now and weren't before, each with its count.
    """
    era = times.at(now)
    after = brought(held, times, now)
    is_stale = held.versions != era.version
    if math.isfinite(era.dynamics.refresh_seconds):
        # Not up to now: a use that is told of late shall find the anchor before it, however often this is done.
        told_by = now - _TOLD_LATE * era.dynamics.refresh_seconds
        after = replace(after, state=era.dynamics.advance(after.state, told_by))
        is_stale[:] = True
    standing = standings.read(tx, tenant_id, held.ids, era.policy.rules)
    seen, decision = decided(era, after.state, now, standing)
    looks = Looks(decision.tiers, due_at(era, after.state, now, seen, standing))
    stale, fresh = np.flatnonzero(is_stale), np.flatnonzero(~is_stale)
    due, tiers = looks.next_due_at[stale], looks.wanted_tiers[stale]
    states.write_anchors(tx, tenant_id, after.only(stale), era.version, due, tiers)
    states.write_looks(tx, tenant_id, [held.ids[row] for row in fresh], looks.only(fresh))
    moved = np.flatnonzero(looks.wanted_tiers != held.wanted_tiers)
    wanted = looks.wanted_tiers[moved]
    change = Change(now, held.wanted_tiers[moved], wanted, seen.strength[moved])
    events.add(tx, tenant_id, "wanted_tier", [held.ids[row] for row in moved], change)
    return Counter(DECAY_TIERS[tier] for tier in wanted)


@contextmanager
def changing(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Iterator[None]:
    """Whatever is changed inside of the inputs of these memories' strengths, strength now is the same before and after.

    What has faded so far stays as it was, and from now on they fade by the new inputs. Locks the rows in id order.
    A new multiplier alone changes the strength at once, since that is what it is for.
    """
    former = states.lock(tx, tenant_id, memory_ids)
    now = database.now(tx).timestamp()  # once nobody else writes them: whoever did may know a newer policy
    yield
    latter = states.read(tx, tenant_id, former.ids)
    if latter.ids != former.ids:  # one was deleted inside
        left = set(latter.ids)
        former = former.only(np.flatnonzero([memory_id in left for memory_id in former.ids]))
    altered = [getattr(former.state, name) != getattr(latter.state, name) for name in _INPUTS]
    places = np.flatnonzero(np.any(altered, axis=0))
    if not places.size:
        return
    times = timeline(tx, tenant_id)
    era = times.at(now)
    before, after = brought(former.only(places), times, now), latter.only(places)
    inputs = replace(after.state, multiplier=before.state.multiplier)
    settled = rebase(before.state, now, era.dynamics, era.dynamics, inputs)
    state = replace(settled, multiplier=after.state.multiplier)
    states.write_anchors(tx, tenant_id, replace(after, state=state), era.version)
    _note(tx, tenant_id, before, replace(after, state=state), era, now)


def _note(tx: database.Transaction, tenant_id: UUID, before: Held, after: Held, era: Era, now: float) -> None:
    """Enter into the history which inputs have changed; what a first score brings isn't a change."""
    strength = era.dynamics.strength(after.state, now)
    for name in _INPUTS:
        old, new = getattr(before.state, name), getattr(after.state, name)
        rows = np.flatnonzero((old != new) & before.is_scored)
        change = Change(now, old[rows], new[rows], strength[rows])
        events.add(tx, tenant_id, name, [after.ids[row] for row in rows], change)


@lru_cache(maxsize=1024)
def _era(version: int, since: float, body: str) -> Era:
    return Era(version, since, Policy.stored(body))
