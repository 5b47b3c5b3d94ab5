"""Replay recorded searches under another policy, and fit ranking weights to the uses after each search. Read-only."""

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
from app.domain.policy import policy_diff
from app.domain.policy.policy import Policy
from app.domain.policy.policy_diff import FieldChange
from app.domain.search import policy_comparison, weight_fitting
from app.domain.search.candidate_types import CandidateStrength
from app.domain.search.policy_comparison import Comparison, ReplayedSearch
from app.domain.search.request import SearchRequest
from app.domain.search.search_record import (
    RESULTS_USUAL,
    effective_ranking,
    is_comparable,
    order_candidates,
    part_features,
)
from app.domain.search.weight_fitting import JudgedSearch, Proposal
from app.errors import Conflict, FieldError, Invalid
from app.services.search import candidate_strength
from app.services.search.ranking_input import CandidateSet
from app.services.search.search import gather_candidates, rank_gathered
from app.services.strength import memory_strength
from app.store.core import database
from app.store.search import recorded_searches, search_context
from app.store.search.recorded_searches import RecordedSearch
from app.store.search.search_context import SearchContext
from app.store.strength import states
from app.store.strength.states import StoredStates

SEARCHES_MAX: Final = recorded_searches.RECORDS_MAX
AGAIN_MAX: Final = 500
"""Maximum number of searches to repeat per replay; each is run twice."""
SECONDS_MAX: Final = 40.0
"""Time limit for repeating searches; clients time out after a minute."""
INDEXED: Final = frozenset({"language", "time_zone"})
"""Policy fields that change how memories are indexed; a replay can't show their effect."""
SELECTING: Final = frozenset({"ranking.context", "supersession.corrections"})
"""Policy fields that affect recorded values; a replay shows their effect only if it repeats the searches."""
DYNAMIC: Final = frozenset({"forgetting", "importance"})
"""Policy fields that change strength and importance, which are then recomputed as of now."""
_request_decoder = msgspec.json.Decoder(SearchRequest)
_AT_ANCHOR: Final = 0.0
"""A time before every anchor, with which `rebase` converts each memory as of its anchor."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The parameters of a replay.

    Attributes:
        changes: Policy fields to change, with their JSON values.
        preset: Name of a preset that is applied before the changes.
        searches: Maximum number of records, newest first.
        again: Repeat the searches on the current memories instead of ranking the recorded candidates.
    """

    changes: Mapping[str, Any]
    preset: str | None = None
    searches: int = 1000
    again: bool = False


@dataclass(frozen=True, slots=True)
class SearchReplay:
    """Recorded searches ranked under the policy in force and under a changed policy.

    Attributes:
        changes: Fields in which the changed policy differs.
        vitals: `recorded` if strength and importance were taken from each record, `present` if they were computed as of
            now. If the forgetting model differs, the changed model is applied from each memory's anchor on; the anchor
            is the time of the last change of its strength state.
        again: Whether the searches were repeated.
        left_out: Number of records that weren't compared, by reason.
        comparison: The comparison of the rankings.
        pairs: The two rankings of each compared search, oldest search first.
    """

    changes: list[FieldChange]
    vitals: str
    again: bool
    left_out: dict[str, int]
    comparison: Comparison
    pairs: list[ReplayedSearch]


@dataclass(frozen=True, slots=True)
class _Records:
    """A tenant's recorded searches, with the policy in force and the search context for replaying them."""

    policy: Policy
    around: SearchContext
    searches: list[RecordedSearch]
    left_out: Counter[str]


def replay_searches(tenant_id: UUID, wish: ReplayOptions) -> SearchReplay:
    """Rank the newest recorded searches under the policy in force and under a changed one.

    Raises:
        Conflict: The policy in force doesn't record searches.
        Invalid: The changed policy is invalid, or a replay can't show the effect of the changes.
        ProfileMissing: A forgetting model isn't installed.
    """
    records = _read(tenant_id, wish.searches)
    policy = policy_diff.amend_policy(records.policy, wish.changes, wish.preset)
    changes = policy_diff.list_differences(records.policy, policy)
    names = {change.field for change in changes}
    _check(names, again=wish.again)
    is_dynamic = any(name.partition(".")[0] in DYNAMIC for name in names)
    if wish.again:
        pairs = _repeat_searches(tenant_id, records, policy, is_dynamic=is_dynamic)
    else:
        pairs = _rank_recorded(tenant_id, records, policy, is_dynamic=is_dynamic)
    vitals = "present" if wish.again or is_dynamic else "recorded"
    left_out = {reason: count for reason, count in records.left_out.items() if count}
    return SearchReplay(changes, vitals, wish.again, left_out, policy_comparison.compare_policies(pairs), pairs)


