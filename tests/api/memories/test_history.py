"""A memory's history: fields, order, pagination, and the retention period from the policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.policy.policy import Policy
from app.services.jobs import housekeeping
from app.services.strength import memory_strength, promotion
from app.store.core import database
from app.store.memories import history as events
from app.store.memories.history import EventChange
from app.store.strength import states
from tests.api.caller import Api, fields
from tests.service import Service
from tests.services.backdated import age
from tests.services.nights import purged


def history(api: Api, memory_id: str, **query: Any) -> list[dict[str, Any]]:
    answer = api.get(f"/v1/memories/{memory_id}/history", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["history"]
    return found


def kinds(api: Api, memory_id: str) -> list[str]:
    return [entry["kind"] for entry in history(api, memory_id)]


def enter(service: Service, memory_id: str, *days_ago: float) -> None:
    """Record uses of a memory this many days ago."""
    [[tenant_id]] = service.rows("SELECT tenant_id FROM memories WHERE memory_id = %s", memory_id)
    with database.tenant(tenant_id) as tx:
        now = database.now(tx).timestamp()
        for days in days_ago:
            events.add(tx, tenant_id, "use", [UUID(memory_id)], EventChange(now - days * 86_400, 0.2, 0.3, 0.3))


def test_it_begins_with_the_acceptance(api: Api) -> None:
    [memory_id] = api.remember("the cat", work=False)
    waiting = history(api, memory_id)
    api.service.work()
    [accepted] = history(api, memory_id)
    assert accepted | {"at": None} == {"at": None, "kind": "accepted", "before": None, "after": None, "strength": None}
    assert accepted["at"] == api.get(f"/v1/memories/{memory_id}").json()["created_at"]
    assert [entry["kind"] for entry in waiting] == ["accepted"]


def test_what_changed_is_told_by_name_newest_first(api: Api) -> None:
    [memory_id] = api.remember({"text": "the cat", "salience": 0.25, "kind": "episodic"})
    age(api.service, 10, memory_id)
    api.patch(f"/v1/memories/{memory_id}", json={"kind": "semantic", "salience": 0.75})
    api.post(f"/v1/reviews/{memory_id}", json={"result": "passed"})
    api.post(f"/v1/reviews/{memory_id}", json={"result": "failed"})
    failed, passed, *inputs, _ = history(api, memory_id)
    assert (failed["kind"], passed["kind"]) == ("review_failed", "review_passed")
    assert failed["before"] == failed["after"] > passed["before"]
    assert failed["before"] == pytest.approx(passed["after"], abs=1e-5)  # it decays between two requests
    changes = {entry["kind"]: (entry["before"], entry["after"]) for entry in inputs}
    assert changes == {"kind": ("episodic", "semantic"), "salience": (0.25, 0.75)}
    assert all(0 < entry["strength"] < 1 for entry in inputs)


def test_tiers_and_promotions_have_names(api: Api) -> None:
    [memory_id] = api.remember("the cat")
    tenant_id = api.tenant.tenant_id
    with database.tenant(tenant_id) as tx:
        now = database.now(tx).timestamp()
        events.add(tx, tenant_id, "wanted_tier", [UUID(memory_id)], EventChange(now, 0, 1, 0.29))
        service_held = states.lock(tx, tenant_id, [UUID(memory_id)])
        service_held.state.access_count[:] = 5
        assert promotion.flag_promoted(
            tx, tenant_id, service_held, memory_strength.load_timeline(tx, tenant_id).at(now), now
        )
    promoted, tier, _ = history(api, memory_id)
    assert (promoted["kind"], promoted["before"], promoted["after"]) == ("promoted", None, "uses")
    assert (tier["before"], tier["after"], tier["strength"]) == ("active", "archived", 0.29)


def test_policies_since_the_acceptance_are_part_of_it(api: Api) -> None:
    [memory_id] = api.remember("the cat")
    age(api.service, 10, memory_id)
    now = datetime.now(UTC)
    api.service.rows("UPDATE policies SET effective_at = %s", now - timedelta(days=20))  # version 1, older than it
    # Version 3 never took effect, since version 4 began before it; version 5 is in the future.
    for version, days in ((2, -5), (3, -1), (4, -2), (5, 3)):
        api.service.rows(
            "INSERT INTO policies (tenant_id, version, body, effective_at) VALUES (%s, %s, '{}', %s)",
            api.tenant.tenant_id,
            version,
            now + timedelta(days=days),
        )
    enter(api.service, memory_id, 3)
    reported = [(entry["kind"], entry["before"], entry["after"]) for entry in history(api, memory_id)]
    assert reported == [("policy", 2, 4), ("use", 0.2, 0.3), ("policy", 1, 2), ("accepted", None, None)]


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_pages_have_each_entry_once(api: Api, limit: int) -> None:
    [memory_id] = api.remember("the cat")
    age(api.service, 10, memory_id)
    enter(api.service, memory_id, 1, 2, 2, 2, 3, 4)
    whole = history(api, memory_id)
    pages: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        query = {"limit": limit} | ({"cursor": cursor} if cursor else {})
        answer = api.get(f"/v1/memories/{memory_id}/history", params=query).json()
        pages += answer["history"]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert pages == whole
    assert len(whole) == 7
    assert [entry["at"] for entry in whole] == sorted((entry["at"] for entry in whole), reverse=True)


def test_only_own_memories_have_one(api: Api) -> None:
    [memory_id] = api.remember({"text": "one", "external_id": "k"})
    [alias] = api.remember({"text": "two", "external_id": "k"})
    assert history(api, alias) == history(api, memory_id)
    enter(api.service, memory_id, 0)
    other = api.service.tenant()
    for name, key in ((memory_id, other.key), (str(uuid4()), ""), ("x", "")):
        assert api.get(f"/v1/memories/{name}/history", key=key).status_code == 404
    api.delete(f"/v1/memories/{memory_id}")
    assert api.get(f"/v1/memories/{memory_id}/history").status_code == 404


@pytest.mark.parametrize("cursor", ["x", "AAAA", "f" + "_" * 31, "/" * 500])
def test_a_cursor_of_somebody_else_is_refused_or_leads_to_the_end(api: Api, cursor: str) -> None:
    [memory_id] = api.remember("the cat")
    answer = api.get(f"/v1/memories/{memory_id}/history", params={"cursor": cursor})
    assert answer.status_code == 422
    assert fields(answer) == ["cursor"]


# --- Retention ---


def test_it_is_kept_for_as_long_as_the_policy_says(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SLICE_ROWS", 2)
    api.tenant = api.service.tenant(Policy(history_days=30))
    others = api.service.tenant()
    [memory_id] = api.remember("the cat")
    [theirs] = api.remember("the dog", key=others.key)
    age(api.service, 100, memory_id, theirs)
    for one in (memory_id, theirs):
        enter(api.service, one, 1, 29, 31, 40, 50, 60, 70)
    assert purged(api.tenant.tenant_id)["history"] == 5
    assert kinds(api, memory_id) == ["use", "use", "accepted"]
    assert purged(api.tenant.tenant_id).total() == 0
    assert api.service.one("SELECT count(*) FROM memory_events WHERE memory_id = %s", theirs) == 7


def test_pages_reach_uses_from_before_1970(api: Api) -> None:
    [memory_id] = api.remember("x")
    for year in (1960, 1961, 1962):
        given = {"used_at": f"{year}-01-01T00:00:00Z", "session": str(year)}
        assert api.post(f"/v1/memories/{memory_id}/touch", json=given).status_code == 200
    found: list[str] = []
    query: dict[str, Any] = {"limit": 1}
    for _ in range(4):
        answer = api.get(f"/v1/memories/{memory_id}/history", params=query)
        assert answer.status_code == 200, answer.text
        found += [entry["at"][:4] for entry in answer.json()["history"]]
        query["cursor"] = answer.json()["next_cursor"]
    assert found[1:] == ["1962", "1961", "1960"]
