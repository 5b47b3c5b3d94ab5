"""Reports of erasures, and a person at a glance."""

from __future__ import annotations

import time
from uuid import UUID, uuid4

from app.domain.hold import Meant
from app.domain.jobs import Job
from app.services import erasing, holds
from app.services.erasures import ERASE
from tests.api.caller import Api

EVIL = "<script>alert('ann')</script>"


def erased(api: Api, erasure_id: str) -> None:
    state: dict[str, object] = {}
    for _ in range(60):
        job = Job(uuid4(), api.tenant.tenant_id, ERASE, {"erasure_id": erasure_id}, state, None, 0)
        done = erasing.step(job)
        if done.finished:
            return
        state = done.state
    raise AssertionError("an erasure without an end")


def test_a_report_tells_every_store_and_no_name(api: Api) -> None:
    api.remember({"text": "a heron", "subject": EVIL, "tags": ["<b>"]}, {"text": "another", "subject": "bob"})
    api.service.rows(
        "INSERT INTO usage (tenant_id, day, purpose, host, model, calls) VALUES (%s, %s, %s, %s, %s, 3)",
        *(api.tenant.tenant_id, time.strftime("%Y-%m-%d"), "score", "<i>api.example", "m"),
    )
    asked = api.delete(f"/v1/subjects/{EVIL}?kind=ccpa&grace_days=0").json()
    path = f"/v1/privacy/erasures/{asked['erasure_id']}/report"
    assert api.get(path).status_code == 409
    erased(api, asked["erasure_id"])
    found = api.get(path).json()
    stores = {each["store"]: each for each in found["stores"]}
    assert (stores["table memories"]["found"], stores["table memories"]["removed"]) == (1, 1)
    assert {"table embeddings", "table memory_words", "dead letters", "segments of cold storage"} <= stores.keys()
    assert not any(each["left"] for each in found["stores"])
    assert [each["host"] for each in found["recipients"]] == ["<i>api.example"]
    assert found["clocks"]["confirm_by"] < found["clocks"]["due_at"]
    assert found["backups"]["kept_days"] == 30
    assert found["audit"]["entry"] > 0
    assert set(found["versions"]) == {"code", "schema", "policy"}
    page = api.get(f"{path}?format=html")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for said in (api.get(path).text, page.text):
        assert "heron" not in said
        assert "alert" not in said
    assert "<i>api" not in page.text
    assert "&lt;i&gt;api.example" in page.text
    assert found["audit"]["hash"] in page.text


def test_what_a_hold_keeps_is_in_the_report_with_its_ground(api: Api) -> None:
    kept, _ = api.remember({"text": "kept", "subject": "ann"}, {"text": "gone", "subject": "ann"})
    hold = holds.place(api.tenant.tenant_id, Meant(memory_ids=[UUID(kept)]), "court", "key")
    asked = api.delete("/v1/subjects/ann?grace_days=0").json()
    erased(api, asked["erasure_id"])
    found = api.get(f"/v1/privacy/erasures/{asked['erasure_id']}/report").json()
    assert found["status"] == "held"
    assert (found["kept"][0]["count"], str(hold.hold_id) in found["kept"][0]["ground"]) == (1, True)
    seen = api.get("/v1/subjects/ann").json()
    assert seen == {
        "subject": "ann",
        "memories": {"active": 0, "archived": 0, "cold": 0},
        "hidden": 1,
        "held": 1,
        "open_erasures": 1,
    }


def test_a_person_at_a_glance(api: Api) -> None:
    api.remember({"text": "one", "subject": "a/b"}, {"text": "two", "subject": "a/b"}, {"text": "x", "subject": "c"})
    assert api.get("/v1/subjects/a/b").json()["memories"] == {"active": 2, "archived": 0, "cold": 0}
    assert api.get("/v1/subjects/nobody").json()["memories"]["active"] == 0
    assert api.delete("/v1/subjects/a/b").json()["hidden"] == 2
    assert api.get("/v1/subjects/a/b").json()["hidden"] == 2
    assert api.delete("/v1/subjects/a/b?kind=gdpr&grace_days=15").status_code == 422
