"""Memory of reference cycles is released on request, even while the collector waits for more of them."""

from __future__ import annotations

import gc
import weakref

from app.memory_release import release_unused


class Node:
    """An object that refers to itself, as frames and exceptions do through each other."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_collected() -> None:
    gc.disable()
    try:
        held = weakref.ref(Node())
        assert held() is not None
        release_unused()
        assert held() is None
    finally:
        gc.enable()
