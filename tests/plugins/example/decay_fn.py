"""Decay down to a floor that rises with importance: load this file with `EBBING_DYNAMICS_FILES=gentle=decay_fn.py`."""

from __future__ import annotations

import math


def compute_decay(activation: float, impact: float, stability: float, mtype: str, params: dict[str, float]) -> float:
    """Return the activation after a tick, never below `floor` (which a policy may set) times the impact."""
    rate = params[f"lambda_{mtype}"] / ((1 + params["alpha"] * impact) * (1 + params["stability_weight"] * stability))
    floor = min(params.get("floor", 0.0) * impact, activation)
    return floor + (activation - floor) * math.exp(-rate)
