"""The simulated year: important facts are labelled, queries rephrase them, and a seed reproduces everything."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product

import pytest

from app.domain.simulation.topics import TOPICS, Topic
from app.domain.simulation.year import IMPORTANT_SHARE, Year, generate_year
from app.domain.text.words import content_words

_ENDINGS = re.compile(r"(ing|ed|es|s|ly)$")


def stems(texts: list[str]) -> set[str]:
    return {_ENDINGS.sub("", word) if len(word) > 4 else word for text in texts for word in content_words(text)}


@pytest.fixture(scope="module")
def year() -> Year:
    return generate_year(2000, seed=3)


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.said[0])
def test_a_question_shares_no_content_word_with_what_answers_it(topic: Topic) -> None:
    reported = stems([way.format(x=value) for way, value in product(topic.said, topic.values)])
    assert not reported & stems([way.format(who="") for way in topic.asked])
    assert len(topic.said) > 1
    assert len(topic.asked) > 1


def test_a_seed_makes_the_same_year_again_and_another_one_another(year: Year) -> None:
    assert generate_year(2000, seed=3) == year
    assert generate_year(2000, seed=4).said != year.said


def test_a_tenth_of_what_is_said_matters(year: Year) -> None:
    assert len(year.said) == 2000
    places = [place for fact in year.facts for place in fact.places]
    assert sorted(places) == [place for place, one in enumerate(year.said) if one.fact is not None]
    assert len(places) == 2000 * IMPORTANT_SHARE
    assert all(year.said[place].person == fact.person for fact in year.facts for place in fact.places)
    assert {fact.area for fact in year.facts} == {topic.area for topic in TOPICS}


def test_all_comes_in_the_order_of_time_and_within_the_year(year: Year) -> None:
    for days in ([one.day for one in year.said], [one.day for one in year.asked]):
        assert days == sorted(days)
        assert 0 <= days[0] <= days[-1] < year.days


def test_what_is_asked_holds_at_that_time_a_few_things_often_and_some_never(year: Year) -> None:
    for one in year.asked:
        fact = year.facts[one.fact]
        assert year.said[fact.places[0]].day <= one.day <= fact.until
        assert one.query not in fact.questions, "the last day's questions were never asked before"
    often = Counter(one.fact for one in year.asked)
    assert len(year.facts) - len(often) >= len(year.facts) * 0.2
    assert often.most_common(1)[0][1] > 10 * sorted(often.values())[len(often) // 2]


def test_a_fact_that_changes_gives_way_to_another_of_the_same_sort(year: Year) -> None:
    changed = [fact for fact in year.facts if fact.until < year.days]
    assert changed
    for fact in changed:
        [later] = [
            other
            for other in year.current
            if other.questions == fact.questions and year.said[other.places[0]].day == fact.until
        ]
        assert year.said[later.places[0]].text != year.said[fact.places[0]].text
