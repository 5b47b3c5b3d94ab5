"""Read and change the parameters of decay by the names that memory-decay gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from app.domain.dynamics.memory_decay import MemoryDecay, MemoryDecayParameters
from app.errors import UNKNOWN_FIELD, Conflict, FieldError, Invalid
from app.services.strength import current_policy
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange

NAMES: Final = {
    "lambda_fact": "lambda_fact",
    "lambda_episode": "lambda_episode",
    "beta_fact": "beta_fact",
    "beta_episode": "beta_episode",
    "alpha": "impact_weight",
    "stability_weight": "stability_weight",
    "stability_decay": "stability_decay",
    "reinforcement_gain_direct": "gain_direct",
    "reinforcement_gain_assoc": "gain_associate",
    "stability_cap": "stability_cap",
    "retrieval_boost": "boost",
    "activation_weight": "retrieval_weight",
    "bm25_weight": "bm25_weight",
}
"""The profile's parameter by memory-decay's name."""
_THEIRS: Final = {ours: theirs for theirs, ours in NAMES.items()}


def read(tenant_id: UUID) -> dict[str, float]:
    """Return the parameters in force by memory-decay's names.

    Raises:
        Conflict: The tenant's policy no longer uses the profile `memory_decay`.
    """
    parameters = _parameters(tenant_id)
    return {theirs: float(getattr(parameters, ours)) for theirs, ours in NAMES.items()}


def change(tenant_id: UUID, given: Mapping[str, Any], actor: str) -> dict[str, float]:
    """Change parameters by a new version of the tenant's policy, and return all of them.

    Raises:
        Invalid: A name is unknown, or a value is out of range.
        Conflict: The tenant's policy no longer uses the profile `memory_decay`.
    """
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        known = ", ".join(NAMES)
        raise Invalid(errors=[FieldError(f"params.{name}", UNKNOWN_FIELD, None, known) for name in unknown])
    nulls = [FieldError(f"params.{name}", "must be a number") for name, value in given.items() if value is None]
    if nulls:  # null would reset the parameter to the profile's default
        raise Invalid(errors=nulls)
    _parameters(tenant_id)
    fields = {"forgetting": {"parameters": {NAMES[name]: value for name, value in given.items()}}}
    try:
        policy_versions.write_change(tenant_id, RequestedChange(fields), actor)
    except Invalid as refused:
        raise Invalid(errors=[_renamed(error) for error in refused.errors]) from None
    return read(tenant_id)


def _parameters(tenant_id: UUID) -> MemoryDecayParameters:
    policy = current_policy.read(tenant_id)
    if not isinstance(policy.model, MemoryDecay):
        raise Conflict(f"the tenant's policy uses the profile {policy.forgetting.profile!r}, not 'memory_decay'")
    return policy.model.parameters


def _renamed(error: FieldError) -> FieldError:
    name = error.field.rpartition(".")[2]
    return FieldError(f"params.{_THEIRS.get(name, name)}", error.message, error.value, error.limit)
