"""Recorded searches over HTTP: consent, no stored text, attribution of uses, every kind of deletion."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.store.core import database
from app.store.search import recorded_searches
from app.store.tiers import row_deletion
from tests.api.caller import Api, fields
from tests.privacy import traces
from tests.service import Service
from tests.services.nights import purged

PATH = "/v1/policy"
COUNT = "SELECT count(*) FROM recorded_searches"


def consent(api: Api, *, on: bool = True, **more: Any) -> None:
    answer = api.put(PATH, json={"policy": {"record_searches": on, **more}})
    assert answer.status_code == 200, answer.text


def search(api: Api, query: str, **more: Any) -> list[str]:
    answer = api.post("/v1/search", json={"query": query, "reinforce": False, **more})
    assert answer.status_code == 200, answer.text
    return [result["id"] for result in answer.json()["results"]]


def recorded(api: Api) -> list[recorded_searches.RecordedSearch]:
    with database.tenant(api.tenant.tenant_id) as tx:
        found, _ = recorded_searches.list_newest(tx, api.tenant.tenant_id, 100)
    return found


@pytest.fixture
def talk(api: Api) -> list[str]:
    """Ids of memories about teas, from two people."""
    return api.remember(
        {"text": "I drink sage tea before breakfast", "subject": "ann"},
        {"text": "My sister grows sage and mint on her balcony", "subject": "ann", "thread": "garden"},
        {"text": "We bought a new kettle for the office tea", "subject": "bob"},
        {"text": "The train to Lisbon leaves at nine", "subject": "bob"},
    )


def test_without_consent_nothing_is_recorded(api: Api, talk: list[str]) -> None:
    assert api.get(PATH).json()["policy"]["record_searches"] is False
    assert api.get(PATH).json()["policy"]["record_searches_days"] == 14
    assert talk[0] in search(api, "sage tea")
    assert api.service.one(COUNT) == 0
    assert api.post(f"{PATH}/replay", json={}).status_code == 409


def test_a_record_holds_ids_and_numbers_but_no_text(api: Api, talk: list[str]) -> None:
    consent(api)
    ids = search(api, "Does Zebediah like sage tea?", subject="ann", limit=2)
    [found] = recorded(api)
    assert [str(found.candidates.memory_ids[place]) for place in found.results] == ids
    assert (found.subject, dict(found.request)) == ("ann", {"limit": 2})
    assert found.vector is not None
    assert found.space_id is not None
    assert sorted(found.terms) == ["sage", "tea"], "only words that occur in memories are recorded"
    for word in ("zebediah", "sage", "tea", "breakfast", "balcony"):
        assert "public.recorded_searches" not in traces.in_tables(api.service, word)
    assert "public.words" in traces.in_tables(api.service, "sage"), "the byte search does find stored words"


def test_a_search_without_candidates_or_of_another_moment_is_not_recorded(api: Api, talk: list[str]) -> None:
    consent(api)
    assert search(api, "zebediah", mode="lexical") == []
    assert search(api, "sage tea", as_of="2030-01-01T00:00:00Z")
    assert api.service.one(COUNT) == 0


def test_uses_that_callers_report_attach_to_the_search(api: Api, talk: list[str]) -> None:
    consent(api)
    ids = search(api, "sage tea", session="morning")
    assert api.post("/v1/observations", json={"memories": [ids[1]], "session": "morning"}).status_code == 202
    assert api.post(f"/v1/memories/{ids[0]}/touch").status_code == 200
    api.service.work()
    [found] = recorded(api)
    assert sorted(found.used) == [0, 1]


def test_uses_by_searches_themselves_do_not_attach(api: Api, talk: list[str]) -> None:
    consent(api)
    api.post("/v1/search", json={"query": "sage tea", "reinforce": True})
    api.service.work()
    assert api.service.one("SELECT count(*) FROM memory_events WHERE kind = 'use'") > 0
    [found] = recorded(api)
    assert list(found.used) == []


def test_a_use_belongs_to_the_latest_search_of_its_session_that_showed_the_memory(api: Api, talk: list[str]) -> None:
    consent(api)
    ids = search(api, "sage tea", session="one", limit=2)
    search(api, "sage tea", session="two", limit=2)
    search(api, "train to Lisbon", session="one", limit=1)
    api.post(f"/v1/memories/{ids[0]}/touch", json={"session": "one"})
    assert [bool(found.used) for found in recorded(api)] == [True, False, False]
    api.post(f"/v1/memories/{ids[0]}/touch", json={"session": "three"})
    assert [bool(found.used) for found in recorded(api)] == [True, False, False], (
        "a use in another session isn't attributed"
    )
    api.post(f"/v1/memories/{ids[1]}/touch")
    assert [list(found.used) for found in recorded(api)] == [[0], [1], []], (
        "without a session, the latest search that showed it"
    )


def test_a_use_long_after_a_search_does_not_attach(api: Api, talk: list[str]) -> None:
    consent(api)
    ids = search(api, "sage tea")
    api.service.rows("UPDATE recorded_searches SET searched_at = searched_at - interval '61 minutes'")
    api.post(f"/v1/memories/{ids[0]}/touch")
    [found] = recorded(api)
    assert list(found.used) == []


@pytest.mark.parametrize("way", ["field", "preset", "default"])
def test_withdrawn_consent_deletes_the_records_at_once(api: Api, talk: list[str], way: str) -> None:
    consent(api)
    search(api, "sage tea")
    assert api.service.one(COUNT) == 1
    if way == "field":
        consent(api, on=False)
    elif way == "preset":
        answer = api.put(PATH, json={"preset": "development", "policy": {"record_searches": None}})
        assert answer.status_code == 200
    else:
        whole = api.get(PATH, params={"version": 1}).json()["policy"]
        assert api.put(PATH, json={"policy": whole}).status_code == 200, "restore the previous version"
    assert api.service.one(COUNT) == 0
    search(api, "sage tea")
    assert api.service.one(COUNT) == 0


def test_another_change_leaves_the_records(api: Api, talk: list[str]) -> None:
    consent(api)
    search(api, "sage tea")
    assert api.put(PATH, json={"policy": {"ranking": {"role": 0.5}}}).status_code == 200
    assert api.service.one(COUNT) == 1


def test_a_search_that_read_the_policy_before_consent_was_withdrawn_is_not_recorded(
    api: Api, talk: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    consent(api)
    add = recorded_searches.add

    def withdraw(*given: Any) -> bool:
        with_lock = api.service.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'")
        assert with_lock > 0, "the search holds the lock that a policy change waits for"
        version = api.service.one("SELECT max(version) FROM policies") + 1
        api.service.rows(
            "INSERT INTO policies (tenant_id, version, body, effective_at) "
            "SELECT tenant_id, %s, body || '{\"record_searches\": false}', clock_timestamp() FROM policies "
            "ORDER BY version DESC LIMIT 1",
            version,
        )
        return add(*given)

    monkeypatch.setattr(recorded_searches, "add", withdraw)
    search(api, "sage tea")
    assert api.service.one(COUNT) == 0


def test_records_expire_after_the_policys_days_and_without_consent(api: Api, talk: list[str]) -> None:
    consent(api, record_searches_days=3)
    for query in ("sage tea", "mint", "kettle"):
        search(api, query)
    api.service.rows(
        "UPDATE recorded_searches SET searched_at = searched_at - interval '73 hours' WHERE search_id = "
        "(SELECT search_id FROM recorded_searches ORDER BY searched_at LIMIT 1)"
    )
    purged(api.tenant.tenant_id)
    assert api.service.one(COUNT) == 2
    api.service.rows("UPDATE policies SET body = body || '{\"record_searches\": false}'")
    purged(api.tenant.tenant_id)
    assert api.service.one(COUNT) == 0, "a version without consent has come into force"


@pytest.mark.parametrize("days", [0, 91])
def test_the_retention_has_limits(api: Api, days: int) -> None:
    answer = api.put(PATH, json={"policy": {"record_searches_days": days}})
    assert answer.status_code == 422
    assert fields(answer) == ["policy.record_searches_days"]


def test_the_oldest_records_go_where_there_are_too_many(api: Api, talk: list[str]) -> None:
    consent(api)
    for query in ("sage", "mint", "kettle", "train"):
        search(api, query)
    with database.tenant(api.tenant.tenant_id) as tx:
        assert recorded_searches.trim_records(tx, api.tenant.tenant_id, 4) == 0
        assert recorded_searches.trim_records(tx, api.tenant.tenant_id, 3) == 1
    assert [found.terms for found in recorded(api)] == [["mint"], ["kettl"], ["train"]]


def test_foreign_tenants_see_and_delete_nothing(api: Api, talk: list[str]) -> None:
    consent(api)
    ids = search(api, "sage tea")
    other = api.service.tenant()
    answer = api.put(PATH, json={"policy": {"record_searches": True}}, key=other.key)
    assert answer.status_code == 200
    found = api.post(f"{PATH}/replay", json={}, key=other.key).json()
    assert (found["searches"], found["examples"]) == (0, [])
    with database.tenant(other.tenant_id) as tx:
        assert tx.exec_driver_sql(COUNT).scalar_one() == 0, "row-level security hides other tenants' records"
        assert recorded_searches.list_newest(tx, api.tenant.tenant_id, 10) == (
            [],
            {"other_layout": 0, "hidden_memories": 0},
        )
        assert recorded_searches.delete_with(tx, api.tenant.tenant_id, [UUID(each) for each in ids]) == 0
    assert api.service.one(COUNT) == 1


def test_a_removed_memory_takes_the_whole_record_along(api: Api, service: Service, talk: list[str]) -> None:
    consent(api)
    search(api, "sage tea")
    search(api, "train to Lisbon", subject="bob")
    gone = UUID(talk[0])
    with database.tenant(api.tenant.tenant_id) as tx:
        row_deletion.remove(tx, api.tenant.tenant_id, [gone])
    [left] = recorded(api)
    assert left.subject == "bob"
    assert gone not in left.candidates.memory_ids


def test_a_search_during_a_removal_is_not_recorded(api: Api, talk: list[str]) -> None:
    consent(api)
    with database.tenant(api.tenant.tenant_id) as tx:
        recorded_searches.lock(tx, api.tenant.tenant_id)
        assert search(api, "sage tea"), "the search is still answered"
    assert api.service.one(COUNT) == 0
    search(api, "sage tea")
    assert api.service.one(COUNT) == 1


def test_a_record_is_not_added_once_a_candidate_is_hidden(
    api: Api, talk: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    consent(api)
    add = recorded_searches.add

    def hide(*given: Any) -> bool:
        assert api.delete(f"/v1/memories/{talk[0]}").is_success
        return add(*given)

    monkeypatch.setattr(recorded_searches, "add", hide)
    search(api, "sage tea")
    assert api.service.one(COUNT) == 0


def test_a_record_with_a_hidden_memory_is_not_replayed(api: Api, talk: list[str]) -> None:
    consent(api)
    search(api, "sage tea")
    search(api, "train to Lisbon", subject="bob")
    assert api.delete(f"/v1/memories/{talk[0]}").is_success
    found = api.post(f"{PATH}/replay", json={}).json()
    assert (found["searches"], found["left_out"]) == (1, {"hidden_memories": 1})
