"""Do what the service does automatically over time: process pending work, and run nights. For simulations only.

Both functions act for the database of a simulation, which has no workers. Call them within `database.at`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.services.embedding import embed
from app.services.enrichment import index, score_by_rules
from app.services.night import night_run
from app.store.core import database
from app.store.enrichment import work_queue

_CLAIM: Final = 1000
_LEASE_SECONDS: Final = 600.0


class NightFailed(Exception):
    """Raised when a step of a simulated night fails; the message names the step and the error."""


def run_night(tenant_id: UUID, moment: datetime, steps: Sequence[str]) -> None:
    """Run these steps of a night to the end, all as of one moment.

    Raises:
        NightFailed: A step failed.
    """
    state: dict[str, Any] = {}
    finished = False
    while not finished:
        parameters = {"as_of": moment.isoformat(), "steps": list(steps)}
        step = night_run.run_job_slice(Job(uuid4(), tenant_id, night_run.KIND, parameters, state, None, 0))
        state, finished = step.state, step.finished
        if step.failure is not None:
            raise NightFailed(step.failure)


def process_pending(policy: Policy) -> None:
    """Index, embed and score by rules all pending memories; `policy` is the policy of the only tenant with work."""
    stages: tuple[tuple[str, Callable[[UUID, Sequence[UUID]], int]], ...] = (
        (work_queue.INDEX, lambda tenant_id, ids: index.index_memories(tenant_id, ids, policy)),
        (work_queue.EMBED, embed.embed_memories),
        (work_queue.SCORE, score_by_rules.score_memories),
    )
    for stage, process in stages:
        while True:
            with database.shared() as tx:
                claim = work_queue.claim(
                    tx, stage, claim_id=uuid4(), after=work_queue.NIL, limit=_CLAIM, lease_seconds=_LEASE_SECONDS
                )
            if claim is None:
                break
            process(claim.tenant_id, claim.memory_ids)
            with database.shared() as tx:
                work_queue.finish_claim(tx, claim)
