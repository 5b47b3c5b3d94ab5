"""The table that maps words to tokens."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread

import numpy as np

from app.clients.embedding.word_table import WordTable, concatenate_ranges, index_distinct, run_starts


def letters(words: Sequence[str]) -> list[list[int]]:
    """Encode each letter as a token."""
    return [[ord(letter) for letter in word] for word in words]


def test_words_have_their_tokens_one_after_another() -> None:
    table = WordTable(letters)
    tokens, sizes = table.tokens(table.rows(["ab", "", "c", "ab"]))
    assert bytes(tokens.tolist()) == b"abcab"
    assert sizes.tolist() == [2, 0, 1, 2]
    assert len(table) == 3
    assert table.rows(["c", "ab"]).tolist() == [2, 0]


def test_a_word_is_encoded_once() -> None:
    asked: list[str] = []

    def noted(words: Sequence[str]) -> list[list[int]]:
        asked.extend(words)
        return letters(words)

    table = WordTable(noted)
    for words in (["a", "b"], ["b", "c", "c"], []):
        table.rows(words)
    assert asked == ["a", "b", "c"]


def test_nothing_has_no_tokens() -> None:
    tokens, sizes = WordTable(letters).tokens(np.zeros(0, np.intp))
    assert (tokens.size, sizes.size) == (0, 0)


def test_runs_are_spread_and_begin_where_they_follow() -> None:
    assert concatenate_ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert run_starts(np.array([2, 1, 3])).tolist() == [0, 2, 3]


def test_distinct_numbers_are_indexed_as_numpy_does() -> None:
    numbers = np.array([7, 2, 7, 0, 2, 9])
    for found, expected in zip(index_distinct(numbers, 10), np.unique(numbers, return_inverse=True), strict=True):
        assert found.tolist() == expected.tolist()
    assert [part.size for part in index_distinct(np.zeros(0, np.intp), 3)] == [0, 0]


def test_threads_that_add_words_at_once_read_their_own_tokens() -> None:
    table = WordTable(letters)
    wrong: list[str] = []

    def look_up(thread: int) -> None:
        for n in range(300):
            words = [f"{thread}-{n}", f"both-{n}"]
            tokens, _ = table.tokens(table.rows(words))
            if bytes(tokens.tolist()).decode() != "".join(words):
                wrong.append(words[0])

    threads = [Thread(target=look_up, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(table) == 4 * 300 + 300
