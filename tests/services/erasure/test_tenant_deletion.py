"""Deletion of a tenant: an erasure of everything, after which only the tombstone and the proofs remain."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from app.clients.redis import closed_tenants
from app.clients.redis.connection import stream_key
from app.domain.privacy.documents.report_page import render_report
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.requests import NewRequest
from app.errors import Conflict, Invalid, NotFound, TenantClosed
from app.services.erasure import tenant_deletion
from app.services.erasure.tenant_steps import TENANT_STEPS
from app.services.jobs import queue, schedule
from app.services.privacy import legal_holds, request_log
from app.services.security import audit
from app.services.tenants import tenants
from app.services.tiers import pca_fitting
from app.store.core import database
from app.store.erasure import whole_tenant
from tests.privacy import traces
from tests.service import Service
from tests.services.due_deletions import UNFINISHED, worked
from tests.services.erasure.test_erasing import carried_out
from tests.services.erasure.test_erasures import Household, house
from tests.services.tiers.test_pca_fitting import crowd

__all__ = ["house"]


def name_of(tenant_id: UUID) -> str:
    return tenant_deletion.get(tenant_id).tenant.name


def delete(tenant_id: UUID, grace_days: int | None = 0) -> tenant_deletion.Deletion:
    return tenant_deletion.request(tenant_id, name_of(tenant_id), "key", grace_days)


def left(service: Service, tenant_id: UUID) -> dict[str, int]:
    """Return the tenant's rows by table, for tables that have any."""
    with database.tenant(tenant_id) as tx:
        tables = whole_tenant.list_tables(tx)
    counts = {
        table: service.one(f"SELECT count(*) FROM {table} WHERE tenant_id = %s", tenant_id)  # noqa: S608 - catalogue names
        for table in tables
    }
    return {table: count for table, count in counts.items() if count}


def test_every_table_with_a_tenant_has_an_answer(service: Service) -> None:
    with database.tenant(service.tenant().tenant_id) as tx:
        found = whole_tenant.list_tables(tx)
    known = [*whole_tenant.DATA, *whole_tenant.LAST, *whole_tenant.KEYS, *whole_tenant.KEPT]
    assert sorted(known) == found, "a new table needs an answer in app/store/erasure/whole_tenant.py"


