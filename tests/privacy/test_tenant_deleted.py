"""After the deletion of a tenant, a word that entered by every interface is nowhere, also after a restore."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.domain.privacy.legal_hold import Scope
from app.services.erasure import restore_replay, tenant_deletion
from app.services.privacy import legal_holds
from app.services.tenants import tenants
from tests.api.caller import Api
from tests.privacy import traces
from tests.privacy.drill import HOT, Drill, drill
from tests.privacy.everywhere import SUBJECT, WORD, Everywhere, everywhere, someone
from tests.privacy.test_requests_restored import restore

__all__ = ["drill", "everywhere", "someone"]


def delete(tenant_id: UUID, grace_days: int = 0) -> UUID:
    name = tenant_deletion.get(tenant_id).tenant.name
    made = tenant_deletion.request(tenant_id, name, "key", grace_days)
    assert made.tenant.deletion_id is not None
    return made.tenant.deletion_id


def status(tenant_id: UUID) -> str:
    return tenant_deletion.get(tenant_id).tenant.status


@pytest.mark.essential
@pytest.mark.acceptance(7)
def test_the_word_is_nowhere(everywhere: Everywhere, capfd: pytest.CaptureFixture[str]) -> None:
    service, tenant_id = everywhere.service, everywhere.tenant_id
    hold = legal_holds.place_hold(tenant_id, Scope(subject=SUBJECT), f"case of {WORD[:4]}", "key")
    legal_holds.release_hold(tenant_id, hold.hold_id, "key")
    service.rows("UPDATE tenants SET name = %s WHERE tenant_id = %s", f"{WORD} and sons", tenant_id)
    tenants.issue_key(tenant_id, f"{WORD}'s laptop")
    service.post(tenant_id, f'[{{"text": "{WORD} in a letter"}}, {{"kind": 5}}]'.encode(), memories=2)
    service.work()
    assert len(service.letters(tenant_id)) == 1
    service.send(tenant_id, everywhere.about(f"{WORD} waits"))
    before = everywhere.left()
    assert {"public.tenants", "public.api_keys", "public.dead_letters", "public.exports"} <= set(before["tables"])
    assert {path.partition("/")[0] for path in before["cold storage"]} == {"segments", "exports"}
    delete(tenant_id)
    everywhere.work()
    assert status(tenant_id) == "deleted"
    assert everywhere.left() == {}
    assert [path for path in everywhere.folder.rglob("*") if path.is_file()] == [], "no object is left"
    out, err = capfd.readouterr()
    assert WORD not in (out + err).lower(), "the log contains the word"


@pytest.mark.acceptance(12)
def test_a_restore_of_an_older_copy_deletes_the_tenant_again(drill: Drill) -> None:
    drill.dump()
    delete(drill.tenant_id)
    drill.work()
    restore(drill)
    assert drill.people() == ["ann", "bob"], "the older copy contains the tenant"
    assert status(drill.tenant_id) == "active"
    assert drill.unwell()["erasures"].startswith("The data is an older copy, with 1 erasure to replay")
    [expected] = restore_replay.due()
    assert (expected.memories, expected.outcome) == (3, "due")
    [done] = restore_replay.replay()
    assert (done.tenant_id, done.memories, done.outcome) == (drill.tenant_id, 3, "erased")
    assert drill.unwell() == {}
    assert status(drill.tenant_id) == "deleted"
    assert drill.people() == []
    assert traces.in_tables(drill.service, HOT.rpartition(" ")[2].lower()) == []
    assert list(restore_replay.replay()) == []


@pytest.mark.acceptance(12)
def test_a_restore_closes_a_tenant_whose_deletion_was_requested(drill: Drill) -> None:
    drill.dump()
    deletion_id = delete(drill.tenant_id, grace_days=7)
    asked = tenant_deletion.get(drill.tenant_id)
    restore(drill)
    assert status(drill.tenant_id) == "active"
    [done] = restore_replay.replay()
    assert (done.erasure_id, done.outcome) == (deletion_id, "hidden")
    assert tenant_deletion.get(drill.tenant_id) == asked
    assert drill.unwell() == {}
    tenant_deletion.cancel(drill.tenant_id, "key")
    assert status(drill.tenant_id) == "active"
    assert drill.people() == ["ann", "bob"]


def test_the_restored_copy_of_a_finished_deletion_has_nothing_to_replay(drill: Drill) -> None:
    delete(drill.tenant_id)
    drill.work()
    drill.dump()
    drill.restore()
    assert drill.unwell() == {}
    assert status(drill.tenant_id) == "deleted"
    with Api(drill.service) as api:
        assert api.get("/readyz", key=None).status_code == 200
