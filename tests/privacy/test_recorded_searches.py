"""Recorded searches are erased with the people they found, are part of exports, and stay erased after a restore."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID
from zipfile import ZipFile

import pytest

from app.clients.object_store import cold_store
from app.domain.ingest.memory import MemoryPatch
from app.domain.search.request import SearchRequest
from app.services.erasure import requests, restore_replay
from app.services.memories import memories
from app.services.privacy import anonymisation
from app.services.search import search, search_records
from app.store.core import database
from app.store.erasure import residue
from app.store.tenants import policies
from tests.api.caller import Api
from tests.privacy import traces
from tests.privacy.drill import Drill, drill
from tests.service import Service
from tests.services.cold_due import MASTER_KEY
from tests.services.due_deletions import UNFINISHED, erased, worked

__all__ = ["drill"]

COUNT = "SELECT count(*) FROM recorded_searches"
SUBJECTS = "SELECT subject FROM recorded_searches ORDER BY searched_at"
PRIVATE = "zanzibarword"


@pytest.fixture
def api(service: Service) -> Iterator[Api]:
    with Api(service) as called:
        yield called


@pytest.fixture
def consenting(api: Api) -> dict[str, str]:
    """Ids, by name, of memories of a tenant that records its searches."""
    assert api.put("/v1/policy", json={"policy": {"record_searches": True}}).is_success
    ids = api.remember(
        {"text": "Ann rows an old boat", "subject": f"ann {PRIVATE}", "thread": f"talk {PRIVATE}"},
        {"text": "Bob sails a boat", "subject": "bob"},
        {"text": "Bob drinks tea", "subject": "bob"},
    )
    return dict(zip(("ann", "boat", "tea"), ids, strict=True))


def find(api: Api, query: str, **more: Any) -> None:
    answer = api.post("/v1/search", json={"query": query, "reinforce": False, **more})
    assert answer.json()["results"], answer.text


def erase(api: Api, **scope: Any) -> dict[str, Any]:
    """Erase immediately and return the report."""
    asked = api.post("/v1/privacy/erasures", json={"kind": "gdpr", "grace_days": 0, **scope})
    assert asked.is_success, asked.text
    worked(api.service, UNFINISHED)
    erasure_id = UUID(asked.json()["erasure_id"])
    assert requests.get(api.tenant.tenant_id, erasure_id).status == "verified"
    report: dict[str, Any] = api.get(f"/v1/privacy/erasures/{erasure_id}/report").json()
    return report


@pytest.mark.parametrize("by", ["subject", "thread", "ids"])
def test_records_of_an_erased_person_go_whole_and_others_stay(api: Api, consenting: dict[str, str], by: str) -> None:
    find(api, "boat")
    find(api, "boat", subject=f"ann {PRIVATE}")
    find(api, "boat", thread=f"talk {PRIVATE}", limit=1)
    find(api, "tea", subject="bob")
    for trace in (PRIVATE, consenting["ann"]):
        assert "public.recorded_searches" in traces.in_tables(api.service, trace)
    scope = {"subject": f"ann {PRIVATE}", "thread": f"talk {PRIVATE}", "ids": [consenting["ann"]]}[by]
    report = erase(api, **{by: scope})
    assert api.service.rows(SUBJECTS) == [("bob",)]
    assert traces.in_tables(api.service, PRIVATE) == []
    assert "public.recorded_searches" not in traces.in_tables(api.service, consenting["ann"])
    [table] = [row for row in report["stores"] if row["store"] == "table recorded_searches"]
    assert (table["found"], table["removed"], table["left"]) == (3, 3, 0)
    found = api.post("/v1/policy/replay", json={}).json()
    assert found["searches"] == 1


def test_a_record_limited_to_an_erased_person_goes_whoever_it_found(api: Api, consenting: dict[str, str]) -> None:
    find(api, "tea", subject="bob")
    find(api, "boat", subject="bob")
    answer = api.patch(f"/v1/memories/{consenting['tea']}", json={"subject": "cleo"})
    assert answer.is_success, answer.text
    api.service.rows("DELETE FROM recorded_searches WHERE NOT memory_ids <@ ARRAY[%s]::uuid[]", consenting["tea"])
    api.service.rows("UPDATE recorded_searches SET memory_ids = ARRAY[%s]::uuid[]", consenting["tea"])
    count = api.service.one(COUNT)
    report = erase(api, subject="bob")
    assert api.service.one("SELECT count(*) FROM memories WHERE subject = 'cleo'") == 1
    assert api.service.one(COUNT) == 0
    [step] = [row for row in report["stores"] if "recorded searches" in row["store"]]
    assert (step["found"], step["removed"], step["left"]) == (count, count, 0)


def test_a_deleted_memory_takes_its_records_along_when_its_grace_is_over(api: Api, consenting: dict[str, str]) -> None:
    find(api, "boat")
    find(api, "tea", subject="bob", limit=1)
    assert api.delete(f"/v1/memories/{consenting['ann']}").is_success
    erased(api.tenant.tenant_id)
    kept = api.service.rows("SELECT memory_ids FROM recorded_searches")
    assert len(kept) == 1
    assert UUID(consenting["ann"]) not in kept[0][0]


def test_an_anonymous_memory_is_in_no_record(api: Api, consenting: dict[str, str]) -> None:
    find(api, "boat")
    find(api, "tea", subject="bob", limit=1)
    anonymisation.anonymise(api.tenant.tenant_id, UUID(consenting["ann"]), "key")
    assert api.service.rows(SUBJECTS) == [("bob",)]


def test_the_residue_sweep_looks_into_records(api: Api, consenting: dict[str, str]) -> None:
    find(api, "boat", subject="bob")
    tenant_id = api.tenant.tenant_id
    with database.tenant(tenant_id) as tx:
        assert residue.by_id(tx, tenant_id, [UUID(consenting["boat"])])["recorded_searches"] == 1
        assert residue.by_id(tx, tenant_id, [UUID(consenting["ann"])])["recorded_searches"] == 0
    report = erase(api, subject="bob")
    assert report["left"]["recorded_searches"] == 0
    assert report["left"]["names in recorded searches"] == 0


def test_an_access_export_lists_times_and_ids(api: Api, consenting: dict[str, str], tmp_path: Path) -> None:
    api.service.configure(cold_url=tmp_path.as_uri(), master_key=MASTER_KEY)
    cold_store.cache_clear()
    find(api, "boat")
    find(api, "boat", subject=f"ann {PRIVATE}")
    find(api, "tea", subject="bob", limit=1)
    reported = exported(api, f"ann {PRIVATE}")
    assert [(one["about_the_subject"], one["memory_ids"]) for one in reported] == [
        (False, [consenting["ann"]]),
        (True, [consenting["ann"]]),
    ]
    times = api.service.rows("SELECT search_id::text, searched_at FROM recorded_searches ORDER BY searched_at")
    assert [(one["recorded_search"], datetime.fromisoformat(one["searched_at"])) for one in reported] == times[:2]
    cold_store.cache_clear()


def exported(api: Api, subject: str) -> list[dict[str, Any]]:
    """Return the recorded searches in a person's access export, by time."""
    asked = api.post("/v1/privacy/exports", json={"subject": subject, "kind": "access", "law": "gdpr"})
    assert asked.status_code == 202, asked.text
    worked(api.service, UNFINISHED)
    answer = api.get(f"/v1/privacy/exports/{asked.json()['id']}/file")
    with ZipFile(io.BytesIO(answer.content)) as zipped:
        lines = [json.loads(line) for line in zipped.read("service.jsonl").splitlines()]
    return sorted((line for line in lines if "recorded_search" in line), key=lambda line: str(line["searched_at"]))


