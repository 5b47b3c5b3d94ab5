"""Exports: everything stored about one subject and nothing about others; deleted on expiry and on erasure."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from app.clients.object_store import cold_store
from app.domain.ingest.bodies import decode
from app.domain.ingest.envelope import pack
from app.domain.ingest.memory import MemoryPatch
from app.domain.jobs import Job
from app.domain.privacy import export as shapes
from app.domain.privacy.legal_hold import Scope
from app.domain.strength.links import NewLink
from app.errors import Conflict, NotFound, Unavailable
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.jobs import runner
from app.services.memories import links, memories
from app.services.privacy import export_archive, export_job, export_requests, legal_holds
from app.services.security import audit, encryption_keys
from app.store.core import database
from app.store.ingest import dead_letters
from app.store.ingest.dead_letters import UnstoredEntry
from tests.service import Service
from tests.services.cold_due import Chilled, aged, chilled
from tests.services.export_store import Vault, vault
from tests.services.ingest.import_store import Importer
from tests.waiting import PATIENCE_SECONDS

__all__ = ["aged", "chilled", "vault"]

ANN: dict[str, Any] = {
    "text": "w0text likes gooseberries",
    "subject": "ann",
    "thread": "w0thread",
    "speaker": "w0speaker",
    "external_id": "w0external",
    "tags": ["w0tag"],
    "categories": ["w0category"],
    "entities": ["w0entity"],
    "metadata": {"w0metadata": 1.50, "deep": [None]},
    "salience": 0.7,
    "kind": "semantic",
    "occurred_at": "2026-03-01T10:00:00+00:00",
    "role": "assistant",
}
WORDS = set(re.findall(r"w0\w+", json.dumps(ANN)))
BOB = {"text": "w1text of Bob", "subject": "bob", "thread": "w0thread", "speaker": "w1speaker", "tags": ["w1tag"]}
KEYS = "SELECT count(*) FROM ebbing_keys.record_keys WHERE tenant_id = %s"
NIGHT = datetime(2100, 1, 1, tzinfo=UTC)


def night(vault: Vault, as_of: datetime) -> None:
    """Complete a night's housekeeping of exports."""
    state: dict[str, Any] = {}
    for _ in range(10):
        step = export_requests.run_slice(vault.tenant_id, as_of, state, 0)
        state = step.state
        if step.finished:
            return
    raise AssertionError("housekeeping without an end")


@pytest.mark.acceptance(15)
def test_an_access_export_has_everything_held_and_nothing_of_others(vault: Vault) -> None:
    service, tenant_id = vault.service, vault.tenant_id
    named = {"text": "hidden w2hidden, my sister Ingrid lives at 12 Oak Street", "subject": "ann"}
    first, second, _ = vault.remember(ANN, named, BOB)
    memories.delete(tenant_id, second)
    service.rows("INSERT INTO links (tenant_id, memory_id, other_id, kind) VALUES (%s, %s, %s, 'w3link')",
                 tenant_id, first, second)  # fmt: skip
    service.rows("INSERT INTO memory_events (tenant_id, memory_id, at, kind, before, after) "
                 "VALUES (%s, %s, now(), 'salience', 0.25, 0.7)", tenant_id, first)  # fmt: skip
    service.rows("INSERT INTO reviews (tenant_id, memory_id, due_at, interval_days, reviewed_at) "
                 "VALUES (%s, %s, now(), 17, now())", tenant_id, first)  # fmt: skip
    service.rows("INSERT INTO usage (tenant_id, day, purpose, host, model, calls) "
                 "VALUES (%s, now(), 'score', 'w4.example', 'm', 2)", tenant_id)  # fmt: skip
    merge = "SELECT %s, gen_random_uuid(), gen_random_uuid(), 'link', 'done', 'light', 1, 4, now(), '{w5point}'"
    service.rows("INSERT INTO merges (tenant_id, merge_id, run_id, action, status, level, cohesion, sources, "
                 f"created_at, key_points) {merge}", tenant_id)  # fmt: skip
    service.rows("INSERT INTO lineage (tenant_id, merge_id, memory_id, text_version, part) "
                 "SELECT tenant_id, merge_id, %s, 1, 'source' FROM merges", first)  # fmt: skip
    with database.tenant(tenant_id) as tx:
        dead_letters.add(tx, tenant_id, stage="index", reason="w6letter", attempts=3, memory_ids=[first])
        body = msgspec.json.encode({"text": "w7 unstored", "subject": "ann"})
        _, memories_given, _, header, *_ = pack(bytes(16), 1, "json", "", body)
        unstored = UnstoredEntry("1-0", "1-0", bytes(header), body, int(memories_given))
        dead_letters.add(tx, tenant_id, stage="drain", reason="x", attempts=3, unstored=unstored)
    legal_holds.place_hold(tenant_id, Scope(memory_ids=[first]), "secret w1reason", "key")
    service.send(tenant_id, {"text": "w8 pending", "subject": "ann"}, {"text": "w1 pending", "subject": "bob"})
    export = vault.made()
    assert (export.status, export.counts["memories.jsonl"], export.counts["hidden"]) == ("ready", 2, 1)
    files = vault.opened(export)
    everything = b"".join(files.values()).decode()
    for word in (*WORDS, "w2hidden", "w3link", "w4.example", "w5point", "w6letter", "w7", "w8"):
        assert word in everything, word
    assert "w1" not in everything
    lines = {line["memory"]["memory_id"]: line for line in vault.lines(export, "memories.jsonl")}
    reported = lines[str(first)]
    assert reported["held"]
    assert reported["memory"]["metadata"] == ANN["metadata"]
    assert (reported["retention"]["rule"], reported["tier"]) == ("hold", "active")
    assert 0 < reported["strength"] <= 1
    assert reported["state"]["salience"] == pytest.approx(0.7)
    assert reported["others"]["reviews"][0]["interval_days"] == 17
    assert reported["others"]["lineage"][0]["part"] == "source"
    assert reported["identities"] == {}
    hidden = lines[str(second)]
    assert hidden["identities"] == {"person_name": 1, "street_address": 1}
    assert (hidden["hidden"], hidden["strength"], hidden["tier"]) == (True, None, "active")
    assert [line["before"] for line in vault.lines(export, "history.jsonl") if line["kind"] == "salience"] == [0.25]
    manifest = json.loads(files.pop("manifest.json"))
    assert [(each["host"], each["purposes"]) for each in manifest["recipients"]] == [("w4.example", ["score"])]
    assert b"w4.example" in files["index.html"]
    assert {each["name"]: each["sha256"] for each in manifest["files"]} == {
        name: sha256(content).hexdigest() for name, content in files.items()
    }


