"""Chapter 7: the schedule.

Every night a tenant's memories are maintained, in a fixed sequence of steps. Each tenant has a row with the next due
time, in its own time zone. A tick every few seconds finds due rows and creates a run of each: a job that is done once
per date, however many ticks there are and however often its message is delivered.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import sql

from app.domain.ingest.ids import generate_base
from tests.fundamentals.client import Client
from tests.fundamentals.service import Service, Tenant
from tests.waiting import until

NIGHT = "/v1/schedule/night"


@pytest.fixture
def keeper(service: Service, tenant: Tenant, ebbing: Client) -> Client:
    """The tenant's client, after the tenant's schedule row has been created; the API shows the schedule before."""
    service.tick()
    row = sql.SQL("SELECT 1 FROM schedules WHERE tenant_id = %s")
    until(lambda: service.rows(row, tenant.tenant_id), "the tenant has its row")
    return ebbing


def scheduled(keeper: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = keeper.http.get("/v1/schedule").json()["schedule"]
    return found


def runs(keeper: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = keeper.http.get(f"{NIGHT}/runs").json()["runs"]
    return found


def wait_until_over(keeper: Client) -> None:
    """Wait until the only run is done; say what it waits for if it never is."""

    def state() -> object:
        jobs = [keeper.http.get(f"/v1/jobs/{run['job_id']}").json() for run in runs(keeper) if run["job_id"]]
        return runs(keeper), jobs

    until(lambda: [run["status"] for run in runs(keeper)] == ["done"], lambda: f"the night is over: {state()}")


def make_due(service: Service, tenant: Tenant) -> None:
    """Make the tenant's night due, as if the last one had run the day before yesterday."""
    statement = "UPDATE schedules SET next_run_at = now(), last_date = current_date - 2 WHERE tenant_id = %s"
    service.rows(sql.SQL(statement), tenant.tenant_id)


def test_a_new_tenant_gets_its_night_at_the_next_tick(keeper: Client) -> None:
    [night] = scheduled(keeper)

    assert (night["name"], night["starts_at"], night["time_zone"]) == ("night", "02:00", "UTC")
    due = datetime.fromisoformat(night["next_run_at"])
    assert timedelta() < due - datetime.now(UTC) < timedelta(days=1, hours=1)  # spread over an hour


def test_a_night_that_is_due_is_run_once_whatever_the_number_of_ticks(
    service: Service, tenant: Tenant, keeper: Client
) -> None:
    make_due(service, tenant)
    for _ in range(5):
        service.tick()

    wait_until_over(keeper)
    service.tick()
    [night] = scheduled(keeper)
    assert datetime.fromisoformat(night["next_run_at"]) > datetime.now(UTC)
    assert len(runs(keeper)) == 1


@pytest.mark.essential
def test_a_paused_night_isnt_run_but_can_be_by_hand(service: Service, tenant: Tenant, keeper: Client) -> None:
    assert keeper.http.post(f"{NIGHT}/pause").json()["paused"]
    make_due(service, tenant)
    service.tick()

    assert keeper.http.post(f"{NIGHT}/run").status_code == 202
    until(lambda: [(run["kind"], run["status"]) for run in runs(keeper)] == [("by_hand", "done")], "it ran")


def test_a_night_forgets_requests_that_nobody_can_repeat_any_more(
    service: Service, tenant: Tenant, keeper: Client
) -> None:
    [memory_id] = keeper.remember("stored just now")
    until(lambda: set(keeper.stats().pending.values()) == {0}, "nothing holds the memory any more")  # or sweep skips it
    due = sql.SQL("UPDATE memory_state SET next_due_at = '-infinity' WHERE tenant_id = %s")
    service.rows(due, tenant.tenant_id)
    month_ago = generate_base(int((time.time() - 30 * 86_400) * 1000), b"8 random")
    enter = sql.SQL("INSERT INTO envelopes (tenant_id, base, memories) VALUES (%s, %s, 1)")
    service.rows(enter, tenant.tenant_id, UUID(bytes=month_ago))

    keeper.http.post(f"{NIGHT}/run")

    wait_until_over(keeper)
    counts = runs(keeper)[0]["counts"]
    assert (counts["sweep"], counts["retention.ledger"]) == (1, 1)  # one memory evaluated, one row deleted
    left = service.rows(sql.SQL("SELECT base FROM envelopes WHERE tenant_id = %s"), tenant.tenant_id)
    assert [str(base) for (base,) in left] == [memory_id]  # a request's first memory has the request's own id
    assert keeper.get(memory_id).text == "stored just now"  # only the record of its arrival is purged, never a memory


@pytest.mark.essential
def test_an_erasure_and_an_export_wait_for_no_maintenance(service: Service, ebbing: Client) -> None:
    """Privacy requests have their own lane: they finish while the other lane is stopped, as by a long consolidation."""
    ebbing.send({"text": "Orla likes oysters", "subject": "orla"}, prefer="wait=5")
    ebbing.send({"text": "Pat likes pears", "subject": "pat"}, prefer="wait=5")
    with service.paused("maintain"):
        asked = {"subject": "orla", "kind": "gdpr", "grace_days": 0}
        erasure = ebbing.http.post("/v1/privacy/erasures", json=asked).json()["erasure_id"]
        export = ebbing.http.post("/v1/privacy/exports", json={"subject": "pat"}).json()["id"]
        until(lambda: status(ebbing, f"erasures/{erasure}") == "verified", "the erasure is done")
        until(lambda: status(ebbing, f"exports/{export}") == "ready", "the export is made")


def status(ebbing: Client, path: str) -> str:
    found: str = ebbing.http.get(f"/v1/privacy/{path}").json()["status"]
    return found
