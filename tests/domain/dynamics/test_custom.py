"""Custom decay functions: which parameters they receive."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from app.domain.dynamics.custom import CustomParameters, custom
from app.domain.dynamics.memory_decay import SoftFloor
from app.domain.dynamics.state import DAY_SECONDS, new

START = 1_760_000_000.0
RATES = {"exponential": 0.9, "power_law": 0.8, "soft_floor": 0.7}


def compute_decay(activation: float, _impact: float, _stability: float, _mtype: str, params: dict[str, Any]) -> float:
    """Keep a share of the activation that depends on `curve`, and at least `soft_floor.lowest`."""
    lowest: float = params["soft_floor"]["lowest"]
    return max(activation * RATES[params["curve"]], min(activation, lowest))


@pytest.mark.parametrize("curve", RATES)
def test_a_function_decides_what_the_curve_and_its_floor_mean(curve: Any) -> None:
    model = custom("own", compute_decay)(CustomParameters(curve=curve, soft_floor=SoftFloor(lowest=0.6, highest=0.6)))
    state = new(np.array([START]))
    after = [float(model.strength(state, START + days * DAY_SECONDS)[0]) for days in (1, 30)]
    assert after == pytest.approx([RATES[curve], 0.6])


def test_a_function_receives_every_parameter() -> None:
    received: dict[str, Any] = {}

    def noted(activation: float, _impact: float, _stability: float, _mtype: str, params: dict[str, Any]) -> float:
        received.update(params)
        return activation

    custom("own", noted)(CustomParameters(settings={"mine": 3.0}))
    assert {field.name for field in fields(CustomParameters)} - {"settings"} | {"mine"} <= received.keys()
