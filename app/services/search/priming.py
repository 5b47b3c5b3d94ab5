"""Priming: raise the scores of memories that recent turns of the same conversation found (cmm, seed 002)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import numpy.typing as npt
import structlog

from app.clients.redis.activation_cache import last_turns, record_activation
from app.clients.redis.connection import RedisError
from app.domain.dynamics import cmm
from app.domain.dynamics.cmm import CmmParameters
from app.domain.policy.policy import Policy
from app.domain.search.candidate_types import Candidate
from app.domain.search.request import SearchRequest, SearchResult
from app.domain.search.scoring import mode_parameters

log = structlog.get_logger(__name__)


def priming_factors(
    tenant_id: UUID, found: Sequence[Candidate], request: SearchRequest, policy: Policy
) -> npt.NDArray[np.float64] | None:
    """Return a score factor for each candidate; None if priming doesn't apply.

    Priming applies to turns of a session under the profile or ranking mode `cmm`, and requires Redis.
    """
    if (place := _session_turn(request, policy)) is None:
        return None
    session, turn = place
    try:
        turns_ago = turn - last_turns(tenant_id, session, [candidate.memory_id for candidate in found])
    except RedisError as error:
        log.warning("not_primed", tenant=str(tenant_id), error=type(error).__name__)
        return None
    return cmm.priming(mode_parameters(policy.known_parameters, CmmParameters), turns_ago)


def activate_results(tenant_id: UUID, results: Sequence[SearchResult], request: SearchRequest, policy: Policy) -> None:
    """Record the results of a session's turn under the profile or ranking mode `cmm`."""
    if (place := _session_turn(request, policy)) is None:
        return
    session, turn = place
    kept = mode_parameters(policy.known_parameters, CmmParameters).priming_turns
    try:
        record_activation(tenant_id, session, [result.id for result in results], turn, kept)
    except RedisError as error:
        log.warning("not_primed", tenant=str(tenant_id), error=type(error).__name__)


def _session_turn(request: SearchRequest, policy: Policy) -> tuple[str, int] | None:
    """Return the session and turn of a search; None if priming doesn't apply, such as with `as_of`."""
    if cmm.Cmm.name not in {policy.forgetting.profile, request.mode or policy.ranking.mode}:
        return None
    if request.session is None or request.turn is None or request.as_of is not None:
        return None
    return request.session, request.turn
