"""Rule-based paraphrases of questions: which words are replaced, dropped or kept."""

from __future__ import annotations

import pytest

from app.clients.embedding.static_embedder import word_vectors
from app.domain.consolidation.faithfulness import stems
from app.domain.evaluation import paraphrased_questions
from app.domain.evaluation.paraphrased_questions import list_replaceable, paraphrase_question
from app.domain.text.words import content_words

CELLO = "Ann practises the cello every Sunday before breakfast with Ben in the attic"
NEAR = {
    "practises": ["practise", "rehearses"],
    "breakfast": ["morning", "brunch"],
    "sunday": ["weekend"],
    "attic": ["loft"],
    "cello": ["violin"],
}


def near(text: str) -> dict[str, list[str]]:
    return word_vectors().nearest(
        list_replaceable(text), paraphrased_questions.NEAR_MIN, paraphrased_questions.NEAR_WORDS
    )


def test_words_are_exchanged_the_rarest_dropped_and_two_own_words_stay() -> None:
    documents = {"practises": 3, "breakfast": 9, "attic": 4, "every": 99, "cello": 1, "sunday": 8, "ben": 2}
    assert set(list_replaceable(CELLO)) & {"ben", "sunday"} == set(), "names and days are never exchanged"
    question = paraphrase_question(CELLO, documents, NEAR)
    assert question == "What do you know about rehearses sunday morning ben loft?", (
        "no form of the memory's own words, and not the rarest one"
    )


def test_it_is_the_same_question_each_time() -> None:
    assert len({paraphrase_question(CELLO, {}, near(CELLO)) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    "text",
    [
        CELLO,
        "my sister bakes bread for her neighbours and the church every other weekend",
        "The delivery was late again, so we opened without milk and lost customers",
    ],
)
def test_hardly_a_word_is_the_memory_s_own(text: str) -> None:
    question = paraphrase_question(text, {}, near(text))
    asked = set(content_words(question)) - {"say", "know"}
    assert len(asked) >= 2
    assert sum(word[:5] in stems(text) for word in asked) <= paraphrased_questions.OWN_MAX


def test_a_text_without_near_words_is_asked_for_by_forms_of_a_few_of_its_own() -> None:
    assert paraphrase_question("children went fishing by boat", {"boat": 0, "went": 7, "children": 9}, {}) == (
        "What do you know about child go?"
    )
    for odd in ("日本語 テスト 四つ 言葉", "1 22 333 4444"):
        assert paraphrase_question(odd, {}, near(odd)).endswith("?")


def test_what_somebody_said_of_themselves_is_asked_for_as_theirs() -> None:
    assert paraphrase_question("My cello needs new strings by Sunday", {}, NEAR).startswith("What did I say about my ")


def test_half_of_a_sample_is_asked_for() -> None:
    assert [paraphrased_questions.sample_size(most) for most in (1, 2, 5, 20)] == [1, 1, 3, 10]


def test_common_words_have_near_ones_and_others_have_none() -> None:
    found = word_vectors().nearest(["bread", "xyzzyqux"], 0.3, 5)
    assert set(found) == {"bread"}
    assert 0 < len(found["bread"]) <= 5
    assert "bread" not in found["bread"]
    assert word_vectors().nearest([], 0.3, 5) == {}
    assert word_vectors().nearest(["bread"], 1.1, 5) == {"bread": []}
