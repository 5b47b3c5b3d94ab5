"""Terminal output shared by commands."""

from __future__ import annotations

from app.cli.core.output import until_none


def test_waiting_ends_when_nothing_is_left_or_nothing_moves() -> None:
    shown: list[float | None] = []

    def step(advance: float = 0, *, done: float | None = None, note: str = "") -> None:
        shown.append(done)

    left = iter([3, 1, 0])
    assert until_none(lambda: next(left), step, 60) == 0
    assert shown == [0, 2, 3]
    assert until_none(lambda: 3, step, 0) == 3
