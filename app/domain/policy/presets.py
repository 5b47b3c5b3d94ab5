"""Named presets of policy settings, as plain JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from app.domain.dynamics import cmm, memory_decay, mnemex, spec
from app.domain.strength import importance

_KEPT_ONCE_PROMOTED: Final = {"keeps": True}


def _mnemex(parameters: mnemex.MnemexParameters) -> dict[str, Any]:
    """Return a `mnemex` preset, which keeps promoted memories.

    It resets the deletion threshold, so that the preset's `forget_below` applies.
    """
    return {
        "forgetting": {"profile": "mnemex", "parameters": asdict(parameters)},
        "tiers": {"deleted_below": None},
        "promotion": _KEPT_ONCE_PROMOTED,
    }


_UNPROTECTED: Final[dict[str, Any]] = {
    "never_forget_tags": [],
    "never_forget_categories": [],
    "never_forget_kinds": [],
    "semantic_importance_above": 1.0,
    "uses_above": 1_000_000,
    "grace_days": 0.0,
    "grace_importance_above": 1.0,
    "grace_kinds": [],
    "salience_above": 1.0,
}
_NEVER_MOVED: Final = {"archived_below": 0.0, "cold_below": 0.0, "deleted_below": 0.0}
_ALL_FOUND: Final = {"by_search": True, "by_search_share": 0.0}


def _own_collection(forget_below: float) -> dict[str, Any]:
    """Return thresholds that keep a memory active until its score is below `forget_below`, and then delete it."""
    return {
        "archived_below": forget_below,
        "cold_below": forget_below,
        "deleted_below": None,
        "deleted_after_days": 0.0,
        "deleted_importance_below": 1.0,
        "deleted_uses_below": 1_000_000,
        "deleted_salience_below": 1.0,
    }


_SPEC: Final = asdict(spec.SpecParameters())
_AS_SPECIFIED: Final[dict[str, dict[str, Any]]] = {
    "as_specified": {
        "forgetting": {
            "profile": "spec",
            "parameters": {name: value for name, value in _SPEC.items() if name != "importance"},
        },
        "importance": asdict(importance.Importance()),
        "tiers": dict.fromkeys(_own_collection(0.0)) | {"deleted_salience_below": 1.0},
        "protection": dict.fromkeys(_UNPROTECTED) | {"salience_above": 1.0},
        "reinforcement": _ALL_FOUND,
    },
    "mnemex_as_specified": {
        "forgetting": {"profile": "mnemex", "parameters": asdict(mnemex.MnemexParameters())},
        "tiers": _own_collection(mnemex.MnemexParameters().forget_below),
        "protection": _UNPROTECTED,
        "promotion": _KEPT_ONCE_PROMOTED,
        "reinforcement": {"by_search": False},
    },
    "cmm_as_specified": {
        "forgetting": {"profile": "cmm", "parameters": asdict(cmm.CmmParameters(age_from="last_use"))},
        "tiers": _NEVER_MOVED,
        "protection": _UNPROTECTED,
        "reinforcement": _ALL_FOUND,
        "ranking": {"mode": "cmm"},
    },
    "memory_decay_as_specified": {
        "forgetting": {"profile": "memory_decay", "parameters": asdict(memory_decay.PRESETS["server"])},
        "tiers": _NEVER_MOVED,
        "protection": _UNPROTECTED,
        "reinforcement": _ALL_FOUND,
        "ranking": {"mode": "memory_decay"},
    },
}
"""The seeds as written. 004: its tiers without protection by salience; every result found counts as used. 000: a memory
is deleted when its score is below the threshold. 002 and 003: no moves; searches omit memories below a threshold."""

_CONTEXT: Final = (
    {"ranking": {"in_context": None}, "recall": {"by": None}},
    {"ranking": {"in_context": True}, "recall": {"by": "importance"}},
)
"""Fields for searches and recalls: importance without a context (reset to the defaults), or with a context."""

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
    **_AS_SPECIFIED,
}
"""Partial policies by name: use cases of mnemex (seed 000), ticks of memory_decay (003), weights of importance
(004), and each seed as written."""
