"""PCA bases and erasures: a basis that may contain an erased vector is replaced; no other basis counts as residue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.jobs import ERASE, Job
from app.domain.tiers import pca
from app.services.erasure import execution, requests
from app.services.tiers import archive, pca_fitting
from app.services.tiers.pca_fitting import ChosenBasis
from app.store.core import database
from app.store.embedding import embeddings
from app.store.tiers.pca_bases import SHARED
from tests.service import Service, Tenant
from tests.services.archived_memories import act_on, archive_all, fade, swept
from tests.services.erasure.test_erasing import carried_out, erase, removed
from tests.services.tiers.test_pca_fitting import crowd
from tests.waiting import until

AGED = "UPDATE pca_bases SET made_at = made_at - interval '91 days'"
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND NOT granted"
WAITING_FOR_USE = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted)"
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count tenants as large from 300 vectors on, and clear the cache of bases."""
    monkeypatch.setattr(pca_fitting, "OWN_FROM", 300)
    monkeypatch.setattr(pca_fitting, "SHARE_EACH", 130)
    monkeypatch.setattr(pca, "SUBJECT_MAX", 5000)
    pca_fitting._cached.cache_clear()


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def basis_ids(service: Service, owner: UUID) -> list[int]:
    query = "SELECT basis_id FROM pca_bases WHERE tenant_id = %s ORDER BY basis_id"
    return [basis_id for (basis_id,) in service.rows(query, owner)]


def run_once(tenant_id: UUID, erasure_id: UUID, after_bases: Callable[[], None]) -> None:
    """Run the erasure with an action after its step `bases`; assert that its first verification finds no residue."""
    state: dict[str, Any] = {}
    acted = False
    for _ in range(50):
        done = execution.run_slice(Job(uuid4(), tenant_id, ERASE, {"erasure_id": str(erasure_id)}, state, None, 0))
        assert done.state.get("tries", 1) == 1, "the verification found residue"
        if done.finished:
            break
        if not acted and "bases" in removed(tenant_id, erasure_id):
            after_bases()
            acted = True
        state = done.state
    assert acted
    assert requests.get(tenant_id, erasure_id).status == "verified"


