"""Named presets of policy settings, as plain JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from app.domain.dynamics import memory_decay, mnemex
from app.domain.strength import importance


def _mnemex(parameters: mnemex.MnemexParameters) -> dict[str, Any]:
    """Return a `mnemex` preset; it resets the deletion threshold, so that the preset's `forget_below` applies."""
    return {"forgetting": {"profile": "mnemex", "parameters": asdict(parameters)}, "tiers": {"deleted_below": None}}


_CONTEXT: Final = (
    {"ranking": {"in_context": None}, "recall": {"by": None}},
    {"ranking": {"in_context": True}, "recall": {"by": "importance"}},
)
"""Whether searches and recalls use importance with a context; a preset without it resets what another one has set."""

PRESETS: Final[dict[str, dict[str, Any]]] = {
    **{name: _mnemex(parameters) for name, parameters in mnemex.PRESETS.items()},
    **{
        f"memory_decay_{name}": {"forgetting": {"profile": "memory_decay", "parameters": asdict(parameters)}}
        for name, parameters in memory_decay.PRESETS.items()
    },
    **{
        name: {"importance": {"weights": asdict(weights)}} | _CONTEXT[name == "context_aware"]
        for name, weights in importance.PRESETS.items()
        if name != "default"
    },
}
"""Partial policies by name: use cases of mnemex (seed 000), ticks of memory_decay (003), weights of importance
(004)."""
