"""Rarity of words, the final ranking, and how words and names are parsed."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.policy.policy import Policy
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest, Weights
from app.domain.search.result_list import list_uses, rank_candidates
from app.domain.search.signals import SIGNALS
from app.domain.search.terms import TERMS_MAX, QueryTerm, inverse_document_frequency, weigh_query
from app.domain.text.embedding_input import MemoryText, normalise_rows
from app.domain.text.inflection import other_forms
from app.domain.text.words import (
    asks_for_time,
    content_words,
    find_speaker,
    format_line,
    is_named,
    query_names,
    split_words,
    states_time,
)
from app.errors import Invalid

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)
PLAIN: Final = {"strength": 0.0, "importance": 0.0, "thread": 0.0, "role": 0.0}


def candidate(number: int, words: float, relevance: float, speaker: str | None = None) -> Candidate:
    return Candidate(
        UUID(int=number),
        "text",
        None,
        None,
        speaker,
        None,
        None,
        [],
        None,
        NOON,
        "active",
        words=words,
        relevance=relevance,
        cosine=relevance,
    )


def alive(count: int) -> CandidateStrength:
    full = np.ones(count)
    return CandidateStrength(full, full, full, full, full)


def ranked(query: str, *candidates: Candidate, limit: int = 10) -> list[int]:
    return [
        result.id.int
        for result in rank_candidates(candidates, alive(len(candidates)), SearchRequest(query, limit=limit), Ranking())
    ]


def test_the_score_is_words_and_relevance_by_weight() -> None:
    weights = Ranking(words=2, relevance=4, **PLAIN)
    [result] = rank_candidates([candidate(1, 0.5, 0.25)], alive(1), SearchRequest("x", explain=True), weights)
    assert result.score == pytest.approx(2)
    parts = {"words": 1.0, "soft_words": 0.0, "relevance": 1.0}
    assert result.explain == {**parts, **dict.fromkeys(SIGNALS, 0.0), "factors": {}}


def test_priming_multiplies_the_score() -> None:
    found = [candidate(1, 0.5, 0), candidate(2, 0.45, 0), candidate(3, 0, 0)]
    request = SearchRequest("x", explain=True)
    results = rank_candidates(found, alive(3), request, Ranking(words=1, **PLAIN), priming=np.array([1, 1.3, 1.3]))
    assert [(result.id.int, result.score) for result in results] == [(2, pytest.approx(0.585)), (1, 0.5)]
    assert results[0].explain == {
        "words": 0.45,
        "soft_words": 0.0,
        "relevance": 0.0,
        **dict.fromkeys(SIGNALS, 0.0),
        "factors": {"priming": 1.3},
    }


def test_a_turn_needs_a_session() -> None:
    with pytest.raises(Invalid) as refused:
        SearchRequest("x", turn=1)
    assert [error.field for error in refused.value.errors] == ["turn"]
    assert SearchRequest("x", session="s").turn is None


def test_soft_words_count_by_the_best_of_them() -> None:
    found = [candidate(1, 1, 1), candidate(2, 1, 1)]
    results = rank_candidates(found, alive(2), SearchRequest("x"), Ranking(), soft_words=np.array([3.0, 6.0]))
    assert [result.id.int for result in results] == [2, 1]
    explained = rank_candidates(
        found, alive(2), SearchRequest("x", explain=True), Ranking(), soft_words=np.array([3.0, 6.0])
    )
    assert [result.explain["soft_words"] for result in explained if result.explain] == pytest.approx([0.6, 0.3])


def test_the_named_speaker_gets_a_bonus() -> None:
    assert ranked("What did Bo eat?", candidate(1, 1, 0, "Al"), candidate(2, 0.7, 0, "Bo")) == [2, 1]
    assert ranked("What did Bo eat?", candidate(1, 1, 1, "Al"), candidate(2, 0.1, 0.1, "Bo")) == [1, 2]


def test_a_time_asked_for_and_told_gets_a_bonus() -> None:
    reported = msgspec.structs.replace(candidate(1, 0.9, 0), text="It starts next Friday")
    assert ranked("When does it start?", candidate(2, 1, 0), reported) == [1, 2]
    assert ranked("Does it start?", candidate(2, 1, 0), reported) == [2, 1]


def test_ties_go_to_the_later_id_and_nothing_scores_nothing() -> None:
    assert ranked("x", candidate(1, 1, 0), candidate(3, 1, 0), candidate(2, 1, 0), candidate(4, 0, 0)) == [
        3,
        2,
        1,
    ]
    assert ranked("x", candidate(1, 1, 0), candidate(2, 1, 0), limit=1) == [2]
    assert ranked("x") == []


def test_results_are_uses_with_their_margin_over_all_that_come_after() -> None:
    given = [candidate(1, 1, 1), candidate(2, 1, 0.4), candidate(3, 0, 0.75), candidate(4, 0, 0.3)]
    found = list_uses(rank_candidates(given, alive(len(given)), SearchRequest("x", limit=3), Ranking()), given)
    assert [(use.id.int, use.place, use.lexical) for use in found] == [(1, 0, True), (2, 1, True), (3, 2, False)]
    assert [use.margin for use in found] == [0.25, pytest.approx(-0.35), pytest.approx(0.45)]
    assert list_uses([], given) == []
    [alone] = list_uses(rank_candidates(given[:1], alive(1), SearchRequest("x"), Ranking()), given[:1])
    assert alone.margin == 1


def test_idf_as_worked_out_by_hand() -> None:
    assert inverse_document_frequency(0, 10) == pytest.approx(math.log(1 + 10.5 / 0.5))
    assert inverse_document_frequency(10, 10) == pytest.approx(math.log(1 + 0.5 / 10.5))


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_idf_is_above_zero_and_falls(documents: int, total: int) -> None:
    assert 0 < inverse_document_frequency(documents + 1, total) <= inverse_document_frequency(documents, total)


def test_unknown_lexemes_are_left_out_and_unknown_spellings_are_rarest() -> None:
    query = weigh_query([QueryTerm("appl", 3, None), QueryTerm("zebra", 0, None), QueryTerm("zebra", 0, "zebras")], 10)
    assert query.lexemes == {"appl": inverse_document_frequency(3, 10)}
    assert query.spellings == {"zebras": inverse_document_frequency(0, 10)}


def test_a_spelling_of_several_lexemes_is_as_rare_as_the_rarest() -> None:
    query = weigh_query([QueryTerm("well", 9, "well-known"), QueryTerm("known", 1, "well-known")], 10)
    assert query.spellings == {"well-known": inverse_document_frequency(1, 10)}


def test_all_forms_of_a_word_are_as_rare_as_one_word() -> None:
    terms = [
        QueryTerm("go", 3, None),
        QueryTerm("go", 3, "going"),
        QueryTerm("went", 2, "went"),
        QueryTerm("gone", 0, "gone"),
    ]
    query = weigh_query(terms, 10, {"going": ("went", "gone")})
    assert query.lexemes == {"go": inverse_document_frequency(5, 10), "went": inverse_document_frequency(5, 10)}
    assert query.spellings == {"going": inverse_document_frequency(3, 10)}, (
        "spellings that the query lacks add no meaning"
    )


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("go", ("went", "gone")),
        ("goes", ("went", "gone", "go")),
        ("making", ("made", "make")),
        ("getting", ("got", "gotten", "get")),
        ("went", ("go", "gone")),
        ("children", ("child",)),
        ("thing", ()),
        ("walked", ()),
        ("ing", ()),
        ("", ()),
    ],
)
def test_forms_that_no_stemmer_brings_together(word: str, expected: tuple[str, ...]) -> None:
    assert sorted(other_forms(word)) == sorted(expected)


def test_soft_words_of_a_long_query_are_its_rarest_known_ones() -> None:
    words = [QueryTerm(f"w{n}", n, f"w{n}") for n in range(100)]
    assert list(weigh_query(words, 100).soft) == [f"w{n}" for n in range(1, TERMS_MAX + 1)]
    assert list(weigh_query(words[:3], 100).soft) == ["w0", "w1", "w2"]


def test_of_many_lexemes_the_rarest_stay() -> None:
    query = weigh_query([QueryTerm(f"w{n}", n, None) for n in range(1, 100)], 100)
    assert list(query.lexemes) == [f"w{n}" for n in range(1, TERMS_MAX + 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When did Caroline's dog arrive?", ["caroline", "dog", "arrive"]),
        ("I don't know what it's about", ["know"]),
        ("the and of", ["the", "and", "of"]),
        ("", []),
        ("🙂 ... —", []),
        ("snake_case e-mail 3.14", ["snake", "case", "e", "mail", "3", "14"]),
        ("東京 Καλημέρα", ["東京", "καλημέρα"]),
    ],
)
def test_content_words(text: str, expected: list[str]) -> None:
    assert content_words(text) == expected


@pytest.mark.parametrize(
    ("text", "speaker", "expected"),
    [
        ("hello", None, None),
        ("Ann: hello", None, "Ann"),
        ("Ann: hello", "Bob", "Bob"),
        ("Mary Ann Lee: hello", None, "Mary Ann Lee"),
        ("one two three four: hello", None, None),
        ("12: hello", None, None),
        ("https://example.org", None, None),
        ("Jean-Luc O'Neil: hello", None, "Jean-Luc O'Neil"),
        (f"{'x' * 41}: hello", None, None),
    ],
)
def test_who_speaks(text: str, speaker: str | None, expected: str | None) -> None:
    assert find_speaker(text, speaker) == expected


def test_a_line_has_its_speaker_once() -> None:
    assert format_line("hello", None) == "hello"
    assert format_line("hello", "Ann") == "Ann: hello"
    assert format_line("ann: hello", "Ann") == "ann: hello"
    assert MemoryText("hello", "Ann").line == "Ann: hello"


@pytest.mark.parametrize(
    ("query", "speaker", "expected"),
    [
        ("What did Ann say?", "Ann", True),
        ("what did ann's dog do", "Ann", True),
        ("What did Lee say?", "Mary Ann Lee", True),
        ("What will happen?", "Will", False),
        ("What does Will say?", "Will", True),
        ("Will it rain?", "Will", False),
        ("What did I say?", "I", False),
        ("What did Annabel say?", "Ann", False),
        ("What did Ann say?", None, False),
    ],
)
def test_who_is_named(query: str, speaker: str | None, expected: bool) -> None:
    assert is_named(speaker, query_names(query)) is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("When was it?", True),
        ("In which month?", True),
        ("how long ago", True),
        ("Whenever", False),
        ("Who?", False),
    ],
)
def test_what_asks_for_a_time(query: str, expected: bool) -> None:
    assert asks_for_time(query) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("two weeks ago", True), ("on Tuesday", True), ("in 2024", True), ("12 eggs", False), ("lastly", False)],
)
def test_what_tells_a_time(text: str, expected: bool) -> None:
    assert states_time(text) is expected


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert set(content_words(text)) <= set(split_words(text))
    assert all(name == name.lower() for name in query_names(text))
    find_speaker(text, None)


def test_unit_vectors_are_never_nan() -> None:
    vectors = normalise_rows(np.array([[3, 4], [0, 0], [1e-20, 0]], dtype=np.float32))
    assert vectors.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0], [0, 0]]
    assert vectors.dtype == np.float32


def test_a_request_is_checked() -> None:
    request = msgspec.json.decode(b'{"query": "x", "tags": ["a"], "kinds": ["semantic"]}', type=SearchRequest)
    assert (request.tags, request.kinds, request.limit) == (("a",), ("semantic",), 10)
    for wrong in (
        b'{"vector": []}',
        b'{"query": 1}',
        b'{"query": "x", "limit": 0}',
        b'{"query": "x", "limit": 101}',
        b'{"query": "x", "kinds": ["dream"]}',
        b'{"query": "x", "after": "2026-01-01T00:00:00"}',
        b'{"query": "x", "wish": 1}',
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(wrong, type=SearchRequest)


@pytest.mark.parametrize(
    ("field", "wrong"), [("query", b'{"query": "\\u0000"}'), ("tags[1]", b'{"query": "x", "tags": ["a", "\\u0000"]}')]
)
def test_a_nul_character_is_refused_by_the_name_of_its_field(field: str, wrong: bytes) -> None:
    with pytest.raises(Invalid) as raised:
        msgspec.json.decode(wrong, type=SearchRequest)
    assert [error.field for error in raised.value.errors] == [field]


@pytest.mark.parametrize(
    "wrong",
    [
        {"language": "klingon"},
        {"time_zone": "Mars/Olympus"},
        {"time_zone": "Europe"},
        {"ranking": {"words": -1}},
        {"ranking": {"context": 1.5}},
        {"ranking": {"relevance": float("nan")}},
        {"wish": 1},
    ],
)
def test_a_policy_is_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Policy.model_validate(wrong)


def test_a_policy_is_all_defaults() -> None:
    assert Policy.model_validate({}) == Policy()
    assert Policy(time_zone="Europe/Berlin", language="german").ranking == Ranking()


def test_a_request_may_weigh_every_part_of_the_score() -> None:
    weights = {name for name, kind in Ranking.model_fields.items() if kind.annotation is float}
    assert set(Weights.__struct_fields__) == weights
    request = SearchRequest("x", weights=Weights(**dict.fromkeys(sorted(weights), 0.5)))
    weighed = request.ranking(Ranking())
    assert {getattr(weighed, name) for name in weights} == {0.5}
