"""Priming: what the turns of a conversation have found lately counts more in its next searches (cmm, seed 002)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog

from app.clients.priming import activate, last_turns
from app.clients.redis import RedisError
from app.domain import retrieval
from app.domain.dynamics import cmm
from app.domain.policy import Policy
from app.domain.retrieval import Candidate, SearchRequest, SearchResult

log = structlog.get_logger(__name__)


def rank(tenant_id: UUID, found: Sequence[Candidate], request: SearchRequest, policy: Policy) -> list[SearchResult]:
    """The best of what a search has found, best first; primed where it is a turn of a session, under `cmm`.

    The results are activated by that turn. Without Redis nothing is primed.
    """
    model, session, turn = policy.model, request.session, request.turn
    if not isinstance(model, cmm.Cmm) or session is None or turn is None:
        return retrieval.rank(found, request, policy.ranking)
    results = None
    try:
        turns_ago = turn - last_turns(tenant_id, session, [candidate.memory_id for candidate in found])
        results = retrieval.rank(found, request, policy.ranking, cmm.priming(model.parameters, turns_ago))
        activate(tenant_id, session, [result.id for result in results], turn, model.parameters.priming_turns)
    except RedisError as error:
        log.warning("not_primed", tenant=str(tenant_id), error=type(error).__name__)
    return retrieval.rank(found, request, policy.ranking) if results is None else results