def record(service: Service, tenant_id: UUID, query: str, **more: Any) -> None:
    request = SearchRequest(query, **more)
    found = search.find_memories(tenant_id, request)
    assert found.gathered is not None
    assert search_records.record_search(tenant_id, request, found.gathered, found.results, datetime.now(UTC))


def test_records_of_an_erased_person_do_not_come_back_with_an_older_copy(drill: Drill) -> None:
    with database.tenant(drill.tenant_id) as tx:
        held = policies.read_current(tx, drill.tenant_id)
        version = max(version for version, _, _ in policies.list_versions(tx, drill.tenant_id))
        policies.add(tx, drill.tenant_id, version + 1, held.model_copy(update={"record_searches": True}))
    [moved] = drill.service.send(drill.tenant_id, {"text": "Dora paints a gate", "subject": "dora"})
    drill.service.work()
    record(drill.service, drill.tenant_id, "Ann")
    record(drill.service, drill.tenant_id, "tea", subject="bob")
    record(drill.service, drill.tenant_id, "gate", subject="dora")
    memories.edit_memory(drill.tenant_id, moved, MemoryPatch(subject="eve"))
    drill.service.work()
    before = drill.service.one(COUNT)
    assert drill.service.one("SELECT count(*) FROM memories WHERE subject = 'dora'") == 0, (
        "she is named only by a recorded filter"
    )
    drill.dump()
    drill.erase(subject="ann")
    drill.erase(subject="dora")
    after = drill.service.rows(SUBJECTS)
    assert after == [("bob",)]
    drill.dump_keys()
    drill.restore()
    assert drill.service.one(COUNT) == before
    list(restore_replay.replay())
    assert drill.service.rows(SUBJECTS) == after
