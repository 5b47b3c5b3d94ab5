"""Features that make a memory worth recalling: words, meaning, related words, speaker, flags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.domain.recall import worth
from app.domain.recall.relevance import (
    SAID_BEFORE,
    UNKNOWN,
    StoredEvidence,
    closeness,
    rarity,
    shared_words,
    weigh_words,
)
from app.domain.recall.request import FADE
from app.domain.recall.word_kinship import CommonWordMoments, compute_kinship
from app.domain.search.terms import QueryTerm


def evidence(lexemes: list[str], own: list[str], near: list[str]) -> StoredEvidence:
    """Return evidence for memories with these own words and these words of their neighbours."""
    has, has_near = (
        np.array([[word in each.split() for word in lexemes] for each in many], np.bool_) for many in (own, near)
    )
    n = len(own)
    flags, cues = np.zeros(n, np.int64), np.zeros((n, 0), np.bool_)
    return StoredEvidence(lexemes, has, has | has_near, np.zeros(n), np.zeros(n), np.zeros(n), flags, cues)


def features(**given: float) -> worth.WorthFeatures:
    blank: dict[str, Any] = {name: np.array([given.get(name, 0.0)]) for name in worth.WEIGHTS}
    return worth.WorthFeatures(**blank)


# --- Words ---


def test_a_word_weighs_its_rarity_faded_by_the_messages_since() -> None:
    asked = [
        QueryTerm("tea", 5, "tea"),
        QueryTerm("mint", 1, "mint"),
        QueryTerm("zebra", 0, "zebra"),
        QueryTerm("tea", 5, None),
    ]
    words = weigh_words(["mint tea", "zebra tea"], asked, 100, {})
    assert [(word.spelling, word.is_held) for word in words] == [("mint", True), ("tea", True), ("zebra", False)]
    assert [word.weight for word in words] == pytest.approx([1.0, rarity(5, 100), FADE])


def test_words_that_the_index_passes_over_are_left_out() -> None:
    assert weigh_words(["hence tea"], [QueryTerm("tea", 1, "tea")], 10, {})[0].spelling == "tea"
    assert weigh_words(["!"], [], 0, {}) == []


def test_the_share_is_by_weight_and_words_of_the_neighbours_count_for_less() -> None:
    asked = [QueryTerm("mint", 1, "mint"), QueryTerm("tea", 20, "tea"), QueryTerm("zebra", 0, "zebra")]
    words = weigh_words(["mint tea zebra"], asked, 100, {})
    shares = shared_words(words, evidence(["mint", "tea"], ["mint tea", "mint", "tea", ""], ["", "tea", "", ""]))
    common = rarity(20, 100)
    whole = 2 + common
    expected = np.array([1 + common, 1 + SAID_BEFORE * common, common, 0]) / whole
    assert shares == pytest.approx(expected)


def test_spellings_of_one_lexeme_count_once_and_irregular_forms_are_found() -> None:
    asked = [
        QueryTerm("tea", 2, "tea"),
        QueryTerm("tea", 2, "teas"),
        QueryTerm("drink", 0, "drink"),
        QueryTerm("drank", 1, "drank"),
    ]
    words = weigh_words(["tea teas drink"], asked, 100, {"drink": ("drank",)})
    assert [(word.spelling, sorted(word.lexemes), word.is_held) for word in words] == [
        ("tea", ["tea"], True),
        ("teas", ["tea"], True),
        ("drink", ["drank", "drink"], True),
    ]
    [both] = shared_words(words, evidence(["drank", "tea"], ["tea drank"], [""]))
    assert both == pytest.approx(1.0)


def test_no_words_are_no_share() -> None:
    assert shared_words([], evidence([], [""], [""])) == pytest.approx([0.0])


def test_rarity_is_the_same_among_few_and_among_many() -> None:
    for total in (0, 1, 10, 10**6):
        assert rarity(0, total) == rarity(1, total) == 1.0
        assert 0 < rarity(total, total) <= 1
    assert rarity(5, 10) < rarity(2, 10)


# --- Meaning ---


def test_closeness_is_measured_from_what_is_usual_for_the_embedder() -> None:
    wide, narrow = np.array([0.0, 0.1, 0.1, 0.6]), np.array([0.7, 0.8, 0.8, 0.9])
    assert closeness(np.array([0.55, 0.1, -1.0]), wide) == pytest.approx([0.5, 0, 0])
    assert closeness(np.array([0.9, 0.8, 1.0]), narrow) == pytest.approx([0.5, 0, 1])
    unknown = closeness(np.array([np.nan, 0.1]), wide)
    assert unknown == pytest.approx([UNKNOWN, 0])
    assert closeness(np.array([0.9]), np.array([0.9])) == pytest.approx([UNKNOWN])  # may be the memory's own cosine


# --- Related words ---


def vectors(*angles: float) -> Any:
    """Return unit vectors in a plane, by degrees."""
    turns = np.radians(angles)
    return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)


COMMON = CommonWordMoments.from_vectors(vectors(*range(60, 300)))


def test_the_usual_cosines_are_those_with_the_common_words() -> None:
    common, words = vectors(*range(60, 300)).astype(float), vectors(0, 75)
    mean, deviation = COMMON.cosines(words)
    assert mean == pytest.approx((words @ common.T).mean(axis=1), abs=1e-6)
    assert deviation == pytest.approx((words @ common.T).std(axis=1), abs=1e-6)


def kin(asked: Any, windows: list[list[list[int]]], held: Any, same: list[list[bool]], **more: Any) -> list[float]:
    weights = np.array(more.get("weights", [1.0] * len(asked)))
    spread = CommonWordMoments(COMMON.mean, COMMON.second * 0 + np.outer(COMMON.mean, COMMON.mean) + np.eye(2) * 0.01)
    found: list[float] = compute_kinship(asked, weights, spread, windows, held, np.array(same, np.bool_)).tolist()
    return found


def test_kin_is_the_nearest_word_of_a_window_far_above_the_usual() -> None:
    held = vectors(5, 180, 75)
    near, far, between, none = kin(vectors(0), [[[0, 1]], [[1]], [[2]], []], held, [[False] * 3])
    assert near > between > far == none == 0
    assert near <= 1


def test_a_window_that_has_the_word_itself_shows_no_kin_but_another_window_may() -> None:
    held = vectors(0, 5)
    has, beside = kin(vectors(0), [[[0, 1]], [[0], [1]]], held, [[True, False]])
    assert has == 0
    assert beside > 0


def test_kin_counts_as_much_as_its_word() -> None:
    held = vectors(5)
    [whole] = kin(vectors(0), [[[0]]], held, [[False]])
    [half] = kin(vectors(0), [[[0]]], held, [[False]], weights=[0.5])
    assert half == pytest.approx(whole / 2)


def test_without_words_nothing_is_kin() -> None:
    assert kin(vectors(), [[[0]]], vectors(5), np.zeros((0, 1), np.bool_).tolist()) == [0.0]
    assert kin(vectors(0), [[[]], []], vectors(5), [[False]]) == [0.0, 0.0]


# --- Speakers and flags ---


def test_the_assistant_alone_is_no_user() -> None:
    speakers = (None, "user", "Ann", "assistant")
    assert [worth.said_by_user(None, speaker) for speaker in speakers] == [1, 1, 1, 0]
    assert worth.said_by_user("assistant", "Ann") == 0
    assert worth.said_by_user("user", "assistant") == 1


def test_the_rarest_flag_that_both_have_counts_and_the_assistants_for_less() -> None:
    shared = np.array([[1, 1], [1, 0], [0, 0], [1, 1]])
    rarities, user = np.array([0.2, 0.9]), np.array([1.0, 1.0, 1.0, 0.0])
    assert worth.reminding(shared, rarities, user, of_days=False) == pytest.approx([0.9, 0.2, 0, 0.45])
    assert worth.reminding(shared, rarities, user, of_days=True) == pytest.approx([0.9, 0.2, 0, 0])
    assert worth.reminding(np.zeros((4, 0)), np.array([]), user, of_days=True) == pytest.approx([0, 0, 0, 0])


# --- Worth ---


def test_each_feature_makes_a_memory_worth_more() -> None:
    [blank] = worth.compute_worth(features())
    assert 0 < blank < 0.01
    for name in worth.WEIGHTS:
        [more] = worth.compute_worth(features(**{name: 0.5}))
        assert more > blank, name


def test_a_bridge_makes_what_a_user_told_of_themselves_worth_it() -> None:
    [reported] = worth.compute_worth(features(user=1, personal=0.5, bridge=0.8))
    [by_assistant] = worth.compute_worth(features(user=0, personal=0.5, bridge=0.4))
    assert reported > 0.1 > by_assistant