def fit_ranking(tenant_id: UUID, most: int) -> Proposal:
    """Fit the policy's ranking weights to the uses that followed the newest recorded searches.

    Searches that set their own weights or mode are ignored.

    Raises:
        Conflict: The policy in force doesn't record searches, or its ranking mode isn't `hybrid`.
    """
    records = _read(tenant_id, most)
    if records.policy.ranking.mode != "hybrid":
        raise Conflict(f"weights are fitted for the mode hybrid; the policy's is {records.policy.ranking.mode}")
    judged = [
        _judge_results(search, records.policy)
        for search in records.searches
        if search.used and _is_the_policys(search, records.policy)
    ]
    return weight_fitting.propose_weights(judged, records.policy.ranking)


def _read(tenant_id: UUID, most: int) -> _Records:
    with database.tenant(tenant_id) as tx:
        around = search_context.read(tx, tenant_id)
        policy = memory_strength.build_timeline(around.policies).at(around.now).policy
        if not policy.record_searches:
            raise Conflict(
                "this tenant's searches aren't recorded: set record_searches=true in its policy, and replay them later"
            )
        searches, left_out = recorded_searches.list_newest(tx, tenant_id, most)
    return _Records(policy, around, searches, Counter(left_out))


def _check(names: set[str], *, again: bool) -> None:
    """Raise `Invalid` for changes whose effect the records can't show."""
    if unknown := sorted(names & INDEXED):
        reason = "changes how memories are indexed, which a replay doesn't do"
        raise Invalid(errors=[FieldError(f"policy.{name}", reason) for name in unknown])
    if not again and (stale := sorted(names & SELECTING)):
        reason = "changes numbers that were recorded: repeat the searches with `again`"
        raise Invalid(errors=[FieldError(f"policy.{name}", reason) for name in stale])


def _rank_recorded(tenant_id: UUID, read: _Records, policy: Policy, *, is_dynamic: bool) -> list[ReplayedSearch]:
    """Rank the recorded candidates under both policies."""
    present = _present_vitals(tenant_id, read, policy) if is_dynamic else None
    pairs = []
    for search in read.searches:
        candidates = search.candidates
        rankings = [
            effective_ranking(search.request, compared.ranking, has_vector=candidates.has_vector)
            for compared in (read.policy, policy)
        ]
        if not all(is_comparable(candidates, ranking) for ranking in rankings):
            read.left_out["parts_not_recorded"] += 1
            continue
        limit = search.request.get("limit", RESULTS_USUAL)
        before, after = (
            order_candidates(
                candidates, ranking, compared, None if present is None else present(search, place), shown=limit
            )
            for place, (ranking, compared) in enumerate(zip(rankings, (read.policy, policy), strict=True))
        )
        ids = candidates.memory_ids
        pairs.append(_pair(search, [ids[place] for place in before], [ids[place] for place in after]))
    return pairs


class _PresentStrength:
    """Look up the vitals of recorded candidates as of now: side 0 is the policy in force, side 1 the changed policy."""

    def __init__(self, ids: Sequence[UUID], sides: Sequence[CandidateStrength]) -> None:
        self._rows = {memory_id: row for row, memory_id in enumerate(ids)}
        self._sides = sides

    def __call__(self, search: RecordedSearch, side: int) -> CandidateStrength:
        rows = [self._rows[memory_id] for memory_id in search.candidates.memory_ids]
        vitals = self._sides[side]
        return CandidateStrength(
            **{field.name: getattr(vitals, field.name)[rows] for field in fields(CandidateStrength)}
        )


def _present_vitals(tenant_id: UUID, read: _Records, policy: Policy) -> _PresentStrength:
    """Compute the candidates' vitals as of now under both policies, and drop searches with removed candidates."""
    ids = {memory_id for search in read.searches for memory_id in search.candidates.memory_ids}
    with database.tenant(tenant_id) as tx:
        stored = states.read(tx, tenant_id, list(ids))
        around = search_context.read(tx, tenant_id)
    after = _vitals_under(policy, stored, around)
    existing = set(stored.ids)
    for search in list(read.searches):
        if not existing.issuperset(search.candidates.memory_ids):  # a candidate was removed after the records were read
            read.searches.remove(search)
            read.left_out["hidden_memories"] += 1
    return _PresentStrength(stored.ids, [candidate_strength.strengths_of_states(tenant_id, stored, around), after])


