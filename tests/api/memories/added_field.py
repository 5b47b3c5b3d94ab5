"""Cases of `test_added_field.py`, which runs them where memories have the fields `place` and `aliases`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from app.domain.privacy.export import line_schema
from app.domain.privacy.legal_hold import Scope
from app.services.privacy import anonymisation, legal_holds
from app.services.tiers import cold_restore
from app.store.core import database
from app.store.tiers import cold_segments
from tests.api.caller import Api
from tests.services.cold_due import LONG, Chilled, aged, chilled
from tests.services.export_store import Vault, vault

__all__ = ["aged", "chilled", "vault"]

ADDED = {"place": "Porto", "aliases": ["Annie", "A."]}
NOTHING: dict[str, Any] = {"place": None, "aliases": []}
GIVEN = {"text": "Ann met Bo at the harbour", "subject": "ann", **ADDED}


def shown(api: Api, memory_id: object) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/v1/memories/{memory_id}").raise_for_status().json()
    return found


def added(memory: dict[str, Any]) -> dict[str, Any]:
    return {name: memory[name] for name in ADDED}


def test_it_is_shown_while_pending_and_after_the_copy(api: Api) -> None:
    [memory_id] = api.remember(GIVEN, work=False)
    pending = shown(api, memory_id)
    assert (pending["status"], added(pending)) == ("pending", ADDED)
    api.service.work()
    stored = shown(api, memory_id)
    assert (stored["status"], added(stored)) == ("embedded", ADDED)
    assert list(stored) == list(pending)
    [listed] = api.get("/v1/memories").json()["memories"]
    assert added(listed) == ADDED


def test_it_is_empty_unless_given(api: Api) -> None:
    copied, upserted = api.remember("x", {"text": "y", "external_id": "k"})
    assert added(shown(api, copied)) == added(shown(api, upserted)) == NOTHING


def test_its_limit_is_checked(api: Api) -> None:
    for given in ({"place": "é" * 513}, {"place": "\0"}, {"aliases": [""]}):
        answer = api.post("/v1/memories", json={"text": "x", **given})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"].startswith(next(iter(given)))


def test_an_upsert_of_it_alone_updates_the_memory(api: Api) -> None:
    [memory_id] = api.remember(GIVEN | {"external_id": "k"})
    assert added(shown(api, memory_id)) == ADDED
    for change in ({"place": "Faro"}, {"aliases": ["B."]}):
        before = shown(api, memory_id)
        api.remember(GIVEN | {"external_id": "k"} | change)
        after = shown(api, memory_id)
        assert added(after) == ADDED | change
        assert before["updated_at"] != after["updated_at"]


def test_an_upsert_of_it_alone_leaves_a_memory_under_hold_unchanged(api: Api) -> None:
    [memory_id] = api.remember(GIVEN | {"external_id": "k"})
    legal_holds.place_hold(api.tenant.tenant_id, Scope(subject="ann"), "a lawsuit", "key")
    [repeated] = api.remember(GIVEN | {"external_id": "k", "place": "Faro"})
    assert [added(shown(api, each))["place"] for each in (memory_id, repeated)] == ["Porto", "Faro"]


def test_an_edit_changes_and_clears_it(api: Api) -> None:
    [memory_id] = api.remember(GIVEN)
    assert added(api.patch(f"/v1/memories/{memory_id}", json={"place": "Faro"}).json()) == ADDED | {"place": "Faro"}
    assert added(api.patch(f"/v1/memories/{memory_id}", json=NOTHING).json()) == NOTHING


def test_it_is_described(api: Api) -> None:
    schemas = api.get("/openapi.json").json()["components"]["schemas"]
    for shape in (schemas["MemoryIn"], schemas["MemoryPatch"], line_schema()):
        assert ADDED.keys() <= shape["properties"].keys()


def test_an_export_has_it(vault: Vault) -> None:
    vault.remember(GIVEN, GIVEN | {"text": "by external id", "external_id": "k"})
    for each in vault.lines(vault.made("access"), "memories.jsonl"):
        assert added(each["memory"]) == ADDED
    export = vault.made("portable")
    given = vault.lines(export, "given.jsonl")
    assert [added(each) for each in given] == [ADDED, ADDED]
    assert vault.opened(export)["index.html"].decode().count("Porto") == 2
    vault.service.send(vault.tenant_id, GIVEN)
    assert added(vault.lines(vault.made("portable"), "given.jsonl")[0]) == ADDED
    assert added(vault.lines(vault.made("access"), "pending.jsonl")[0]["given"]) == ADDED


def test_cold_storage_has_what_is_declared_as_cold_and_gives_it_back(chilled: Chilled) -> None:
    service, tenant_id = chilled.service, chilled.tenant_id
    [memory_id] = chilled.remember(LONG, subject="ann")
    service.rows("UPDATE memories SET place = 'Porto', aliases = '{Annie,A.}'")
    [whole] = chilled.rows(memory_id)
    chilled.cool()
    assert chilled.tiers(memory_id) == ["cold"]
    assert service.rows("SELECT place, aliases, entities FROM memories") == [("Porto", [], [])]
    house = Vault(service, Path(chilled.folder))
    house.tenant_id = tenant_id
    [held] = house.lines(house.made("access"), "memories.jsonl")
    [given] = house.lines(house.made("portable"), "given.jsonl")
    assert added(held["memory"]) == added(given) == ADDED
    assert cold_restore.restore(tenant_id, [memory_id]).restored == [memory_id]
    assert service.rows("SELECT place, aliases FROM memories") == [("Porto", ["Annie", "A."])]
    assert chilled.rows(memory_id) == [whole]


def test_a_record_of_before_the_field_leaves_the_row_as_it_is(chilled: Chilled) -> None:
    [memory_id] = chilled.remember(LONG)
    chilled.service.rows("UPDATE memories SET aliases = '{Annie}'")
    record = msgspec.json.encode({"text": "whole", "entities": ["Ann"], "metadata": None, "links": []}).decode()
    with database.tenant(chilled.tenant_id) as tx:
        cold_segments.refill_rows(tx, chilled.tenant_id, {memory_id: record})
    found = chilled.service.rows("SELECT text, entities, metadata, aliases FROM memories")
    assert found == [("whole", ["Ann"], None, ["Annie"])]


def test_it_is_cleared_with_the_identifying_fields(vault: Vault) -> None:
    [memory_id] = vault.remember(GIVEN)
    anonymisation.anonymise(vault.tenant_id, memory_id, "key")
    assert vault.service.rows("SELECT place, aliases FROM memories") == [(None, [])]