@pytest.mark.acceptance(15)
def test_a_portable_export_validates_against_its_schema_and_can_be_sent_again(vault: Vault) -> None:
    vault.remember(ANN, BOB, {"text": "plain", "subject": "ann"})
    vault.service.send(vault.tenant_id, {"text": "waits", "subject": "ann", "embedding": [1.0] * 256})
    export = vault.made("portable")
    files = vault.opened(export)
    assert set(files) == {"given.jsonl", "given.schema.json", "index.html", "manifest.json"}
    given = {line["text"]: line for line in vault.lines(export, "given.jsonl")}
    assert set(given) == {ANN["text"], "plain", "waits"}
    assert {name: value for name, value in given[ANN["text"]].items() if name != "occurred_at"} == {
        name: value for name, value in ANN.items() if name != "occurred_at"
    }
    assert datetime.fromisoformat(given[ANN["text"]]["occurred_at"]) == datetime.fromisoformat(ANN["occurred_at"])
    schema = json.loads(files["given.schema.json"])
    for line in given.values():
        assert valid(schema, line)
    assert not valid(schema, {"text": "x", "occurred_at": "2026-01-01T00:00:00Z", "strength": 1})
    assert not valid(schema, {"text": "x"})
    again = decode(files["given.jsonl"], "ndjson", dimensions=None)
    assert {each.text for each in again} == set(given)


def test_messages_that_wait_or_could_not_be_stored_are_exported_as_memories(vault: Vault) -> None:
    tenant_id = vault.tenant_id
    messages = [
        {"role": "system", "content": "w2 system"},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "w3", "name": "Ann"},
    ]
    body = msgspec.json.encode({"subject": "ann", "messages": messages})
    vault.service.post(tenant_id, body, memories=2)
    _, count, _, header, *_ = pack(bytes(16), 2, "json", "", body)
    with database.tenant(tenant_id) as tx:
        unstored = UnstoredEntry("1-0", "1-0", bytes(header), body, int(count))
        dead_letters.add(tx, tenant_id, stage="drain", reason="x", attempts=3, unstored=unstored)
    expected = [("w2 system", "system", None), ("w3", "user", "Ann")]
    given = vault.lines(vault.made("portable"), "given.jsonl")
    assert [(each["text"], each["role"], each.get("speaker")) for each in given] == expected * 2
    lines = [line["given"] for line in vault.lines(vault.made(), "pending.jsonl")]
    assert [(each["text"], each["role"], each["speaker"]) for each in lines] == expected