def _vitals_under(policy: Policy, stored: StoredStates, around: SearchContext) -> CandidateStrength:
    """Compute vitals as of now under a changed policy: memories decay by its forgetting model from their anchor on."""
    times, now = memory_strength.build_timeline(around.policies), around.now
    converted = memory_strength.advance_to_era(stored, times, now)
    rebased = rebase(converted.state, _AT_ANCHOR, times.at(now).dynamics, policy.model)
    return candidate_strength.compute_vitals(replace(converted, state=rebased), policy.importance, policy.model, now)


def _repeat_searches(tenant_id: UUID, read: _Records, policy: Policy, *, is_dynamic: bool) -> list[ReplayedSearch]:
    """Repeat searches under both policies, newest first, with the recorded vectors and terms; return oldest first."""
    pairs: list[ReplayedSearch] = []
    deadline = time.monotonic() + SECONDS_MAX
    for search in reversed(read.searches[-AGAIN_MAX:]):
        if time.monotonic() >= deadline:
            read.left_out["out_of_time"] += 1
            continue
        request = _request(search, read)
        if request is None:
            read.left_out["not_repeatable"] += 1
            continue
        before = _search_again(tenant_id, request, read.policy)
        after = _search_again(tenant_id, request, policy, is_dynamic=is_dynamic)
        pairs.append(_pair(search, before, after))
    read.left_out["beyond_the_most"] += max(len(read.searches) - AGAIN_MAX, 0)
    return pairs[::-1]


def _request(search: RecordedSearch, read: _Records) -> SearchRequest | None:
    """Rebuild the request of a recorded search; None if it has no vector of the search space or excluded a thread."""
    spaces = read.around.spaces
    space_id = spaces.searched.space_id if spaces else None
    if search.vector is None or search.space_id != space_id or "excludes_thread" in search.request:
        return None
    recorded = {name: value for name, value in search.request.items() if name not in {"rerank", "review_blend"}}
    values = {"query": " ".join(search.terms), "rerank": 0, "review_blend": 0.0, **recorded}
    request = _request_decoder.decode(msgspec.json.encode(values))
    vector = search.vector.astype(float).tolist()
    return msgspec.structs.replace(request, limit=100, vector=vector, subject=search.subject, thread=search.thread)


def _search_again(tenant_id: UUID, request: SearchRequest, policy: Policy, *, is_dynamic: bool = False) -> list[UUID]:
    gathered = gather_candidates(tenant_id, request, policy)
    if is_dynamic and gathered.found:
        gathered = replace(gathered, vitals=_changed_vitals(tenant_id, gathered))
    results, _ = rank_gathered(tenant_id, gathered, request)
    return [result.id for result in results]


def _changed_vitals(tenant_id: UUID, gathered: CandidateSet) -> CandidateStrength:
    """Compute the candidates' vitals under their set's policy; candidates that were removed since keep their vitals."""
    rows = {candidate.memory_id: row for row, candidate in enumerate(gathered.found)}
    with database.tenant(tenant_id) as tx:
        stored = states.read(tx, tenant_id, list(rows))
        around = search_context.read(tx, tenant_id)
    changed = _vitals_under(gathered.policy, stored, around)
    places = [rows[memory_id] for memory_id in stored.ids]
    columns = {field.name: getattr(gathered.vitals, field.name).copy() for field in fields(CandidateStrength)}
    for name, column in columns.items():
        column[places] = getattr(changed, name)
    return CandidateStrength(**columns)


def _pair(search: RecordedSearch, before: Sequence[UUID], after: Sequence[UUID]) -> ReplayedSearch:
    ids = search.candidates.memory_ids
    results = [ids[place] for place in search.results]
    return ReplayedSearch(search.search_id, before, after, results, frozenset(ids[place] for place in search.used))


def _is_the_policys(search: RecordedSearch, policy: Policy) -> bool:
    """Return whether a search used the policy's own weights and recorded every part that they need."""
    if not {"mode", "weights"}.isdisjoint(search.request):
        return False
    return is_comparable(search.candidates, policy.ranking)


def _judge_results(search: RecordedSearch, policy: Policy) -> JudgedSearch:
    """Return the features of the shown results, then of the other used candidates, with a mask of the used ones."""
    used = set(search.used)
    places = [*search.results, *sorted(used.difference(search.results))]
    rows = part_features(search.candidates, policy.ranking, policy)[places]
    return JudgedSearch(rows, np.array([place in used for place in places], bool))
