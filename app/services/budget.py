"""Budgets: what models have cost a tenant today, and whether more may be spent."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal
from uuid import UUID

from app.clients.answers import Usage

Purpose = Literal["score", "embed", "query"]


class State(StrEnum):
    """How much of today's budget is left."""

    OK = "ok"
    SOFT = "soft"
    """Close to a hard limit: said in the log, `/metrics` and `/v1/usage`, nothing else."""
    HARD = "hard"
    """At a hard limit: no model is asked for this tenant until the next day in UTC."""


def state(tenant_id: UUID) -> State:  # noqa: ARG001
    """Whether models may be asked for this tenant now."""
    return State.OK


def spend(
    tenant_id: UUID, purpose: Purpose, model: str, usage: Usage, *, memories: int = 0, cache_hits: int = 0
) -> None:
    """Note what calls have cost, in a transaction of its own."""