def test_the_service_may_delete_from_every_table(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    for table in (*whole_tenant.DATA, *whole_tenant.LAST, *whole_tenant.KEYS):
        with database.tenant(tenant_id) as tx:
            whole_tenant.delete_rows(tx, tenant_id, UUID(int=0), table)


def test_everything_of_a_tenant_is_erased_and_another_tenant_is_untouched(house: Household) -> None:
    other = Household(house.service)
    before = left(house.service, other.tenant_id)
    made = delete(house.tenant_id)
    worked(house.service, UNFINISHED)
    done = tenant_deletion.get(house.tenant_id)
    assert (done.tenant.status, done.tenant.deletion_id) == ("deleted", made.tenant.deletion_id)
    assert done.tenant.name == str(house.tenant_id)
    kept = left(house.service, house.tenant_id)
    assert kept == {"tenants": 1, "audit": kept["audit"], "audit_heads": 1, "erasures": 1, "jobs": 1} | {
        "ebbing_keys.erasure_ledger": 1
    }
    assert left(house.service, other.tenant_id) == before
    report = tenant_deletion.read_report(house.tenant_id)
    assert (report["scope"], report["memories"], set(report["left"].values())) == ("tenant", 4, {0})
    assert {row["code"] for row in report["kept"]} == {
        *("tenant_tombstone", "tenant_audit", "tenant_requests", "tenant_usage", "tenant_case")
    }


def test_a_deletion_repeated_by_anyone_is_the_same_one(house: Household) -> None:
    first = delete(house.tenant_id, grace_days=7)
    again = tenant_deletion.request(house.tenant_id, "anything", "another key")
    assert again.tenant.deletion_id == first.tenant.deletion_id
    assert again.erasure == first.erasure
    worked(house.service)
    assert tenant_deletion.get(house.tenant_id).tenant.status == "being_deleted", "the grace period isn't over"
    house.service.rows("UPDATE jobs SET not_before = now(), claimed_until = now() WHERE kind = 'erase'")
    worked(house.service)
    over = tenant_deletion.request(house.tenant_id, "anything", "another key")
    assert (over.tenant.deletion_id, over.tenant.status) == (first.tenant.deletion_id, "deleted")


def test_the_name_confirms_and_an_unknown_tenant_is_not_found(house: Household) -> None:
    with pytest.raises(Invalid) as refused:
        tenant_deletion.request(house.tenant_id, "another name", "key")
    assert [error.field for error in refused.value.errors] == ["name"]
    assert tenant_deletion.get(house.tenant_id).tenant.status == "active"
    with pytest.raises(NotFound):
        tenant_deletion.request(uuid4(), "x", "key")


def test_legal_holds_block_it_and_are_listed(house: Household) -> None:
    hold = legal_holds.place_hold(house.tenant_id, Scope(subject="ann"), "court", "key", "legal_claims")
    [blocking] = tenant_deletion.preview(house.tenant_id).holds
    assert (blocking["hold_id"], blocking["memories"], blocking["ground"]) == (hold.hold_id, 2, "legal_claims")
    with pytest.raises(Conflict) as refused:
        delete(house.tenant_id)
    assert [error.value for error in refused.value.errors] == [str(hold.hold_id)]
    assert tenant_deletion.get(house.tenant_id).tenant.status == "active"
    house.service.send(house.tenant_id, "still accepted")
    legal_holds.release_hold(house.tenant_id, hold.hold_id, "key")
    delete(house.tenant_id, grace_days=1)
    with pytest.raises(Conflict, match="being deleted"):
        legal_holds.place_hold(house.tenant_id, Scope(subject="ann"), "court", "key")


def test_a_preview_counts_what_the_deletion_then_removes(house: Household) -> None:
    would = tenant_deletion.preview(house.tenant_id)
    assert (would.tenant.status, would.stores["memories"], would.tables["memory_words"]) == ("active", 4, 4)
    assert tenant_deletion.get(house.tenant_id).tenant.status == "active"
    delete(house.tenant_id)
    worked(house.service, UNFINISHED)
    done = tenant_deletion.get(house.tenant_id).erasure
    assert done is not None
    [step] = [each for each in done.executed if each["step"] == "memories"]
    found = {table: count for table, count in would.tables.items() if table != "tenant_work"}
    assert {table: step["tables"][table] for table in found} == found
    assert [each["step"] for each in done.executed] == [*TENANT_STEPS]


def test_a_cancelled_deletion_leaves_everything_as_it_was(house: Household) -> None:
    before = left(house.service, house.tenant_id)
    shown = house.listed()
    delete(house.tenant_id, grace_days=7)
    house.service.rows("UPDATE schedules SET next_run_at = now() - interval '1 minute'")
    schedule.insert_due_runs(["night"])
    assert house.service.rows("SELECT FROM jobs WHERE kind = 'night'") == [], "no night in the meantime"
    with pytest.raises(TenantClosed):
        house.service.send(house.tenant_id, "not accepted")
    tenant_deletion.cancel(house.tenant_id, "key")
    worked(house.service, UNFINISHED)
    assert tenant_deletion.get(house.tenant_id).tenant.status == "active"
    after = left(house.service, house.tenant_id)
    audited = {"audit": before["audit"] + 2, "erasures": 1, "jobs": after["jobs"]}
    assert after == before | audited | {name: after[name] for name in ("schedules", "runs") if name in after}
    assert house.listed() == shown
    house.service.send(house.tenant_id, "accepted again")
    house.service.work()
    assert "accepted again" in house.listed()
    with pytest.raises(Conflict):
        tenant_deletion.cancel(house.tenant_id, "key")


def test_what_waits_in_the_queue_is_dropped(house: Household) -> None:
    service = house.service
    service.send(house.tenant_id, "waits in the stream")
    service.post(house.tenant_id, b"no JSON")
    delete(house.tenant_id)
    worked(service, UNFINISHED)
    assert tenant_deletion.get(house.tenant_id).tenant.status == "deleted"
    assert traces.in_redis(service.redis, "waits in the stream") == []
    assert service.redis.exists(stream_key(house.tenant_id)) == 0
    assert set(service.backlog().values()) == {0}
    assert service.one("SELECT count(*) FROM memories") == 0
    assert service.one("SELECT count(*) FROM dead_letters") == 0


def test_an_entry_that_a_restored_redis_brings_back_is_dropped(house: Household) -> None:
    service = house.service
    delete(house.tenant_id)
    worked(service, UNFINISHED)
    before = left(service, house.tenant_id)
    closed_tenants.reopen(house.tenant_id)  # the mark has expired
    service.send(house.tenant_id, "from an older copy", {"text": "by id", "external_id": "x"})
    service.post(house.tenant_id, b"no JSON")
    service.work()
    assert left(service, house.tenant_id) == before
    assert set(service.backlog().values()) == {0}


def test_open_requests_of_people_are_answered_and_their_names_are_gone(house: Household) -> None:
    asked = house.ask(subject="ann")
    request_log.create(house.tenant_id, NewRequest("correction", "gdpr", case_reference="case of Zebedee"))
    delete(house.tenant_id)
    worked(house.service, UNFINISHED)
    rows = house.service.rows("SELECT request_id, answer FROM privacy_requests ORDER BY nature DESC")
    assert [answer for _, answer in rows] == ["done", "cancelled"]
    assert rows[0][0] == asked.erasure_id
    assert house.service.rows("SELECT FROM erasures WHERE erasure_id = %s", asked.erasure_id) == []
    assert traces.in_tables(house.service, "zebedee") == []
    assert traces.in_tables(house.service, "gooseberries") == []


def test_an_id_of_a_deleted_tenant_gets_no_keys_and_its_name_is_free(house: Household) -> None:
    name = name_of(house.tenant_id)
    delete(house.tenant_id, grace_days=0)
    with pytest.raises(Conflict):
        tenants.create(name)
    with pytest.raises(Conflict, match="being deleted"):
        tenants.issue_key(house.tenant_id, "another")
    worked(house.service, UNFINISHED)
    with pytest.raises(Conflict, match="deleted"):
        tenants.issue_key(house.tenant_id, "another")
    made, _ = tenants.create(name)
    assert made.tenant_id != house.tenant_id
    assert left(house.service, made.tenant_id).keys() <= {"tenants", "api_keys", "policies", "audit", "audit_heads"}


def test_a_killed_worker_or_a_failed_job_is_continued(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    made = delete(house.tenant_id)
    assert made.tenant.deletion_id is not None
    for point in ("erasing.entered", "erasing.planned", "erasing.before_commit"):

        def die(name: str, _about: str = "", at: str = point) -> None:
            if name == at:
                raise RuntimeError(name)

        with monkeypatch.context() as patch:
            patch.setattr("app.failpoints.trigger", die)
            with pytest.raises(RuntimeError, match=point):
                carried_out(house.tenant_id, made.tenant.deletion_id)
    house.service.rows("UPDATE jobs SET status = 'failed', finished_at = now() - interval '2 hours'")
    assert queue.end_overlong_leases_and_send() == 1, "the tick creates a job and sends it"
    assert queue.end_overlong_leases_and_send() == 0
    house.service.rows("UPDATE jobs SET claim = NULL, claimed_until = now() WHERE status = 'queued'")
    worked(house.service, UNFINISHED)
    assert tenant_deletion.get(house.tenant_id).tenant.status == "deleted"


def test_rows_of_an_unknown_table_are_residue(house: Household) -> None:
    """The check reads the catalogue: a table that no step knows keeps the deletion from being verified."""
    service = house.service
    service.rows("CREATE TABLE public.forgotten AS SELECT %s::uuid AS tenant_id", house.tenant_id)
    service.rows("GRANT SELECT ON public.forgotten TO ebbing_app")
    try:
        made = delete(house.tenant_id)
        assert made.tenant.deletion_id is not None
        with pytest.raises(AssertionError, match="residue remains"):
            carried_out(house.tenant_id, made.tenant.deletion_id)
        assert tenant_deletion.get(house.tenant_id).tenant.status == "being_deleted"
    finally:
        service.rows("DROP TABLE public.forgotten")
    assert carried_out(house.tenant_id, made.tenant.deletion_id) == "verified"


def test_a_shared_basis_is_fitted_again_without_the_tenant(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca_fitting, "SHARE_EACH", 300)
    gone, stays = service.tenant(), service.tenant()
    for tenant in (gone, stays):
        crowd(service, tenant, 300, "ann")
    pca_fitting._cached.cache_clear()
    for tenant in (stays, gone):
        assert "shared" in pca_fitting.refit_basis(tenant.tenant_id)[0]
    [old] = service.rows("SELECT max(basis_id) FROM pca_bases")[0]
    assert len(service.rows("SELECT DISTINCT tenant_id FROM pca_samples")) == 2
    delete(gone.tenant_id)
    worked(service, UNFINISHED)
    done = tenant_deletion.get(gone.tenant_id)
    assert done.tenant.status == "deleted"
    assert old not in [basis_id for (basis_id,) in service.rows("SELECT basis_id FROM pca_bases")]
    assert service.rows("SELECT DISTINCT tenant_id FROM pca_samples") == [(stays.tenant_id,)]


def test_the_printed_report_names_what_remains(house: Household) -> None:
    delete(house.tenant_id)
    worked(house.service, UNFINISHED)
    page = render_report(tenant_deletion.read_report(house.tenant_id))
    assert "all data of one customer&#x27;s data area (tenant)" in page or "all data of one customer" in page
    for said in ("4 memories were erased", "As proof of what was done, the audit log", "For invoices"):
        assert said in page
    verification = audit.verify(house.tenant_id)
    assert (verification.broken, verification.finished) == (None, True)
