"""Replay recorded searches under another policy, and fit weights to what was used after them; nothing is written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np

from app.domain.dynamics.profiles import rebase
from app.domain.policy import amendment
from app.domain.policy.amendment import FieldChange
from app.domain.policy.policy import Policy
from app.domain.search import comparing, fitting
from app.domain.search.candidates import Vitals
from app.domain.search.comparing import Comparison, Pair
from app.domain.search.fitting import Judged, Proposal
from app.domain.search.recorded import RESULTS_USUAL, effective_ranking, features, is_comparable, order
from app.domain.search.request import SearchRequest
from app.errors import Conflict, FieldError, Invalid
from app.services.search import search as searching
from app.services.search import vitals
from app.services.strength import strengths
from app.store.core import database
from app.store.search import circumstances, searches
from app.store.search.circumstances import Circumstances
from app.store.search.searches import Search
from app.store.strength import states

SEARCHES_MAX: Final = searches.RECORDS_MAX
AGAIN_MAX: Final = 500
"""Searches that are repeated at once: each costs two searches."""
SECONDS_MAX: Final = 40.0
"""For repeating searches; clients wait for a minute."""
INDEXED: Final = frozenset({"language", "time_zone"})
"""Fields that change how memories are indexed: no replay shows what they do."""
SELECTING: Final = frozenset({"ranking.context", "supersession.corrections"})
"""Fields that change numbers that records hold: a search has to be repeated for them."""
DYNAMIC: Final = frozenset({"forgetting", "importance"})
"""Fields that change strength and importance, which are then worked out as of now."""
_request_decoder = msgspec.json.Decoder(SearchRequest)
_AT_ANCHOR: Final = 0.0
"""A moment before every anchor, which stands for the anchor."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A request for a replay.

    Attributes:
        changes: Fields of the policy that would be others, as JSON has them.
        preset: Name of a preset, which goes before them.
        searches: The newest records, at most so many.
        again: Repeat the searches on today's memories instead of ranking the recorded candidates.
    """

    changes: Mapping[str, Any]
    preset: str | None = None
    searches: int = 1000
    again: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """Recorded searches under the policy in force and another one.

    Attributes:
        changes: What the other policy has otherwise.
        vitals: `recorded` where strength and importance are those of each search's time, `present` where they were
            worked out as of now: under the other policy as if its model of forgetting had held since the last use of
            each memory.
        again: Whether the searches were repeated.
        left_out: Records that weren't compared, by reason.
        comparison: The others.
        pairs: Their rankings, oldest first.
    """

    changes: list[FieldChange]
    vitals: str
    again: bool
    left_out: dict[str, int]
    comparison: Comparison
    pairs: list[Pair]


@dataclass(frozen=True, slots=True)
class _Records:
    """A tenant's records, with the circumstances that they are replayed in."""

    policy: Policy
    around: Circumstances
    searches: list[Search]
    left_out: Counter[str]


def replay(tenant_id: UUID, wish: Wish) -> Replay:
    """Rank the newest recorded searches by the policy in force and by another one.

    Raises:
        Conflict: The policy in force records no searches.
        Invalid: The changes make no policy, or a replay can't show what they do.
        ProfileMissing: A model of forgetting isn't installed.
    """
    read = _read(tenant_id, wish.searches)
    policy = amendment.amended(read.policy, wish.changes, wish.preset)
    changes = amendment.differences(read.policy, policy)
    names = {change.field for change in changes}
    _check(names, again=wish.again)
    is_dynamic = any(name.partition(".")[0] in DYNAMIC for name in names)
    if wish.again:
        pairs = _repeated(tenant_id, read, policy)
    else:
        pairs = _ranked(tenant_id, read, policy, is_dynamic=is_dynamic)
    shown = "present" if wish.again or is_dynamic else "recorded"
    left_out = {reason: count for reason, count in read.left_out.items() if count}
    return Replay(changes, shown, wish.again, left_out, comparing.compare(pairs), pairs)


def fit(tenant_id: UUID, most: int) -> Proposal:
    """Fit the policy's weights to what callers used after the newest recorded searches.

    Searches with weights or a mode of their own are left out.

    Raises:
        Conflict: The policy in force records no searches, or ranks by another mode than `hybrid`.
    """
    read = _read(tenant_id, most)
    if read.policy.ranking.mode != "hybrid":
        raise Conflict(f"weights are fitted for the mode hybrid; the policy's is {read.policy.ranking.mode}")
    judged = [_judged(each, read.policy) for each in read.searches if each.used and _is_the_policys(each, read.policy)]
    return fitting.propose(judged, read.policy.ranking)


def _read(tenant_id: UUID, most: int) -> _Records:
    with database.tenant(tenant_id) as tx:
        around = circumstances.read(tx, tenant_id)
        policy = strengths.timeline_of(around.policies).at(around.now).policy
        if not policy.record_searches:
            raise Conflict(
                "this tenant's searches aren't recorded: set record_searches=true in its policy, and replay them later"
            )
        found, left_out = searches.newest(tx, tenant_id, most)
    return _Records(policy, around, found, Counter(left_out))


def _check(names: set[str], *, again: bool) -> None:
    """Refuse changes whose effect no record shows."""
    if unknown := sorted(names & INDEXED):
        reason = "changes how memories are indexed, which a replay doesn't do"
        raise Invalid(errors=[FieldError(f"policy.{name}", reason) for name in unknown])
    if not again and (stale := sorted(names & SELECTING)):
        reason = "changes numbers that were recorded: repeat the searches with `again`"
        raise Invalid(errors=[FieldError(f"policy.{name}", reason) for name in stale])


