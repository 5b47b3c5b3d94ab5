"""Priming: what the turns of a conversation have found lately counts more in its next searches (cmm, seed 002)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import numpy.typing as npt
import structlog

from app.clients.priming import activate as remember
from app.clients.priming import last_turns
from app.clients.redis import RedisError
from app.domain.dynamics import cmm
from app.domain.policy import Policy
from app.domain.retrieval.candidates import Candidate
from app.domain.retrieval.request import SearchRequest, SearchResult

log = structlog.get_logger(__name__)


def factors(
    tenant_id: UUID, found: Sequence[Candidate], request: SearchRequest, policy: Policy
) -> npt.NDArray[np.float64] | None:
    """Factor for the score of each memory that a search has found; None where nothing is primed.

    Only turns of a session are, under `cmm`. Without Redis nothing is.
    """
    if (place := _place(request, policy)) is None:
        return None
    session, turn = place
    try:
        turns_ago = turn - last_turns(tenant_id, session, [candidate.memory_id for candidate in found])
    except RedisError as error:
        log.warning("not_primed", tenant=str(tenant_id), error=type(error).__name__)
        return None
    return cmm.priming(policy.model.parameters, turns_ago)


def activate(tenant_id: UUID, results: Sequence[SearchResult], request: SearchRequest, policy: Policy) -> None:
    """Note what a turn of a session has shown, under `cmm`."""
    if (place := _place(request, policy)) is None:
        return
    session, turn = place
    try:
        remember(tenant_id, session, [result.id for result in results], turn, policy.model.parameters.priming_turns)
    except RedisError as error:
        log.warning("not_primed", tenant=str(tenant_id), error=type(error).__name__)


def _place(request: SearchRequest, policy: Policy) -> tuple[str, int] | None:
    """Session and turn of a search; None where nothing is primed."""
    if policy.forgetting.profile != cmm.Cmm.name or request.session is None or request.turn is None:
        return None
    return request.session, request.turn
