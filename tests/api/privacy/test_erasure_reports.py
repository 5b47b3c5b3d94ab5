"""Erasure reports, and the overview of a person's data."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from app.domain.jobs import ERASE, Job
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import execution
from app.services.privacy import legal_holds
from tests.api.caller import Api

EVIL = "<script>alert('ann')</script>"


def erased(api: Api, erasure_id: str) -> None:
    state: dict[str, object] = {}
    for _ in range(60):
        job = Job(uuid4(), api.tenant.tenant_id, ERASE, {"erasure_id": erasure_id}, state, None, 0)
        done = execution.run_slice(job)
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
    assert {
        "table embeddings",
        "table memory_words",
        "failed items (dead letters)",
        "files in long-term storage",
    } <= stores.keys()
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


@pytest.mark.acceptance(14)
def test_what_a_hold_keeps_is_in_the_report_with_its_ground(api: Api) -> None:
    kept, _ = api.remember({"text": "kept", "subject": "ann"}, {"text": "gone", "subject": "ann"})
    hold = legal_holds.place_hold(api.tenant.tenant_id, Scope(memory_ids=[UUID(kept)]), "court", "key")
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
        "exports": 0,
        "open_erasures": 1,
        "retention": [],
        "shortcuts": {"export": "POST /v1/subjects/ann", "erase": "DELETE /v1/subjects/ann"},
    }


def test_a_person_at_a_glance(api: Api) -> None:
    api.remember({"text": "one", "subject": "a/b"}, {"text": "two", "subject": "a/b"}, {"text": "x", "subject": "c"})
    assert api.get("/v1/subjects/a/b").json()["memories"] == {"active": 2, "archived": 0, "cold": 0}
    assert api.get("/v1/subjects/nobody").json()["memories"]["active"] == 0
    api.service.configure(master_key="a master key of tests, as long as it must be")
    method, path = api.get("/v1/subjects/a/b").json()["shortcuts"]["export"].split()
    assert method == "POST"
    made = api.post(f"{path}?kind=portable&law=gdpr").json()
    assert (made["subject"], made["kind"], made["law"], made["status"]) == ("a/b", "portable", "gdpr", "running")
    assert api.get("/v1/subjects/a/b").json()["exports"] == 1
    assert api.get("/v1/subjects/c").json()["exports"] == 0
    assert api.post(f"{path}?kind=everything").status_code == 422
    assert api.delete("/v1/subjects/a/b").json()["hidden"] == 2
    assert api.get("/v1/subjects/a/b").json()["hidden"] == 2
    assert api.delete("/v1/subjects/a/b?kind=gdpr&grace_days=15").status_code == 422


def test_whatever_a_name_holds_its_shortcuts_lead_there(api: Api) -> None:
    bystander = api.remember({"text": "somebody else's", "subject": "c"})[0]
    for name in ("two\nlines", "line\n", f"../memories/{bystander}", "a//b/", "?#%2F", " "):
        api.remember({"text": "one", "subject": name})
        shortcut = api.get(f"/v1/subjects/{quote(name, safe='')}").json()["shortcuts"]["erase"]
        asked = api.delete(shortcut.removeprefix("DELETE ")).json()
        assert (asked["subject"], asked["hidden"]) == (name, 1)
    assert api.get(f"/v1/memories/{bystander}").status_code == 200


def test_a_request_in_the_log_says_how_many_days_it_has_left(api: Api) -> None:
    received = (datetime.now(UTC) - timedelta(days=40)).isoformat()
    asked = {"nature": "correction", "law": "ccpa", "received_at": received}
    made = api.post("/v1/privacy/requests", json=asked).json()
    assert 5 <= made["days_left"] < 6, "until the end of the last day"
    api.post("/v1/privacy/requests", json={"nature": "objection"})
    listed = api.get("/v1/privacy/requests?only_open=true").json()["requests"]
    assert [(each["nature"], each["days_left"]) for each in listed] == [
        ("objection", None),
        ("correction", pytest.approx(made["days_left"], abs=0.11)),
    ]
    path = f"/v1/privacy/requests/{made['request_id']}"
    assert 5 <= api.post(f"{path}/confirm").json()["days_left"] < 6
    assert api.post(f"{path}/complete").json()["days_left"] is None, "a completed request has no deadline"