def valid(schema: dict[str, Any], value: Any) -> bool:
    """Return True if the value matches a JSON Schema that uses only the keywords of ours."""
    if "anyOf" in schema:
        return any(valid(each, value) for each in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "number": (int, float), "null": type(None)}
    if not isinstance(value, kinds[schema["type"]]):
        return False
    if schema["type"] == "array":
        return all(valid(schema["items"], each) for each in value)
    if schema["type"] == "object" and "properties" in schema:
        assert schema["additionalProperties"] is False
        return set(schema["required"]) <= value.keys() <= schema["properties"].keys() and all(
            valid(schema["properties"][name], each) for name, each in value.items()
        )
    return True


def test_the_page_is_escaped_and_works_from_disk(vault: Vault) -> None:
    vault.remember({"text": "<script>alert('x')</script> & more", "subject": "ann<b>", "tags": ["<i>"]})
    page = vault.opened(vault.made(subject="ann<b>"))["index.html"].decode()
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; more" in page
    assert not re.search(r"<script|<b>|<i>|https?:|src=|href=(?!\"#)", page)


@pytest.mark.acceptance(15)
def test_nothing_can_be_read_without_the_key_and_nothing_is_there_after_a_week(vault: Vault) -> None:
    vault.remember(ANN)
    export = vault.made()
    assert export.expires_at - (export.finished_at or NIGHT) == timedelta(days=7)
    assert vault.objects()
    assert not any(b"gooseberries" in path.read_bytes() for path in vault.objects())
    night(vault, export.expires_at - timedelta(minutes=1))
    assert vault.opened(export)
    night(vault, export.expires_at)
    assert vault.objects() == []
    over = export_requests.get(vault.tenant_id, export.export_id)
    assert (over.status, over.subject, over.reason) == ("expired", None, None)
    assert vault.service.one(KEYS, vault.tenant_id) == 0
    with pytest.raises(Conflict, match="expired"):
        export_archive.stream_archive(vault.tenant_id, export.export_id, "key")
    night(vault, NIGHT)
    with pytest.raises(NotFound):
        export_requests.get(vault.tenant_id, export.export_id)


@pytest.mark.acceptance(15)
@pytest.mark.parametrize("scope", ["subject", "memory"])
def test_exports_are_erased_with_the_subject(vault: Vault, scope: str) -> None:
    [memory_id] = vault.remember(ANN)
    vault.remember(BOB)
    export, of_bob = vault.made(), vault.made(subject="bob")
    meant = ("ann", []) if scope == "subject" else (None, [memory_id])
    assert export_requests.forget(vault.tenant_id, *meant) == 1
    assert export_requests.forget(vault.tenant_id, *meant) == 0
    assert {path.parent.name for path in vault.objects()} == {str(of_bob.export_id)}
    with pytest.raises(Conflict):
        export_archive.stream_archive(vault.tenant_id, export.export_id, "key")
    assert "ann" not in json.dumps(vault.service.rows("SELECT to_json(exports)::text FROM exports"))


def test_the_destroyed_key_of_a_person_makes_their_exports_unreadable(vault: Vault) -> None:
    vault.remember(ANN)
    export = vault.made()
    with database.tenant(vault.tenant_id) as tx:
        encryption_keys.destroy_keys(tx, vault.tenant_id, "ann")
    with pytest.raises(Conflict):
        export_archive.stream_archive(vault.tenant_id, export.export_id, "key")


def test_an_export_whose_subject_is_erased_meanwhile_stops_and_leaves_nothing(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.remember(ANN)
    asked = vault.ask()
    put = export_job._put

    def erased_meanwhile(*given: Any) -> str:
        export_requests.forget(vault.tenant_id, "ann")
        return put(*given)

    monkeypatch.setattr(export_job, "_put", erased_meanwhile)
    vault.work(asked.job_id)
    assert vault.status(asked.job_id) == "failed"
    assert vault.objects() == []


def test_what_is_being_erased_is_in_no_export_and_who_is_gets_none(vault: Vault) -> None:
    first, _ = vault.remember(ANN, {"text": "stays", "subject": "ann"})
    requests.request(vault.tenant_id, ErasureOptions(Scope(memory_ids=[first]), "gdpr", 7), "key")
    vault.service.rows("UPDATE erasures SET status = 'running'")
    export = vault.made()
    assert [line["memory"]["text"] for line in vault.lines(export, "memories.jsonl")] == ["stays"]
    assert b"w0text" not in b"".join(vault.opened(export).values())
    requests.request(vault.tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 7), "key")
    asked = vault.ask()
    vault.service.rows("UPDATE erasures SET status = 'running'")
    with pytest.raises(Conflict, match="being erased"):
        vault.ask()
    vault.work(asked.job_id)
    assert vault.status(asked.job_id) == "failed"
    assert export_requests.get(vault.tenant_id, asked.export_id).status == "failed"


