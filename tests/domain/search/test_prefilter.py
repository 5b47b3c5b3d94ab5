"""The selection of query words to look up among very many memories."""

from __future__ import annotations

import pytest

from app.domain.search.prefilter import worthwhile_words
from app.domain.search.terms import inverse_document_frequency

TOTAL = 100_000


def query(**documents: int) -> dict[str, float]:
    return {word: inverse_document_frequency(count, TOTAL) for word, count in documents.items()}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ({}, []),
        ({"rare": 10, "seldom": 100}, [("rare",), ("seldom",)]),
        ({"common": 50_000}, [("common",)]),
        ({"common": 50_000, "rare": 10}, [("rare",)]),
        ({"rare": 10, "usual": 900, "known": 950}, [("rare",), ("usual", "known")]),
        ({"rare": 500, "common": 50_000, "usual": 2_000}, [("rare",)]),
    ],
    ids=["none", "rare ones", "one at least", "rare before common", "common ones in pairs", "no pair of too many"],
)
def test_rare_words_are_worth_it_and_pairs_of_others(
    documents: dict[str, int], expected: list[tuple[str, ...]]
) -> None:
    assert worthwhile_words(query(**documents), TOTAL) == expected


def test_a_long_query_of_common_words_stays_small() -> None:
    documents = {f"w{n}": 900 + n for n in range(32)}
    chosen = worthwhile_words(query(**documents), TOTAL)
    assert chosen[0] == ("w0",)
    assert all(len(pair) == 2 for pair in chosen[1:])
    assert len(chosen) <= 1 + 28


def test_of_no_memories_nothing_fails() -> None:
    assert worthwhile_words({"word": 0.3}, 0) == [("word",)]
