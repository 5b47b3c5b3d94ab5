"""Convert the strength of imported memories to the forgetting model of their new tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics import state as states
from app.domain.dynamics.profiles import profile, rebase
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import State, choose
from app.domain.imports.items import GivenState
from app.domain.ingest.memory import KINDS, MemoryIn

_COLUMNS: Final = ("level", "retrieval", "stability")


def build_states(
    memories: Sequence[MemoryIn],
    given: Sequence[GivenState | None],
    dynamics: Dynamics,
    now: float,
    *,
    from_occurred: bool,
) -> State:
    """Return the states of imported memories, with the strength at `now` that their files state.

    Decay of a memory without a state begins now, or at `occurred_at` if `from_occurred` is true. A memory with uses and
    times but without strength decays from its last use, as if it had always been stored in this tenant.

    Args:
        memories: The memories, n of them.
        given: Their states in the file; times are at most `now`.
        dynamics: The tenant's forgetting model.
        now: Time of the upload, in seconds since 1970.
        from_occurred: Decay of new memories begins at `occurred_at`.
    """
    fresh = GivenState(now, now)
    starts = [min(memory.occurred_at.timestamp(), now) if memory.occurred_at else now for memory in memories]
    filled = [
        state or (GivenState(start, start) if from_occurred else fresh)
        for state, start in zip(given, starts, strict=True)
    ]
    created = _array([state.created_at for state in filled])
    accessed = _array([state.accessed_at for state in filled])
    state = states.new(
        created,
        salience=_single([memory.salience or 0.0 for memory in memories]),
        kind=np.array([0 if memory.kind is None else KINDS.index(memory.kind) for memory in memories]),
        multiplier=_single([1.0 if memory.multiplier is None else memory.multiplier for memory in memories]),
    )
    uses = _array([state.uses for state in filled])
    state = replace(state, access_count=uses, accessed_at=accessed, anchored_at=accessed)
    for model in {each.model for each in filled} - {None}:
        state = choose(
            _mask([each.model == model for each in filled]), _convert(model, state, filled, dynamics, now), state
        )
    has_strength = _mask([each.strength is not None for each in filled])
    if has_strength.any():
        strengths = _array([each.strength if each.strength is not None else 0.0 for each in filled])
        state = choose(has_strength, dynamics.at_strength(state, now, strengths), state)
    return state


def _convert(model: str | None, state: State, given: Sequence[GivenState], dynamics: Dynamics, now: float) -> State:
    """Return the states, converted at `now` from the source's model with its default parameters to `dynamics`."""
    source = profile(str(model))
    columns = {name: _array([getattr(each, name) for each in given]) for name in _COLUMNS}
    anchored_at = np.full_like(state.anchored_at, now) if model == "memory_decay" else state.anchored_at
    return rebase(replace(state, anchored_at=anchored_at, **columns), now, source, dynamics)


def promoted_at(given: Sequence[GivenState | None]) -> npt.NDArray[np.float64]:
    """Return the times of promotion in seconds since 1970, NaN for memories that weren't promoted."""
    return _array([np.nan if state is None or state.promoted_at is None else state.promoted_at for state in given])


def _array(values: Sequence[float]) -> npt.NDArray[np.float64]:
    return np.array(values, np.float64)


def _single(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return numbers rounded as the database stores them, so that a strength computed from them is exact."""
    return np.array(values, np.float32).astype(np.float64)


def _mask(values: Sequence[bool]) -> npt.NDArray[np.bool_]:
    return np.array(values, np.bool_)
