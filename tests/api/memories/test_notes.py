"""`/v1/notes`, the pointer to a note in answers, and the recipients of copies."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import uuid4

from app.services.notes import note_run
from app.services.security import recipients
from app.store.core import database
from tests.api.caller import Api, fields


def promote(api: Api, *texts: str) -> list[str]:
    ids = list(api.remember(*texts))
    for memory_id in ids:
        api.post(f"/v1/memories/{memory_id}/promote", json={"force": True})
    return [str(memory_id) for memory_id in ids]


def test_notes_are_served_page_by_page(api: Api) -> None:
    ids = sorted(promote(api, "green tea", "black tea", "white tea"))
    api.remember("not promoted")
    first = api.get("/v1/notes", params={"limit": 2}).json()
    rest = api.get("/v1/notes", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    found = first["notes"] + rest["notes"]
    assert ([note["id"] for note in found], rest["next_cursor"]) == (ids, None)
    assert all(note["name"] == f"{note['id']}.md" for note in found)
    assert {note["content"].splitlines()[-1] for note in found} == {"green tea", "black tea", "white tea"}


def test_a_memory_in_cold_storage_has_no_content(api: Api) -> None:
    promote(api, "green tea")
    api.service.rows("UPDATE memory_state SET tier = 'cold'")
    assert api.get("/v1/notes").json()["notes"][0]["content"] is None


def test_a_client_with_copies_is_a_recipient(api: Api) -> None:
    copy_id = str(uuid4())
    for name in ("laptop", "work laptop"):
        assert api.post("/v1/notes/copies", json={"copy_id": copy_id, "name": name}).status_code == 204
    with database.tenant(api.tenant.tenant_id) as tx:
        [found] = recipients.list_recipients(tx, api.tenant.tenant_id)
    assert (found["host"], found["purposes"], found["calls"]) == ("work laptop", ["notes"], 2)
    answer = api.post("/v1/notes/copies", json={"copy_id": copy_id, "name": "a\0b"})
    assert (answer.status_code, fields(answer)) == (422, ["name"])
    answer = api.post("/v1/notes/copies", json={"copy_id": "x", "name": ""})
    assert answer.status_code == 422


def test_answers_point_to_the_note(api: Api, tmp_path: Path) -> None:
    """Seed 001, promotion criteria: retained with a redirect pointer to the vault location."""
    api.service.configure(notes_dir=str(tmp_path))
    [memory_id] = promote(api, "green tea")
    assert api.get(f"/v1/memories/{memory_id}").json()["promoted"]["note"] is None
    listed = api.post("/v1/maintenance/notes", json={"dry_run": True}).json()
    assert [(each["id"], each["from"], each["to"]) for each in listed["changes"]] == [(memory_id, "missing", "written")]
    assert listed["counts"] == {"looked_at": 1, "written": 1, "removed": 0, "edited": 0}
    note_run.run_slice(api.tenant.tenant_id, None, {}, time.monotonic() + 60)
    note = api.get(f"/v1/memories/{memory_id}").json()["promoted"]["note"]
    assert note == f"{api.tenant.tenant_id}/{memory_id}.md"
    assert (tmp_path / note).read_text().endswith("green tea\n")


def test_without_a_folder_a_preview_is_refused(api: Api) -> None:
    answer = api.post("/v1/maintenance/notes", json={"dry_run": True})
    assert answer.status_code == 409
    assert "EBBING_NOTES_DIR" in answer.json()["detail"]
