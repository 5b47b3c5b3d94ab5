"""Priming: raise the scores of memories that were results of recent turns of the same session (cmm, seed 002)."""

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
    if (session_turn := _session_turn(request, policy)) is None:
        return None
    session, turn = session_turn
    try:
        turns_ago = turn - last_turns(tenant_id, session, [candidate.memory_id for candidate in found])
    except RedisError as error:
        log.warning("not_primed", tenant=str(tenant_id), error=type(error).__name__)
        return None
    return cmm.priming(mode_parameters(policy.known_parameters, CmmParameters), turns_ago)


def activate_results(tenant_id: UUID, results: Sequence[SearchResult], request: SearchRequest, policy: Policy) -> None:
    """Record a turn's results in Redis, to prime the session's next turns; only under the profile or mode `cmm`."""
    if (session_turn := _session_turn(request, policy)) is None:
        return
    session, turn = session_turn
    priming_turns = mode_parameters(policy.known_parameters, CmmParameters).priming_turns
    try:
        record_activation(tenant_id, session, [result.id for result in results], turn, priming_turns)
    except RedisError as error:
        log.warning("not_primed", tenant=str(tenant_id), error=type(error).__name__)


def _session_turn(request: SearchRequest, policy: Policy) -> tuple[str, int] | None:
    """Return the session and turn of a search; None if priming doesn't apply, for instance to a search with `as_of`."""
    if cmm.Cmm.name not in {policy.forgetting.profile, request.mode or policy.ranking.mode}:
        return None
    if request.session is None or request.turn is None or request.as_of is not None:
        return None
    return request.session, request.turn
