"""`/v1/reviews`: due memories and their urgency, and the effect of passed and failed reviews (seed 004 §4)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.policy.policy import Forgetting, Policy, Reinforcement
from app.domain.strength.importance import Importance, ImportanceWeights
from app.domain.strength.review import ReviewParameters
from tests.api.caller import Api, fields
from tests.services.backdated import age

SALIENCE_ALONE = Importance(weights=ImportanceWeights(recency=0, frequency=0, salience=1, relevance=0))
"""Importance that equals salience, regardless of uses and their times."""
PLAIN = Policy(importance=SALIENCE_ALONE, reinforcement=Reinforcement(refractory_seconds=0))


@pytest.fixture(autouse=True)
def _tenant(api: Api) -> None:
    api.tenant = api.service.tenant(PLAIN)


def remember(api: Api, *saliences: float, days: float = 0, **more: Any) -> list[str]:
    """Store memories with these saliences, accepted this many days ago."""
    ids = api.remember(*({"text": f"number {place}", "salience": one, **more} for place, one in enumerate(saliences)))
    age(api.service, days, *ids)
    return ids


def review(api: Api, memory_id: str, result: str = "passed", at: datetime | None = None) -> dict[str, Any]:
    given = {"result": result} | ({"at": at.isoformat()} if at else {})
    answer = api.post(f"/v1/reviews/{memory_id}", json=given)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def session(api: Api, **query: Any) -> dict[str, Any]:
    answer = api.get("/v1/reviews", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in found["reviews"]]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- The queue ---


def test_a_memory_is_due_a_day_after_it_was_accepted(api: Api) -> None:
    [fresh] = remember(api, 0.5)
    [old] = remember(api, 0.5, days=1.5)
    found = session(api)
    assert (ids(found), found["total"]) == ([old], 1)
    [entry] = found["reviews"]
    assert entry["overdue_days"] == pytest.approx(0.5, abs=1e-3)
    assert (entry["interval_days"], entry["review_count"], entry["flagged"], entry["reviewed_at"]) == (
        1,
        0,
        False,
        None,
    )
    assert entry["text"] == "number 0"
    waiting = api.get(f"/v1/memories/{fresh}").json()
    assert moment(waiting["next_review_at"]) - moment(waiting["created_at"]) == timedelta(days=1)


def test_the_most_important_and_most_overdue_come_first(api: Api) -> None:
    """Seed 004 §4.2: .6 · importance + .4 · days overdue."""
    [dull_and_late] = remember(api, 0.1, days=3)
    [dear] = remember(api, 0.9, days=1.5)
    [dear_and_later] = remember(api, 0.8, days=2)
    found = session(api)
    assert ids(found) == [dear_and_later, dull_and_late, dear]
    urgencies = [entry["urgency"] for entry in found["reviews"]]
    assert urgencies == pytest.approx([0.6 * 0.8 + 0.4 * 1, 0.6 * 0.1 + 0.4 * 2, 0.6 * 0.9 + 0.4 * 0.5], abs=1e-3)
    assert ids(session(api, limit=2)) == [dear_and_later, dull_and_late]


def test_a_session_has_an_end(api: Api) -> None:
    api.tenant = api.service.tenant(PLAIN.model_copy(update={"review": ReviewParameters(session_limit=2)}))
    remember(api, *[0.5] * 5, days=2)
    for query in ({}, {"limit": 1000}):
        found = session(api, **query)
        assert (len(found["reviews"]), found["total"]) == (2, 5)


def test_a_session_may_be_about_one_subject_or_thread(api: Api) -> None:
    [ann] = remember(api, 0.5, days=2, subject="ann", thread="t")
    [bob] = remember(api, 0.5, days=2, subject="bob")
    assert ids(session(api, subject="ann")) == [ann]
    assert ids(session(api, subject="bob")) == [bob]
    assert ids(session(api, thread="t")) == [ann]
    assert ids(session(api, subject="bob", thread="t")) == []


def test_deleted_memories_are_not_reviewed(api: Api) -> None:
    [gone, kept] = remember(api, 0.5, 0.5, days=2)
    api.delete(f"/v1/memories/{gone}")
    assert ids(session(api)) == [kept]
    assert api.post(f"/v1/reviews/{gone}", json={"result": "passed"}).status_code == 404


def test_the_danger_zone_has_a_queue_of_its_own(api: Api) -> None:
    """Seed 001: priority 1 - 4(x - .5)² with x the position in [.15, .35]; memories that aren't due are listed too."""
    [fresh] = remember(api, 0.5)
    near_middle, at_edge = remember(api, 0.5, days=37), remember(api, 0.5, days=30)
    [lost] = remember(api, 0.5, days=90)
    found = session(api, by="danger")
    assert ids(found) == near_middle + at_edge
    assert found["total"] == 2
    for entry in found["reviews"]:
        assert 0.15 < entry["strength"] < 0.35
        place = (entry["strength"] - 0.15) / 0.2
        assert entry["priority"] == pytest.approx(1 - 4 * (place - 0.5) ** 2)
        assert api.get(f"/v1/memories/{entry['id']}").json()["review"]["priority"] == pytest.approx(
            entry["priority"], abs=1e-3
        )
    review(api, near_middle[0])
    assert ids(session(api, by="danger"))[:1] != near_middle
    assert {fresh, lost}.isdisjoint(ids(found))


