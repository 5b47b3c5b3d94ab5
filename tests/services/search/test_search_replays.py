"""Replays of recorded searches rank as searches do, under the policy in force and under others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.uses import parse_touch
from app.domain.policy import policy_diff
from app.domain.policy.policy import Policy
from app.domain.search.request import SearchRequest, Weights
from app.domain.search.search_record import order_candidates
from app.errors import Conflict, Invalid
from app.services.search import search, search_records, search_replays
from app.services.search.search_replays import ReplayOptions
from app.services.uses import reinforcement
from app.store.core import database
from app.store.search import recorded_searches
from app.store.tenants import policies
from tests.service import Service

TOPICS = ("sage tea", "the old boat", "a train to Lisbon", "green kites", "the office kettle", "my sister's garden")
DOINGS = ("I like {}", "We talked about {} now", "Ann: {} was sold in May", "You could try {}", "did you see {}?")
QUERIES = (
    "sage tea",
    "Which boat do I like now?",
    "When did Ann sell the kettle?",
    "what did you recommend for the garden",
    "green kites over Lisbon",
    "train",
)


AGE = """
UPDATE memory_state AS state SET created_at = created_at - ago, accessed_at = accessed_at - ago,
  anchored_at = anchored_at - ago
FROM (
  SELECT memory_id, (%s + 3 * (row_number() OVER (ORDER BY md5(text)) %% 10)) * interval '1 day' AS ago FROM memories
) AS age WHERE age.memory_id = state.memory_id"""
STATES = "SELECT memory_id, md5(memory_state::text) FROM memory_state ORDER BY memory_id"


class Recorder:
    """A tenant that records its searches, with memories in threads, of all ages and speakers."""

    def __init__(self, service: Service, oldest: int = 0, **policy: Any) -> None:
        self.service = service
        self.policy = Policy.model_validate({"record_searches": True, **policy})
        self.tenant_id = service.tenant(self.policy).tenant_id
        dice = random.Random(7)
        said = [
            {
                "text": doing.format(topic) + f", for the {n}. time",
                "thread": f"talk {n % 5}",
                "speaker": dice.choice(["user", "assistant", "Ann", "Bob"]),
                "subject": dice.choice(["ann", "bob"]),
                "salience": dice.choice([0.1, 0.5, 0.9]),
            }
            for n, (topic, doing) in enumerate((topic, doing) for topic in TOPICS for doing in DOINGS * 2)
        ]
        for start in range(0, len(said), 10):
            service.send(self.tenant_id, *said[start : start + 10])
        service.work()
        service.rows(AGE, oldest)

    def search(self, query: str, **more: Any) -> list[UUID]:
        """Search and record; return the ids of the results."""
        request = SearchRequest(query, **more)
        at = datetime.now(UTC)
        found = search.find_memories(self.tenant_id, request)
        assert found.gathered is not None
        assert search_records.record_search(self.tenant_id, request, found.gathered, found.results, at)
        return [result.id for result in found.results]

    def real(self, among: Sequence[UUID], query: str, **more: Any) -> list[UUID]:
        """Search without recording; return the ids of the results that are in `among`, in order."""
        found = search.search(self.tenant_id, SearchRequest(query, limit=100, **more))
        return [result.id for result in found if result.id in set(among)]

    def replay(self, **more: Any) -> search_replays.SearchReplay:
        again, most = more.pop("again", False), more.pop("searches", 1000)
        return search_replays.replay_searches(self.tenant_id, ReplayOptions(more, None, most, again))

    def records(self) -> list[recorded_searches.RecordedSearch]:
        with database.tenant(self.tenant_id) as tx:
            return recorded_searches.list_newest(tx, self.tenant_id, 1000)[0]


@pytest.fixture
def recorder(service: Service) -> Recorder:
    return Recorder(service)


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "dense", "memory_decay"])
def test_the_policy_in_force_ranks_as_the_search_did(recorder: Recorder, mode: Any) -> None:
    answered = [recorder.search(query, limit=50, mode=mode) for query in QUERIES]
    found = recorder.replay()
    assert [list(pair.before) for pair in found.pairs] == answered
    assert [list(pair.after) for pair in found.pairs] == answered
    assert (found.comparison.searches, found.comparison.as_answered) == (len(QUERIES), len(QUERIES))
    assert found.comparison.changed == {1: 0, 5: 0, 10: 0}
    assert max(len(pair.before) for pair in found.pairs) > 20, "the results can be ordered in several ways"


@pytest.mark.parametrize(
    "weights",
    [
        {"words": 1.0, "soft_words": 0.1},
        {"role": 0.0, "thread": 0.0, "neighbours": 2.0},
        {"moment": 3.0, "now": 5.0, "when": 4.0, "first_person": 2.0, "actor": 3.0},
        {"strength": 1.0, "recency": 0.7, "importance": 0.5},
    ],
)
def test_other_weights_rank_the_candidates_as_a_search_with_them_does(
    recorder: Recorder, weights: dict[str, float]
) -> None:
    for query in QUERIES:
        recorder.search(query, limit=5)
    found = recorder.replay(ranking=weights)
    changed = 0
    for query, pair in zip(QUERIES, found.pairs, strict=True):
        assert list(pair.after) == recorder.real(pair.after, query, weights=Weights(**weights))
        changed += list(pair.before) != list(pair.after)
    assert changed > 0, "these weights change something"
    assert found.vitals == "recorded"


def test_weights_that_were_off_when_the_search_ran_are_recorded_too(service: Service) -> None:
    recorder = Recorder(service, ranking={"role": 0, "thread": 0, "moment": 0})
    for query in QUERIES:
        recorder.search(query)
    on = {"role": 1.0, "thread": 0.5, "moment": 1.0}
    for query, pair in zip(QUERIES, recorder.replay(ranking=on).pairs, strict=True):
        assert list(pair.after) == recorder.real(pair.after, query, weights=Weights(**on))


def test_a_requests_own_weights_hold_under_every_policy(recorder: Recorder) -> None:
    [answered] = [recorder.search(QUERIES[1], limit=20, weights=Weights(role=3.0, now=0.0))]
    found = recorder.replay(ranking={"role": 0.0, "now": 2.0})
    assert list(found.pairs[0].after[:20]) == answered


def test_a_base_part_that_is_turned_off_leaves_the_record_out(recorder: Recorder) -> None:
    recorder.search(QUERIES[0])
    found = recorder.replay(ranking={"soft_words": 0.0})
    assert (found.comparison.searches, found.left_out) == (0, {"parts_not_recorded": 1})
    lexical = recorder.replay(ranking={"mode": "lexical"})
    assert (lexical.comparison.searches, lexical.left_out) == (1, {})


def test_corrections_stand_above_what_they_correct_in_a_replay_too(service: Service) -> None:
    recorder = Recorder(service)
    for text, day in (("My flight to Oslo is on the 14th of May.", 1), ("The flight has been moved to the 17th.", 5)):
        said = {"text": text, "occurred_at": f"2026-03-0{day}T09:00:00Z", "speaker": "user"}
        service.send(recorder.tenant_id, said)
        service.work()
    answered = recorder.search("When is my flight to Oslo?", limit=20)
    [record] = recorder.records()
    assert record.candidates.corrections, "the later statement corrects the earlier one"
    [pair] = recorder.replay().pairs
    assert list(pair.before[:20]) == answered
    unplaced = replace(record.candidates, corrections=())
    by_score = order_candidates(unplaced, recorder.policy.ranking, recorder.policy)
    assert [record.candidates.memory_ids[place] for place in by_score] != list(pair.before), (
        "by score alone the correction ranks lower"
    )


def test_what_spreading_brings_along_is_no_part_of_a_replay(recorder: Recorder) -> None:
    answered = [recorder.search(query, limit=50, mode="cmm") for query in QUERIES]
    found = recorder.replay()
    for pair, results in zip(found.pairs, answered, strict=True):
        assert pair.before[0] == results[0]
    assert found.comparison.as_answered < len(QUERIES), "and the comparison reports it"


def test_a_change_of_forgetting_is_replayed_as_if_it_had_held_since_the_last_uses(service: Service) -> None:
    recorder = Recorder(service, oldest=1)
    strong = Weights(strength=1.0)
    for query in QUERIES:
        recorder.search(query, limit=5, weights=strong)
    harsh = {"curve": "exponential", "half_life_days": 0.001}
    found = recorder.replay(forgetting={"profile": "mnemex", "parameters": harsh})
    assert found.vitals == "present"
    changed = 0
    for query, pair in zip(QUERIES, found.pairs, strict=True):
        assert list(pair.before) == recorder.real(pair.before, query, weights=strong)
        # By then all is forgotten, so strength raises no result.
        assert list(pair.after) == recorder.real(pair.after, query, weights=Weights(strength=0.0))
        changed += list(pair.before) != list(pair.after)
    assert changed > 0


def test_a_change_of_importance_is_replayed(recorder: Recorder) -> None:
    for query in QUERIES:
        recorder.search(query, limit=5, weights=Weights(importance=1.0))
    weights = {"recency": 0.0, "frequency": 0.0, "salience": 1.0}
    found = recorder.replay(importance={"weights": weights})
    assert found.vitals == "present"
    assert any(list(pair.before) != list(pair.after) for pair in found.pairs)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"language": "german"}, "policy.language"),
        ({"time_zone": "Asia/Tokyo"}, "policy.time_zone"),
        ({"ranking": {"context": 0.1}}, "policy.ranking.context"),
        ({"supersession": {"corrections": False}}, "policy.supersession.corrections"),
    ],
)
def test_what_a_replay_cannot_show_is_refused(recorder: Recorder, changes: dict[str, Any], field: str) -> None:
    recorder.search(QUERIES[0])
    with pytest.raises(Invalid) as refused:
        recorder.replay(**changes)
    assert [error.field for error in refused.value.errors] == [field]
    if field in {"policy.language", "policy.time_zone"}:
        with pytest.raises(Invalid):
            recorder.replay(again=True, **changes)


def test_searches_are_repeated_by_their_vectors_and_terms(recorder: Recorder) -> None:
    recorder.search("sage tea", limit=5)
    recorder.search("sage tea", limit=5, subject="ann")
    found = recorder.replay(again=True, ranking={"context": 0.0})
    assert (found.again, found.vitals, found.comparison.searches) == (True, "present", 2)
    everybody, anns = found.pairs
    of = dict(recorder.service.rows("SELECT memory_id, subject FROM memories"))
    assert {of[memory_id] for memory_id in anns.before} == {"ann"}, "the filters are repeated, too"
    assert {of[memory_id] for memory_id in everybody.before} == {"ann", "bob"}
    texts = dict(recorder.service.rows("SELECT memory_id, text FROM memories"))
    assert "sage tea" in texts[everybody.before[0]], "the terms resolve through the tenant's words"


def test_a_change_of_forgetting_affects_repeated_searches(service: Service) -> None:
    recorder = Recorder(service, oldest=1)
    for query in QUERIES:
        for strength in (1.0, 0.0):
            recorder.search(query, weights=Weights(strength=strength))
    harsh = {"curve": "exponential", "half_life_days": 0.001}
    found = recorder.replay(again=True, forgetting={"profile": "mnemex", "parameters": harsh})
    weighed, unweighed = found.pairs[::2], found.pairs[1::2]
    # Under the changed model all is forgotten, so strength raises no result.
    assert [pair.after for pair in weighed] == [pair.after for pair in unweighed] != [pair.before for pair in weighed]
    assert [pair.before for pair in unweighed] == [pair.after for pair in unweighed]


def test_a_change_of_importance_affects_repeated_searches_as_the_policy_itself_does(recorder: Recorder) -> None:
    for query in QUERIES:
        recorder.search(query, weights=Weights(importance=1.0, strength=0.0))
    importance = {"weights": {"recency": 0.0, "frequency": 0.0, "salience": 1.0}}
    found = recorder.replay(again=True, importance=importance)
    assert [pair.after for pair in found.pairs] != [pair.before for pair in found.pairs]
    changed = policy_diff.amend_policy(recorder.policy, {"importance": importance})
    with database.tenant(recorder.tenant_id) as tx:
        policies.add(tx, recorder.tenant_id, 2, changed)
    present = recorder.replay(again=True)
    assert [pair.before for pair in present.pairs] == [pair.after for pair in found.pairs]


def test_the_newest_searches_are_repeated_while_there_is_time(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for query in QUERIES:
        recorder.search(query)
    ids = [record.search_id for record in recorder.records()]
    monkeypatch.setattr(search_replays, "AGAIN_MAX", 4)
    found = recorder.replay(again=True)
    assert [pair.search_id for pair in found.pairs] == ids[-4:]
    assert found.left_out == {"beyond_the_most": 2}
    monkeypatch.setattr(search_replays, "SECONDS_MAX", -1.0)
    found = recorder.replay(again=True)
    assert (found.pairs, found.left_out) == ([], {"out_of_time": 4, "beyond_the_most": 2})


def test_new_memories_are_found_by_a_repeated_search_alone(recorder: Recorder) -> None:
    recorder.search("sage tea", limit=5)
    [new] = recorder.service.send(recorder.tenant_id, {"text": "sage tea, sage tea, I love sage tea"})
    recorder.service.work()
    assert new not in recorder.replay().pairs[0].before
    assert new in recorder.replay(again=True).pairs[0].before


def test_the_newest_searches_are_replayed(recorder: Recorder) -> None:
    for query in QUERIES:
        recorder.search(query)
    ids = [record.search_id for record in recorder.records()]
    assert [pair.search_id for pair in recorder.replay(searches=2).pairs] == ids[-2:]


def test_uses_are_compared_under_both_policies(recorder: Recorder) -> None:
    for query in QUERIES:
        ids = recorder.search(query, limit=10, session=query)
        body = f'{{"session": "{query}"}}'.encode()
        reinforcement.touch_memory(recorder.tenant_id, ids[0], parse_touch(body, recorder.tenant_id, ids[0]))
    same = recorder.replay().comparison.uses
    assert same is not None
    assert (same.searches, same.uses) == (len(QUERIES), len(QUERIES))
    assert same.before == same.after == (1.0, 1.0)
    assert tuple(same.recall) == (0.0, 0.0, 0.0)
    other = recorder.replay(ranking={"words": 0.01, "soft_words": 0.01, "relevance": 0.01, "role": 9.0})
    assert other.comparison.uses is not None
    assert other.comparison.uses.after.reciprocal_rank < 1
    assert other.comparison.uses.reciprocal_rank.low <= other.comparison.uses.reciprocal_rank.mean < 0


def test_a_record_of_other_columns_is_left_out(recorder: Recorder) -> None:
    recorder.search(QUERIES[0])
    recorder.service.rows("UPDATE recorded_searches SET layout = 1")
    found = recorder.replay()
    assert (found.comparison.searches, found.left_out) == (0, {"other_layout": 1})


def test_without_consent_there_is_nothing_to_replay(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    with pytest.raises(Conflict, match="record_searches=true"):
        search_replays.replay_searches(tenant_id, ReplayOptions({}))
    with pytest.raises(Conflict, match="record_searches=true"):
        search_replays.fit_ranking(tenant_id, 10)


def test_nothing_is_written_by_a_replay(recorder: Recorder) -> None:
    recorder.search(QUERIES[0])
    before = recorder.service.rows("SELECT * FROM recorded_searches"), recorder.service.rows("SELECT * FROM policies")
    states = recorder.service.rows(STATES)
    recorder.replay(again=True, ranking={"role": 0.1})
    recorder.replay(forgetting={"profile": "mnemex"})
    search_replays.fit_ranking(recorder.tenant_id, 10)
    after = recorder.service.rows("SELECT * FROM recorded_searches"), recorder.service.rows("SELECT * FROM policies")
    assert before == after
    assert states == recorder.service.rows(STATES)