def at_draw(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Run an action once, between the draw of a sample and the insertion of the basis fitted on it."""
    left = [action]

    def trigger(name: str, _about: str = "") -> None:
        if name == "bases.drawn" and left:
            left.pop()()

    monkeypatch.setattr("app.failpoints.trigger", trigger)


# --- Edits of other memories ---


@pytest.mark.acceptance(4)
@pytest.mark.acceptance(8)
def test_an_edit_after_the_refit_is_no_residue(service: Service, tenant: Tenant) -> None:
    crowd(service, tenant, 40, "ann")
    others = crowd(service, tenant, 300, "bob")
    pca_fitting.refit_basis(tenant.tenant_id)
    [old] = basis_ids(service, tenant.tenant_id)
    run_once(
        tenant.tenant_id, erase(tenant.tenant_id, subject="ann"), lambda: act_on(tenant.tenant_id, others[0], "edit")
    )
    assert service.one("SELECT count(*) FROM pca_samples") == 299
    [(new, samples)] = service.rows("SELECT basis_id, samples FROM pca_bases")
    assert (new > old, samples) == (True, 300)


@pytest.mark.acceptance(4)
def test_a_basis_without_an_erased_vector_stays_despite_edits(service: Service, tenant: Tenant) -> None:
    others = crowd(service, tenant, 300, "bob")
    pca_fitting.refit_basis(tenant.tenant_id)
    before = basis_ids(service, tenant.tenant_id)
    crowd(service, tenant, 2, "ann")
    erasure_id = erase(tenant.tenant_id, subject="ann")
    run_once(tenant.tenant_id, erasure_id, lambda: act_on(tenant.tenant_id, others[0], "edit"))
    assert removed(tenant.tenant_id, erasure_id)["bases"] == 0
    assert basis_ids(service, tenant.tenant_id) == before
    later = erase(tenant.tenant_id, memory_ids=[others[0]])
    assert carried_out(tenant.tenant_id, later) == "verified"
    assert basis_ids(service, tenant.tenant_id) > before, "fitted on the edited memory's former vector"


@pytest.mark.acceptance(4)
@pytest.mark.acceptance(8)
def test_deletions_of_another_erasure_are_residue_of_that_one_only(service: Service, tenant: Tenant) -> None:
    crowd(service, tenant, 40, "ann")
    others = crowd(service, tenant, 300, "bob")
    pca_fitting.refit_basis(tenant.tenant_id)
    second = erase(tenant.tenant_id, memory_ids=others[:1])
    between: list[list[int]] = []

    def delete_others() -> None:
        steps = 0
        while "memories" not in removed(tenant.tenant_id, second):
            carried_out(tenant.tenant_id, second, 1)
            assert (steps := steps + 1) < 20
        between.append(basis_ids(service, tenant.tenant_id))

    run_once(tenant.tenant_id, erase(tenant.tenant_id, subject="ann"), delete_others)
    assert basis_ids(service, tenant.tenant_id) == between[0]
    assert carried_out(tenant.tenant_id, second) == "verified"
    assert basis_ids(service, tenant.tenant_id) > between[0]
    assert service.rows("SELECT samples FROM pca_bases") == [(299,)]


@pytest.mark.acceptance(4)
def test_a_later_basis_is_no_residue_when_it_is_superseded(service: Service, tenant: Tenant) -> None:
    crowd(service, tenant, 40, "ann")
    others = crowd(service, tenant, 300, "bob")
    fade(service, others[:1])
    archive_all(tenant.tenant_id)

    def supersede() -> None:
        fade(service, others[1:2])
        archive_all(tenant.tenant_id)
        service.rows(AGED)
        assert len(pca_fitting.refit_basis(tenant.tenant_id)) == 1

    run_once(tenant.tenant_id, erase(tenant.tenant_id, memory_ids=[others[2]]), lambda: None)
    [refitted] = basis_ids(service, tenant.tenant_id)
    service.send(tenant.tenant_id, {"text": "a heron", "subject": "cid"})
    service.work()
    erasure_id = erase(tenant.tenant_id, subject="cid")
    run_once(tenant.tenant_id, erasure_id, supersede)
    assert refitted in basis_ids(service, tenant.tenant_id), "vectors still use it, and it is known to be complete"
    assert len(basis_ids(service, tenant.tenant_id)) == 2


# --- Fits during an erasure, and interrupted ones ---


@pytest.mark.acceptance(8)
def test_a_basis_drawn_before_the_deletions_and_added_after_them_is_replaced(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(service, tenant, 40, "ann")
    crowd(service, tenant, 300, "bob")
    found: list[str] = []

    def carry_out() -> None:
        found.append(carried_out(tenant.tenant_id, erase(tenant.tenant_id, subject="ann")))

    worker = threading.Thread(target=carry_out)

    def erase_meanwhile() -> None:
        worker.start()
        until(lambda: found or service.one(WAITING), "the erasure waits for the fit")

    at_draw(monkeypatch, erase_meanwhile)
    pca_fitting.refit_basis(tenant.tenant_id)
    worker.join()
    assert found == ["verified"]
    assert service.rows("SELECT samples FROM pca_bases") == [(300,)]


@pytest.mark.acceptance(8)
def test_a_draw_omits_vectors_that_another_transaction_is_deleting(service: Service, tenant: Tenant) -> None:
    ids = crowd(service, tenant, 301)
    pca_fitting.refit_basis(tenant.tenant_id)
    service.rows("DELETE FROM pca_samples")
    service.rows(AGED)
    with database.tenant(tenant.tenant_id) as tx:
        embeddings.remove(tx, tenant.tenant_id, ids[:1])
        pca_fitting.refit_basis(tenant.tenant_id)
    sample = {memory_id for (memory_id,) in service.rows("SELECT memory_id FROM pca_samples")}
    assert sample == set(ids[1:])
    [samples] = service.rows("SELECT samples FROM pca_bases")[0]
    assert samples == 300


@pytest.mark.acceptance(8)
def test_a_fit_that_dies_after_its_draw_leaves_no_basis_untracked(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = crowd(service, tenant, 20, "ann")
    crowd(service, tenant, 300, "bob")
    pca_fitting.refit_basis(tenant.tenant_id)
    before = basis_ids(service, tenant.tenant_id)
    fade(service, ann)
    archive_all(tenant.tenant_id)
    crowd(service, tenant, 20, "cid")  # the next sample is as large as the previous one, without Ann's vectors
    service.rows(AGED)

    def die() -> None:
        raise KeyboardInterrupt

    at_draw(monkeypatch, die)
    with pytest.raises(KeyboardInterrupt):
        pca_fitting.refit_basis(tenant.tenant_id)
    assert service.one("SELECT count(*) FROM pca_samples") == 320
    assert basis_ids(service, tenant.tenant_id) == before
    assert carried_out(tenant.tenant_id, erase(tenant.tenant_id, subject="ann")) == "verified"
    assert basis_ids(service, tenant.tenant_id) > before


@pytest.mark.acceptance(8)
def test_a_basis_of_the_previous_version_is_replaced(service: Service, tenant: Tenant) -> None:
    others = crowd(service, tenant, 301, "bob")
    pca_fitting.refit_basis(tenant.tenant_id)
    before = basis_ids(service, tenant.tenant_id)
    service.rows("UPDATE pca_bases SET draw_id = NULL, made_at = now() + interval '1 hour'")
    run_once(tenant.tenant_id, erase(tenant.tenant_id, memory_ids=others[:1]), lambda: None)
    assert basis_ids(service, tenant.tenant_id) > before


# --- Shared bases ---


def share(service: Service) -> tuple[Tenant, list[UUID], list[UUID], list[int]]:
    """Fit a shared basis on vectors of a large and a small tenant.

    Returns:
        The large tenant, its memories whose vectors were used, its other memories in its sample, and the shared bases.
    """
    large, small = service.tenant(), service.tenant()
    crowd(service, large, 300)
    pca_fitting.refit_basis(large.tenant_id)
    crowd(service, small, 140)
    assert pca_fitting.refit_basis(small.tenant_id)[0].startswith("shared basis")
    ids = "SELECT memory_id FROM pca_samples WHERE tenant_id = %s AND share_id IS {} NULL"
    used, unused = (
        [memory_id for (memory_id,) in service.rows(ids.format(word), large.tenant_id)] for word in ("NOT", "")
    )
    assert (len(used), len(unused)) == (130, 170)
    return large, used, unused, basis_ids(service, SHARED)


@pytest.mark.acceptance(8)
def test_a_shared_basis_is_replaced_only_if_it_used_an_erased_vector(service: Service) -> None:
    large, used, unused, before = share(service)
    assert carried_out(large.tenant_id, erase(large.tenant_id, memory_ids=unused[:1])) == "verified"
    assert basis_ids(service, SHARED) == before
    assert carried_out(large.tenant_id, erase(large.tenant_id, memory_ids=used[:1])) == "verified"
    assert len(basis_ids(service, SHARED)) == 1
    assert basis_ids(service, SHARED) > before


@pytest.mark.acceptance(4)
def test_an_edit_of_a_shared_vector_is_no_residue(service: Service) -> None:
    large, used, unused, before = share(service)
    erasure_id = erase(large.tenant_id, memory_ids=unused[:1])
    run_once(large.tenant_id, erasure_id, lambda: act_on(large.tenant_id, used[0], "edit"))
    assert basis_ids(service, SHARED) == before
    assert carried_out(large.tenant_id, erase(large.tenant_id, memory_ids=used[:1])) == "verified"
    assert basis_ids(service, SHARED) > before, "fitted on the edited memory's former vector"


@pytest.mark.acceptance(8)
def test_an_earlier_shared_basis_is_replaced_with_the_newest_kept(service: Service) -> None:
    large, _used, unused, before = share(service)
    service.rows(AGED)
    small = service.one("SELECT tenant_id FROM pca_shares WHERE tenant_id <> %s", large.tenant_id)
    assert len(pca_fitting.refit_basis(small)) == 1
    [old, new] = basis_ids(service, SHARED)
    assert [old] == before
    free = "SELECT memory_id FROM pca_samples WHERE memory_id = ANY (%s) AND share_id IS NULL LIMIT 1"
    service.rows("UPDATE pca_bases SET made_at = made_at + interval '91 days' WHERE basis_id = %s", old)
    [memory_id] = service.rows(free, unused)[0]
    assert carried_out(large.tenant_id, erase(large.tenant_id, memory_ids=[memory_id])) == "verified"
    assert basis_ids(service, SHARED) == [new], "only the latest share is recorded"


def small_tenant(service: Service, large: Tenant) -> tuple[UUID, ChosenBasis]:
    """Let a memory of the tenant without a basis of its own fade, and return the basis that would reduce its vector."""
    small = service.one("SELECT tenant_id FROM pca_shares WHERE tenant_id <> %s", large.tenant_id)
    fade(service, [service.one("SELECT memory_id FROM memories WHERE tenant_id = %s LIMIT 1", small)])
    swept(small)
    chosen = archive.current_basis(small)
    assert chosen is not None
    assert not chosen.is_own
    return small, chosen


@pytest.mark.acceptance(8)
def test_a_shared_basis_is_deleted_only_after_another_tenant_has_archived_with_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, used, _unused, [old] = share(service)
    small, chosen = small_tenant(service, large)
    reduced = threading.Event()
    results: list[str] = []
    erasing = threading.Thread(
        target=lambda: results.append(carried_out(large.tenant_id, erase(large.tenant_id, memory_ids=used[:1])))
    )

    def trigger(name: str, _about: str = "") -> None:
        """Let the erasure run to its end, or until it waits, before the reduced vector is committed."""
        if name == "archive.before_commit" and not reduced.is_set():
            reduced.set()
            erasing.start()
            until(lambda: service.one(WAITING_FOR_USE) or results, "the erasure neither waits nor ends")

    monkeypatch.setattr("app.failpoints.trigger", trigger)
    assert archive.move_slice(small, None, chosen)[1]["archived"] == 1
    erasing.join()
    assert results == ["verified"]
    [new] = basis_ids(service, SHARED)
    assert new > old
    assert service.rows("SELECT DISTINCT basis_id FROM archived_memories") == [(new,)]


@pytest.mark.acceptance(8)
def test_a_vector_is_stored_whole_if_the_shared_basis_has_been_deleted_since_it_was_chosen(service: Service) -> None:
    large, used, _unused, _before = share(service)
    small, chosen = small_tenant(service, large)
    assert carried_out(large.tenant_id, erase(large.tenant_id, memory_ids=used[:1])) == "verified"
    assert archive.move_slice(small, None, chosen)[1] == {"archived": 1, "whole": 1}
    assert service.rows("SELECT DISTINCT basis_id FROM archived_memories") == [(None,)]
