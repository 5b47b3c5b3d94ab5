"""Any embedder's vectors fit the search, and no transaction stays open during its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import QueuePool

from app.domain.text.embedding_input import MemoryText
from app.store.core import database
from tests.services.stored_memories import Shelf, shelf

__all__ = ["shelf"]


class Letters:
    """An embedder that counts a, b and c: vectors of any length.

    Fails if a database connection is in use during a call.
    """

    model = "letters"
    dimensions = 3
    normalised = False
    priced_as = None

    def embed_memories(self, batch: Sequence[MemoryText], _: object) -> NDArray[np.float32]:
        return np.array([self._count(memory.text) for memory in batch], dtype=np.float32)

    def embed_query(self, text: str, idf: Mapping[str, float], _: object) -> NDArray[np.float32]:
        assert all(rarity > 0 for rarity in idf.values())
        return self._count(text)

    def _count(self, text: str) -> NDArray[np.float32]:
        pool = database.engine("ebbing_app").pool
        assert isinstance(pool, QueuePool)
        assert pool.checkedout() == 0
        return np.array([text.count(letter) for letter in "abc"], dtype=np.float32)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.embedding.spaces.embedder", Letters)
    # Only the bundled embedder may compute query vectors within a transaction.
    monkeypatch.setattr("app.services.embedding.spaces.BUNDLED", "another")


def test_vectors_of_any_length_are_compared_by_direction(shelf: Shelf, letters: None) -> None:
    shelf.put("long", "aaaaaaaa bbbbbbbb")
    shelf.put("short", "a")
    assert shelf.embed() == 2
    assert shelf.search_ids("aa", mode="dense") == ["short", "long"]
    assert shelf.search_ids("bb", mode="dense") == ["long"]
