"""The conformance trial for external models of forgetting; the built-in models pass it too."""

from __future__ import annotations

import pytest

from app.domain.dynamics.profiles import BUILT_IN, PROFILES, Profile
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.proving import Unfit, check, register
from app.domain.dynamics.spec import Spec, SpecParameters
from tests.domain.dynamics.batches import each_model


@each_model()
def test_every_model_that_comes_along_is_fit(dynamics: Dynamics) -> None:
    check(dynamics)


def test_a_name_is_taken_once() -> None:
    with pytest.raises(Unfit, match="a built-in profile"):
        register("spec", Profile(Spec, SpecParameters))
    with pytest.raises(Unfit, match="has the name 'spec'"):
        register("mine", Profile(Spec, SpecParameters))
    assert set(PROFILES) == BUILT_IN
