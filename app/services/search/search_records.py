"""Record searches if the tenant's policy allows it, and add to the records which memories callers used afterwards.

The records serve `ebbing replay` only: a failure to write them is logged as a warning and doesn't affect the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import numpy as np
import structlog

from app.domain.ingest.uses import session_digest
from app.domain.search import correction_order, signals
from app.domain.search.request import SearchRequest, SearchResult
from app.domain.search.search_record import (
    BASES,
    CANDIDATES_MAX,
    COLUMNS,
    PARTS,
    VITALS,
    RecordedCandidates,
    order_candidates,
    request_fields,
    unit_weights,
)
from app.services.search.ranking_input import CandidateSet
from app.store.core import database
from app.store.search import recorded_searches
from app.store.search.recorded_searches import RecordedSearch

USED_WITHIN: Final = timedelta(hours=1)
"""Period after a search in which a reported use of a candidate is attributed to the search."""

log = structlog.get_logger(__name__)


class ReportedUse(NamedTuple):
    """A use reported by a caller: the memory, the digest of the session, and the time in seconds since 1970."""

    memory_id: UUID
    session: int
    at: float


def record_search(
    tenant_id: UUID,
    request: SearchRequest,
    gathered: CandidateSet,
    results: Sequence[SearchResult],
    searched_at: datetime,
) -> bool:
    """Record an answered search, and delete the oldest records beyond the limit.

    Searches without candidates aren't recorded, nor are searches that run while memories are being removed.

    Args:
        request: The request, which must have no `as_of`.
        results: The results as returned to the caller.
        searched_at: A time before the search began.

    Returns:
        Whether the search was recorded.
    """
    try:
        search = _record_of(tenant_id, request, gathered, results, searched_at)
        if not search.candidates.memory_ids:
            return False
        with database.tenant(tenant_id) as tx:
            if not recorded_searches.try_share(tx, tenant_id):
                return False
            added = recorded_searches.add(tx, tenant_id, search)
            recorded_searches.trim_records(tx, tenant_id)
    except database.DatabaseError as error:
        log.warning("search_not_recorded", tenant=str(tenant_id), error=type(error).__name__)
        return False
    return added


def attach_uses(tenant_id: UUID, used: Sequence[ReportedUse]) -> None:
    """Attribute uses reported by callers to the recorded searches that preceded them."""
    if not used:
        return
    try:
        with database.tenant(tenant_id) as tx:
            recorded_searches.attach_uses(
                tx,
                tenant_id,
                [use.memory_id for use in used],
                [use.session for use in used],
                [use.at for use in used],
                sessionless=session_digest(tenant_id, None),
                within=USED_WITHIN,
            )
    except database.DatabaseError as error:
        log.warning("uses_not_attached", tenant=str(tenant_id), error=type(error).__name__)


def _record_of(
    tenant_id: UUID,
    request: SearchRequest,
    gathered: CandidateSet,
    results: Sequence[SearchResult],
    searched_at: datetime,
) -> RecordedSearch:
    best = best_candidates(request, gathered)
    places = {memory_id: place for place, memory_id in enumerate(best.memory_ids)}
    probe = gathered.probe
    return RecordedSearch(
        search_id=uuid4(),
        searched_at=searched_at,
        session=session_digest(tenant_id, request.session),
        subject=request.subject,
        thread=request.thread,
        request=request_fields(request),
        space_id=probe.space_id if probe.has_vector else None,
        vector=probe.vector if probe.has_vector else None,
        terms=list(gathered.query.lexemes),
        candidates=best,
        results=[places[result.id] for result in results if result.id in places],
    )


def best_candidates(request: SearchRequest, gathered: CandidateSet) -> RecordedCandidates:
    """Return the top candidates in ranking order, with the values from which their scores are computed."""
    candidates = gathered.found
    bases = frozenset(name for name in BASES if getattr(gathered.ranking, name))
    has_vector = gathered.probe.has_vector
    ids = [candidate.memory_id for candidate in candidates]
    if not ids:
        return RecordedCandidates([], np.empty((len(COLUMNS), 0)), bases, has_vector)
    now = datetime.now(UTC).astimezone(ZoneInfo(gathered.policy.time_zone))
    parts = signals.compute_parts(candidates, request.query, unit_weights(gathered.ranking), now, gathered.soft_words)
    columns = [
        *(parts.by_name[name] for name in PARTS),
        np.array([candidate.cosine for candidate in candidates], np.float64),
        *(getattr(gathered.vitals, name) for name in VITALS),
    ]
    recorded = RecordedCandidates(ids, np.array(columns, np.float64), bases, has_vector)
    places = order_candidates(recorded, gathered.ranking, gathered.policy)
    if gathered.corrections and correction_order.asks_for_present(request):
        place_by_id = {ids[place]: place for place in places}
        pairs = correction_order.complete_pairs(
            gathered.corrections, {ids[place]: candidates[place] for place in places}
        )
        corrected_places = [(place_by_id[pair.newer], place_by_id[pair.older]) for pair in pairs]
        recorded = RecordedCandidates(ids, recorded.columns, bases, has_vector, corrected_places)
        places = order_candidates(recorded, gathered.ranking, gathered.policy, shown=request.limit)
    return recorded.only(places[:CANDIDATES_MAX])