@pytest.mark.parametrize("where", ["put", "note"])
def test_a_crash_between_two_writes_leaves_neither_gap_nor_double(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    vault.service.rows  # noqa: B018 - opened before anything is patched
    vault.remember(*({"text": f"memory {n}", "subject": "ann"} for n in range(25)))
    monkeypatch.setattr(export_job, "ROWS", 10)
    monkeypatch.setattr(shapes, "PART_BYTES", 4000)
    place = "export.after_put" if where == "put" else "job.before_note"
    monkeypatch.setattr(export_job, "STEP_SECONDS", 0)
    left = [2]

    def reach(name: str, _about: str = "") -> None:
        if name == place and left[0]:
            left[0] -= 1
            raise MemoryError

    monkeypatch.setattr("app.failpoints.trigger", reach)
    asked = vault.ask()
    for _ in range(2):
        vault.service.rows("UPDATE jobs SET claim = gen_random_uuid(), claimed_until = now()")
        with pytest.raises(MemoryError):
            runner.run_slice(asked.job_id)
    vault.work(asked.job_id)
    texts = [
        line["memory"]["text"] for line in vault.lines(export_requests.get(vault.tenant_id, asked.export_id), FILE)
    ]
    assert texts == [f"memory {n}" for n in range(25)]
    assert len(vault.objects()) == len(export_requests.get(vault.tenant_id, asked.export_id).parts) > 3


FILE = "memories.jsonl"


@pytest.mark.parametrize(("slow", "others_seconds"), [("_live", 0), ("_live", 1000), ("_put", 0), ("_put", 1000)])
def test_a_worker_whose_lease_lapsed_does_not_damage_what_the_next_worker_wrote(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, slow: str, others_seconds: float
) -> None:
    """The slow worker has read a page with a long first memory; the next one finds it short, so its parts differ."""
    long = "memory 0 " + "long " * 1000
    first, *_ = vault.remember(*({"text": long if not n else f"memory {n}", "subject": "ann"} for n in range(25)))
    monkeypatch.setattr(export_job, "ROWS", 10)
    monkeypatch.setattr(export_job, "STEP_SECONDS", 0)
    monkeypatch.setattr(shapes, "PART_BYTES", 5000)
    asked = vault.ask()
    job = Job(asked.job_id, vault.tenant_id, export_requests.KIND, {"export_id": str(asked.export_id)}, {}, None, 0)
    while export_requests.get(vault.tenant_id, asked.export_id).place["section"] < 2:
        export_job.run_job_slice(job)
    function = getattr(export_job, slow)
    left = [1]

    def overtaken(*given: Any) -> Any:
        if left:
            left.pop()
            memories.edit_memory(vault.tenant_id, first, MemoryPatch(text="memory 0"))
            monkeypatch.setattr(export_job, "STEP_SECONDS", others_seconds)
            for _ in range(2):
                assert export_job.run_job_slice(job).failure is None
        return function(*given)

    monkeypatch.setattr(export_job, slow, overtaken)
    assert export_job.run_job_slice(job).failure is None
    assert not left
    vault.work(asked.job_id)
    export = export_requests.get(vault.tenant_id, asked.export_id)
    assert export.status == "ready"
    assert [line["memory"]["text"] for line in vault.lines(export, FILE)] == [f"memory {n}" for n in range(25)]
    assert len(vault.objects()) == len(export.parts)


def test_an_export_of_the_previous_version_is_read_and_continued(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """The previous version named objects by the parts' numbers, and its rows don't list them."""
    vault.remember(*({"text": f"memory {n}", "subject": "ann"} for n in range(25)))
    monkeypatch.setattr(export_job, "ROWS", 10)
    monkeypatch.setattr(export_job, "STEP_SECONDS", 0)
    asked = vault.ask()
    job = Job(asked.job_id, vault.tenant_id, export_requests.KIND, {"export_id": str(asked.export_id)}, {}, None, 0)
    while len(export_requests.get(vault.tenant_id, asked.export_id).parts) < 2:
        export_job.run_job_slice(job)
    for path in vault.objects():
        path.rename(path.with_name(path.name.partition("-")[0]))
    vault.service.rows("UPDATE exports SET place = place - 'objects'")
    vault.work(asked.job_id)
    export = export_requests.get(vault.tenant_id, asked.export_id)
    assert [name.partition("-")[2] == "" for name in export.objects[:3]] == [True, True, False]
    assert [line["memory"]["text"] for line in vault.lines(export, FILE)] == [f"memory {n}" for n in range(25)]
    assert len(vault.objects()) == len(export.parts)


def test_objects_of_a_writer_that_was_killed_are_deleted_by_night(vault: Vault) -> None:
    lost = export_requests.part_path(vault.tenant_id, UUID(int=7), "000000")
    cold_store().put(lost, b"x")
    kept = vault.made()
    night(vault, kept.requested_at)
    assert [path.parent.name for path in vault.objects()] == [str(kept.export_id)] * len(kept.parts)


def test_cold_memories_are_fetched_and_damaged_ones_named(chilled: Chilled) -> None:
    first, second = chilled.remember("a long story of w0cold. " * 50, "another " * 200, subject="ann")
    chilled.cool()
    assert chilled.tiers(first, second) == ["cold", "cold"]
    service = chilled.service
    service.rows("DELETE FROM ebbing_keys.record_keys USING cold_memories AS cold "
                 "WHERE record_keys.key_id = cold.key_id AND memory_id = %s", second)  # fmt: skip
    house = Vault(service, Path(chilled.folder))
    house.tenant_id = chilled.tenant_id
    export = house.made()
    lines = {line["memory"]["memory_id"]: line for line in house.lines(export, FILE)}
    assert lines[str(first)]["memory"]["text"] == "a long story of w0cold. " * 50
    assert lines[str(first)]["memory"]["metadata"] == {"n": 1.5, "deep": [None]}
    assert lines[str(second)]["damaged"] == "its key was destroyed"
    assert json.loads(house.opened(export)["manifest.json"])["damaged"] == [str(second)]
    assert chilled.tiers(first, second) == ["cold", "cold"]
    given = {line["text"] for line in house.lines(house.made("portable"), "given.jsonl")}
    assert "a long story of w0cold. " * 50 in given


def test_an_export_says_what_is_missing_and_when_it_isnt_ready(vault: Vault) -> None:
    asked = vault.ask()
    with pytest.raises(Unavailable):
        export_archive.stream_archive(vault.tenant_id, asked.export_id, "key")
    with pytest.raises(NotFound):
        export_requests.get(vault.service.tenant().tenant_id, asked.export_id)
    vault.service.configure(master_key="")
    with pytest.raises(Conflict, match="EBBING_MASTER_KEY isn't set"):
        vault.ask()


def test_who_has_too_much_is_told_so(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.remember(ANN, ANN | {"external_id": "other"})
    monkeypatch.setattr(export_requests, "MEMORIES_MAX", 1)
    with pytest.raises(Conflict, match="2 memories, and an export has at most 1"):
        vault.ask()


def test_each_step_of_an_export_is_audited_without_a_name(vault: Vault) -> None:
    export = vault.made()
    vault.opened(export)
    night(vault, export.expires_at)
    found = vault.service.rows("SELECT action, details::text FROM audit ORDER BY seq")
    assert [action for action, _ in found if "export" in action] == [
        *("export_requested", "export_fetched", "export_removed"),
    ]
    assert "ann" not in str(found)
    assert audit.verify(vault.tenant_id).broken is None


@pytest.fixture(autouse=True)
def _quick(service: Service) -> None:
    service.configure(slice_seconds=PATIENCE_SECONDS)


def test_links_of_an_export_are_imported_those_of_cold_memories_too(chilled: Chilled, tmp_path: Path) -> None:
    ids = chilled.remember("one", "two", "three", subject="ann")
    pairs = [(ids[0], ids[1]), (ids[1], ids[2])]
    links.add(chilled.tenant_id, [NewLink(*pair) for pair in pairs])
    chilled.service.rows("UPDATE memory_state SET wanted_tier = 'archived' WHERE memory_id = %s", ids[1])
    chilled.cool()
    assert chilled.tiers(*ids) == ["cold", "archived", "cold"]
    house = Vault(chilled.service, Path(chilled.folder))
    house.tenant_id = chilled.tenant_id
    lines = house.opened(house.made())["memories.jsonl"]
    importer = Importer(chilled.service, tmp_path)
    made = importer.run("ebbing", lines)
    assert made.counts == {"stored": 3, "links": 2}
    named = [importer.id_of(f"ebbing:{memory_id}") for memory_id in ids]
    assert set(
        importer.service.rows("SELECT memory_id, other_id FROM links WHERE tenant_id = %s", importer.tenant_id)
    ) == {(named[0], named[1]), (named[1], named[2])}