def test_who_is_last_in_a_session_may_be_more_important_than_those_before(api: Api) -> None:
    """The query preselects candidates: it may leave out only memories that can't make the session."""
    api.tenant = api.service.tenant(PLAIN.model_copy(update={"review": ReviewParameters(session_limit=1)}))
    remember(api, 0.0, days=3.4)
    [dear] = remember(api, 1.0, days=2)
    remember(api, 1.0, days=1.5)
    assert ids(session(api)) == [dear]


# --- Results ---


@pytest.mark.parametrize(("importance", "intervals"), [(0.5, [6, 13, 28, 60]), (0.9, [6, 17, 48, 136])])
def test_intervals_grow_with_each_success(api: Api, importance: float, intervals: list[int]) -> None:
    """Seed 004 §4.1: after the first day, 6, 13, 28 and 60 days at importance .5."""
    [memory_id] = remember(api, importance, days=300)
    at = moment(api.get(f"/v1/memories/{memory_id}").json()["next_review_at"])
    for count, interval in enumerate(intervals, 1):
        reported = review(api, memory_id, at=at)
        assert (reported["interval_days"], reported["review_count"], reported["flagged"]) == (interval, count, False)
        assert moment(reported["reviewed_at"]) == at
        at = moment(reported["next_review_at"])
        assert at - moment(reported["reviewed_at"]) == timedelta(days=interval)
        shown = api.get(f"/v1/memories/{memory_id}").json()
        assert (shown["next_review_at"], shown["review"]["interval_days"]) == (reported["next_review_at"], interval)


def test_a_passed_review_is_a_use(api: Api) -> None:
    [memory_id] = remember(api, 0.5, days=10)
    before = api.get(f"/v1/memories/{memory_id}").json()
    reported = review(api, memory_id)
    strength = reported["strength"]
    assert strength["before"] == pytest.approx(before["strength"], abs=1e-5)
    assert strength["after"] == pytest.approx(strength["before"] + 0.15 * (1 - strength["before"]))
    after = api.get(f"/v1/memories/{memory_id}").json()
    assert (before["access_count"], after["access_count"]) == (0, 1)
    assert after["strength"] == pytest.approx(strength["after"], abs=1e-5)
    assert session(api)["total"] == 0


def test_a_failed_review_starts_again_and_leaves_strength_alone(api: Api) -> None:
    [memory_id] = remember(api, 0.5, days=10)
    start = datetime.now(UTC) - timedelta(days=8)
    assert review(api, memory_id, at=start)["interval_days"] == 6
    reported = review(api, memory_id, "failed")
    assert (reported["interval_days"], reported["review_count"], reported["flagged"]) == (1, 2, True)
    assert reported["strength"]["before"] == reported["strength"]["after"]
    memory = api.get(f"/v1/memories/{memory_id}").json()
    assert (memory["access_count"], memory["review"]["flagged"]) == (1, True)
    reported = review(api, memory_id)
    assert (reported["interval_days"], reported["flagged"]) == (6, False)


def test_the_same_result_told_again_changes_nothing(api: Api) -> None:
    api.tenant = api.service.tenant(Policy(importance=SALIENCE_ALONE))
    [memory_id] = remember(api, 0.5, days=10)
    for result, count in (("passed", 1), ("failed", 2)):
        first, again = review(api, memory_id, result), review(api, memory_id, result)
        assert (first["changed"], again["changed"]) == (True, False)
        kept = ("review_count", "interval_days", "next_review_at", "reviewed_at", "flagged")
        assert [again[name] for name in kept] == [first[name] for name in kept]
        assert again["review_count"] == count
    assert api.get(f"/v1/memories/{memory_id}").json()["access_count"] == 1


