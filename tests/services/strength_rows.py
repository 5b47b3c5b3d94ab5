"""Tenants with memories of every age, use and strength, written directly into their rows."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, State, new
from app.services.ingest import drain
from tests.service import Service, Tenant


def fill(service: Service, tenant: Tenant, dynamics: Dynamics, memories: int, seed: int = 7) -> None:
    """Give a tenant this many memories, anchored in the first version of its policy under this model."""
    ids = service.send(tenant.tenant_id, *(f"memory {number}" for number in range(memories)))
    drain.drain_streams()
    state = _states(dynamics, memories, seed)
    columns = [
        [int(kind) for kind in state.kind],
        state.salience.tolist(),
        state.multiplier.tolist(),
        state.access_count.astype(int).tolist(),
        state.created_at.tolist(),
        state.accessed_at.tolist(),
        state.anchored_at.tolist(),
        state.level.tolist(),
        state.retrieval.tolist(),
        state.stability.tolist(),
    ]
    service.rows(
        """
        UPDATE memory_state AS state SET kind = given.kind, salience = given.salience, multiplier = given.multiplier,
          access_count = given.uses, created_at = to_timestamp(given.created),
          accessed_at = to_timestamp(given.accessed), anchored_at = to_timestamp(given.anchored),
          level = given.level, retrieval = given.retrieval, stability = given.stability, policy_version = 1
        FROM unnest(%s::uuid[], %s::int[], %s::float8[], %s::float8[], %s::int[], %s::float8[], %s::float8[],
          %s::float8[], %s::float8[], %s::float8[], %s::float8[])
          AS given (
            memory_id, kind, salience, multiplier, uses, created, accessed, anchored, level, retrieval, stability)
        WHERE state.memory_id = given.memory_id
        """,
        ids,
        *columns,
    )
    service.rows(
        "UPDATE memories AS memory SET created_at = state.created_at FROM memory_state AS state "
        "WHERE state.memory_id = memory.memory_id"
    )


def _states(dynamics: Dynamics, memories: int, seed: int) -> State:
    random = np.random.default_rng(seed)
    created = np.round(time.time() - random.uniform(0, 150, memories) * DAY_SECONDS, 3)
    uses = np.floor(np.exp(random.uniform(0, 4, memories)) - 1)
    accessed = np.where(uses == 0, created, np.round(created + random.random(memories) * (time.time() - created), 3))
    state = new(
        created,
        salience=random.choice([0, 1, *random.random(9).astype(np.float32)], memories),
        kind=random.integers(0, 5, memories),
        multiplier=random.choice([0, 1, 1, 1, 2, 0.5], memories),
    )
    state = replace(state, access_count=uses, accessed_at=accessed, anchored_at=accessed)
    state = replace(state, stability=np.where(uses > 0, random.random(memories), 0))
    lifted = dynamics.at_strength(state, accessed, random.choice([1, 1, 0.9, 0.4, 0.2, 0.06], memories))
    return replace(lifted, retrieval=np.minimum(lifted.retrieval * random.uniform(0.9, 1, memories), 1))
