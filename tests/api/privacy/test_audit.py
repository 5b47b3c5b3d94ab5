"""Audit entries never contain text, names, addresses or plain subjects, whatever the action."""

from __future__ import annotations

import pytest

from app.services.security import audit
from app.store.core import database
from tests.api.caller import Api
from tests.services import nights
from tests.services.due_deletions import worked

CANARY = "Quetzal4711"
MEMORY = {
    "text": f"the {CANARY} text",
    "subject": f"{CANARY}@example.org",
    "thread": f"{CANARY}-thread",
    "speaker": f"{CANARY} speaks",
    "tags": [CANARY],
    "categories": [CANARY],
    "entities": [CANARY],
    "metadata": {CANARY: CANARY},
    "external_id": CANARY,
}
ACTIONS = {
    "tenant_made",
    "key_made",
    "key_revoked",
    "policy_set",
    "letters_replayed",
    "letters_discarded",
    "job_started",
    "hold_placed",
    "erasure_requested",
}


def busy(api: Api) -> None:
    """Perform every audited action with texts and names that must not reach the audit."""
    [memory_id] = api.remember(MEMORY)
    api.patch(f"/v1/memories/{memory_id}", json={"text": f"{CANARY} again"})
    api.delete(f"/v1/memories/{memory_id}")
    api.put("/v1/policy", json={"policy": {"time_zone": "Europe/Berlin"}})
    api.put("/v1/policy", json={"policy": {"forgetting": {"profile": "cmm"}}})
    for path in ("sweep", "rebase", "reembed"):
        assert api.post(f"/v1/maintenance/{path}", json={}).status_code == 202
    api.post("/v1/admin/tenants", json={"name": f"{CANARY} Ltd"}, key=api.admin.key)
    wanted = {"name": f"{CANARY}'s key", "tenant_id": str(api.tenant.tenant_id), "expires_at": "2100-01-01T00:00:00Z"}
    made = api.post("/v1/admin/keys", json=wanted, key=api.admin.key).json()
    for _ in range(2):  # once is enough
        assert api.delete(f"/v1/admin/keys/{made['key_id']}", key=api.admin.key).status_code == 204
    path = "/v1/admin/dead-letters"
    for _ in range(2):
        api.service.post(api.tenant.tenant_id, CANARY.encode())
        api.service.work()
    [first, second] = api.get(path).json()["dead_letters"]
    assert api.post(f"{path}/{first['id']}/replay").status_code == 202
    api.post(f"{path}/{second['id']}/discard", json={"reason": f"{CANARY} said so"})
    with database.tenant(api.tenant.tenant_id) as tx:
        audit.append(tx, api.tenant.tenant_id, "hold_placed", subject=f"{CANARY}@example.org")
    nights.swept(api.tenant.tenant_id)


@pytest.mark.acceptance(17)
def test_after_a_busy_day_nothing_of_it_is_in_the_audit(api: Api) -> None:
    busy(api)
    tables = ("audit", "audit_heads")
    found = " ".join(row for name in tables for (row,) in api.service.rows(f"SELECT t::text FROM {name} AS t"))  # noqa: S608
    encoded = CANARY.encode().hex()
    for secret in (CANARY, CANARY.lower(), encoded, "example.org", api.tenant.key, "said so"):
        assert secret not in found, secret
    assert {action for (action,) in api.service.rows("SELECT DISTINCT action FROM audit")} == ACTIONS
    assert audit.verify(api.tenant.tenant_id).broken is None


def test_an_entry_says_which_key_asked_for_what(api: Api) -> None:
    busy(api)
    mine, admins = api.tenant.key_id, api.admin.key_id
    by = dict(
        api.service.rows(
            "SELECT action, array_agg(DISTINCT actor) FROM audit WHERE tenant_id = %s GROUP BY action",
            api.tenant.tenant_id,
        )
    )
    assert by == {
        "tenant_made": ["cli"],
        "key_made": sorted([admins, "cli"]),
        "key_revoked": [admins],
        "policy_set": [mine],
        "letters_replayed": [mine],
        "letters_discarded": [mine],
        "job_started": [mine],
        "hold_placed": ["system"],
        "erasure_requested": [mine],
    }
    assert api.service.one("SELECT count(*) FROM audit WHERE action = 'key_revoked'") == 1


def test_it_is_listed_page_by_page_and_verified(api: Api) -> None:
    busy(api)
    path, key = "/v1/privacy/audit", api.tenant.key
    first = api.get(path, params={"limit": 3}, key=key).json()
    rest = api.get(path, params={"limit": 500, "cursor": first["next_cursor"]}, key=key).json()
    entries = first["entries"] + rest["entries"]
    count = entries[0]["seq"]
    assert [entry["seq"] for entry in entries] == list(range(count, 0, -1))
    assert {entry["action"] for entry in api.get(path, params={"action": "policy_set"}).json()["entries"]} == {
        "policy_set"
    }
    found = api.get(f"{path}/verify", params={"limit": 4}).json()
    assert (found["well"], found["verified"], found["entries"], found["broken"]) == (None, 4, count, None)
    while found["next_cursor"]:
        found = api.get(f"{path}/verify", params={"limit": 4, "cursor": found["next_cursor"]}).json()
    assert (found["well"], found["verified"], found["anchor"]) == (True, count, f"{count}:{entries[0]['hash']}")
    wrong = f"{count + 1}:{entries[0]['hash']}"
    assert api.get(f"{path}/verify", params={"anchor": wrong}).json()["broken"]["seq"] == count + 1
    assert api.get(f"{path}/verify", params={"cursor": "x"}).status_code == 422


def test_entries_are_found_by_a_persons_name_an_id_and_their_number(api: Api) -> None:
    path = "/v1/privacy/audit"
    api.remember({"text": "tea", "subject": "Mei Chen"}, {"text": "rice", "subject": "mei chen"})
    asked = {"subject": "Mei Chen", "kind": "gdpr", "grace_days": 0}
    erasure_id = api.post("/v1/privacy/erasures", json=asked).json()["id"]
    api.post("/v1/privacy/erasures", json=asked | {"subject": "mei chen"})
    worked(api.service)
    found = api.get(path, params={"subject": "Mei Chen"}).json()
    about = api.get(path, params={"target": erasure_id}).json()
    assert [entry["action"] for entry in found["entries"]] == ["erasure_verified", "erasure_requested"]
    assert [entry["action"] for entry in about["entries"]] == [
        "erasure_verified",
        "memories_erased",
        "erasure_requested",
    ]
    assert "subject_digests" not in about
    report = api.get(f"/v1/privacy/erasures/{erasure_id}/report").json()
    assert {entry["subject"] for entry in found["entries"]} == {report["audit_digest"]}
    digests = {"audit_log": report["audit_digest"], "erasure_list": report["pseudonyms"]["subject"]}
    assert found["subject_digests"] == digests
    [last] = api.get(path, params={"seq": report["audit"]["entry"]}).json()["entries"]
    assert last == found["entries"][0]
    assert last["hash"] == report["audit"]["hash"]
    assert api.get(path, params={"subject": "Liam"}).json()["entries"] == []
    assert api.get(path, params={"subject": "Mei Chen", "action": "hold_placed"}).json()["entries"] == []
    assert api.get(path, params={"target": "not an id"}).status_code == 422
    listed = api.get(path, params={"subject": "Mei Chen", "limit": 1}).json()
    following = {"subject": "Mei Chen", "cursor": listed["next_cursor"]}
    assert [each["action"] for each in api.get(path, params=following).json()["entries"]] == ["erasure_requested"]