def test_of_the_same_result_told_at_once_one_counts(api: Api) -> None:
    api.tenant = api.service.tenant(Policy(importance=SALIENCE_ALONE))
    [memory_id] = remember(api, 0.5, days=10)
    with ThreadPoolExecutor(8) as pool:
        reported = list(pool.map(lambda _: review(api, memory_id), range(8)))
    assert sorted(outcome["changed"] for outcome in reported) == [False] * 7 + [True]
    assert {outcome["review_count"] for outcome in reported} == {1}
    assert api.get(f"/v1/memories/{memory_id}").json()["access_count"] == 1
    assert api.service.one("SELECT count(*) FROM memory_events WHERE kind = 'review_passed'") == 1


def test_a_review_told_late_counts_when_it_was(api: Api) -> None:
    [memory_id] = remember(api, 0.5, days=10)
    at = datetime.now(UTC) - timedelta(days=3)
    assert moment(review(api, memory_id, at=at)["reviewed_at"]) == at
    assert review(api, memory_id, at=at)["changed"] is False
    assert review(api, memory_id, at=at - timedelta(days=1))["changed"] is False
    contradiction = api.post(
        f"/v1/reviews/{memory_id}", json={"result": "failed", "at": (at - timedelta(seconds=1)).isoformat()}
    )
    assert contradiction.status_code == 409
    fields(contradiction)


def test_a_moment_that_cannot_be_is_the_nearest_that_can(api: Api) -> None:
    [memory_id, other] = remember(api, 0.5, 0.5, days=10)
    ahead = review(api, memory_id, at=datetime(2200, 1, 1, tzinfo=UTC))
    assert moment(ahead["reviewed_at"]) < datetime(2200, 1, 1, tzinfo=UTC)
    assert (
        review(api, other, at=datetime(1, 1, 1, tzinfo=UTC))["reviewed_at"]
        == (api.get(f"/v1/memories/{other}").json()["created_at"])
    )


@pytest.mark.parametrize("profile", ["spec", "mnemex", "cmm", "memory_decay"])
def test_every_profile_has_reviews(api: Api, profile: str) -> None:
    api.tenant = api.service.tenant(Policy(forgetting=Forgetting(profile=profile)))
    [memory_id] = remember(api, 0.5, days=20)
    assert ids(session(api)) == [memory_id]
    reported = review(api, memory_id)
    assert reported["strength"]["after"] >= reported["strength"]["before"]
    assert session(api)["total"] == 0


def test_a_review_brings_its_row_to_todays_policy(api: Api) -> None:
    """A `next_due_at` computed under another policy could be too late under the current one."""
    [memory_id] = remember(api, 0.5, days=10)
    api.service.rows("UPDATE memory_state SET next_due_at = now() + interval '300 days'")
    body = PLAIN.model_copy(update={"forgetting": Forgetting(profile="cmm")}).model_dump_json()
    api.service.rows(
        "INSERT INTO policies (tenant_id, version, body, effective_at) VALUES (%s, 2, %s::jsonb, now())",
        api.tenant.tenant_id,
        body,
    )
    review(api, memory_id)
    [(version, is_due)] = api.service.rows("SELECT policy_version, next_due_at = '-infinity' FROM memory_state")
    assert (version, is_due) == (2, True)


def test_what_names_no_memory_is_404_and_what_waits_503(api: Api) -> None:
    for name in ("x", str(uuid4()), "%00"):
        assert api.post(f"/v1/reviews/{name}", json={"result": "passed"}).status_code == 404
    [waiting] = api.remember("waits", work=False)
    answer = api.post(f"/v1/reviews/{waiting}", json={"result": "passed"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


def test_an_alias_is_reviewed_as_its_memory(api: Api) -> None:
    [first] = api.remember({"text": "one", "external_id": "k"})
    [alias] = api.remember({"text": "two", "external_id": "k"})
    assert UUID(review(api, alias)["id"]) == UUID(first)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "result"),
        ({"result": "x"}, "result"),
        ({"result": "passed", "at": "2026-03-07T12:00:00"}, "at"),
        ({"result": "passed", "at": "0001-01-01T00:00:00+14:00"}, "at"),
        ({"result": "passed", "score": 1}, "score"),
    ],
)
def test_a_bad_result_is_422_with_its_field(api: Api, body: dict[str, Any], field: str) -> None:
    [memory_id] = remember(api, 0.5)
    answer = api.post(f"/v1/reviews/{memory_id}", json=body)
    assert (answer.status_code, fields(answer)) == (422, [field])
    assert api.service.rows("SELECT * FROM reviews") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [({"by": "x"}, "by"), ({"limit": 0}, "limit"), ({"limit": 1001}, "limit"), ({"subject": "a\0"}, "subject")],
)
def test_a_bad_question_is_422_with_its_parameter(api: Api, query: dict[str, Any], field: str) -> None:
    answer = api.get("/v1/reviews", params=query)
    assert (answer.status_code, fields(answer)) == (422, [field])