def _ranked(tenant_id: UUID, read: _Records, policy: Policy, *, is_dynamic: bool) -> list[Pair]:
    """Rank the recorded candidates by both policies."""
    present = _present_vitals(tenant_id, read, policy) if is_dynamic else None
    pairs = []
    for search in read.searches:
        candidates = search.candidates
        rankings = [
            effective_ranking(search.request, each.ranking, has_vector=candidates.has_vector)
            for each in (read.policy, policy)
        ]
        if not all(is_comparable(candidates, ranking) for ranking in rankings):
            read.left_out["parts_not_recorded"] += 1
            continue
        limit = search.request.get("limit", RESULTS_USUAL)
        before, after = (
            order(candidates, ranking, each, None if present is None else present(search, place), shown=limit)
            for place, (ranking, each) in enumerate(zip(rankings, (read.policy, policy), strict=True))
        )
        ids = candidates.memory_ids
        pairs.append(_pair(search, [ids[place] for place in before], [ids[place] for place in after]))
    return pairs


class _PresentVitals:
    """Strength and the like of the candidates as of now, under either policy."""

    def __init__(self, ids: Sequence[UUID], sides: Sequence[Vitals]) -> None:
        self._rows = {memory_id: row for row, memory_id in enumerate(ids)}
        self._sides = sides

    def __call__(self, search: Search, side: int) -> Vitals:
        rows = [self._rows[memory_id] for memory_id in search.candidates.memory_ids]
        held = self._sides[side]
        return Vitals(**{field.name: getattr(held, field.name)[rows] for field in fields(Vitals)})


def _present_vitals(tenant_id: UUID, read: _Records, policy: Policy) -> _PresentVitals:
    """Read the candidates' states; under the other policy, they have faded by its model since their last use."""
    ids = {memory_id for search in read.searches for memory_id in search.candidates.memory_ids}
    with database.tenant(tenant_id) as tx:
        held = states.read(tx, tenant_id, list(ids))
        around = circumstances.read(tx, tenant_id)
    times, now = strengths.timeline_of(around.policies), around.now
    brought = strengths.brought(held, times, now)
    faded = rebase(brought.state, _AT_ANCHOR, times.at(now).dynamics, policy.model)
    after = vitals.measured(replace(brought, state=faded), policy.importance, policy.model, now)
    there = set(held.ids)
    for search in list(read.searches):
        if not there.issuperset(search.candidates.memory_ids):  # removed since the records were read
            read.searches.remove(search)
            read.left_out["hidden_memories"] += 1
    return _PresentVitals(held.ids, [vitals.seen(tenant_id, held, around), after])


def _repeated(tenant_id: UUID, read: _Records, policy: Policy) -> list[Pair]:
    """Search again by the recorded vectors and terms, under both policies, the newest first."""
    pairs: list[Pair] = []
    until = time.monotonic() + SECONDS_MAX
    for search in reversed(read.searches[-AGAIN_MAX:]):
        if time.monotonic() >= until:
            read.left_out["out_of_time"] += 1
            continue
        request = _request(search, read)
        if request is None:
            read.left_out["not_repeatable"] += 1
            continue
        before, after = (_searched(tenant_id, request, each) for each in (read.policy, policy))
        pairs.append(_pair(search, before, after))
    read.left_out["beyond_the_most"] += max(len(read.searches) - AGAIN_MAX, 0)
    return pairs[::-1]


def _request(search: Search, read: _Records) -> SearchRequest | None:
    """Return the recorded search as a request; None where its vector is of another space, or it excluded a thread."""
    spaces = read.around.spaces
    space_id = spaces.searched.space_id if spaces else None
    if search.vector is None or search.space_id != space_id or "excludes_thread" in search.request:
        return None
    given = {name: value for name, value in search.request.items() if name not in {"rerank", "review_blend"}}
    fields_given = {"query": " ".join(search.terms), "rerank": 0, "review_blend": 0.0, **given}
    asked = _request_decoder.decode(msgspec.json.encode(fields_given))
    vector = search.vector.astype(float).tolist()
    return msgspec.structs.replace(asked, limit=100, vector=vector, subject=search.subject, thread=search.thread)


def _searched(tenant_id: UUID, request: SearchRequest, policy: Policy) -> list[UUID]:
    gathered = searching.gather(tenant_id, request, policy)
    results, _ = searching.ranked(tenant_id, gathered, request)
    return [result.id for result in results]


def _pair(search: Search, before: Sequence[UUID], after: Sequence[UUID]) -> Pair:
    ids = search.candidates.memory_ids
    results = [ids[place] for place in search.results]
    return Pair(search.search_id, before, after, results, frozenset(ids[place] for place in search.used))


def _is_the_policys(search: Search, policy: Policy) -> bool:
    """Return whether a search ranked by the policy's own weights, and by parts that they all have."""
    if not {"mode", "weights"}.isdisjoint(search.request):
        return False
    return is_comparable(search.candidates, policy.ranking)


def _judged(search: Search, policy: Policy) -> Judged:
    """Return the results in the order of the answer, then what else was used."""
    used = set(search.used)
    places = [*search.results, *sorted(used.difference(search.results))]
    rows = features(search.candidates, policy.ranking, policy)[places]
    return Judged(rows, np.array([place in used for place in places], bool))
