"""Archived vectors whose basis is gone are found by `doctor`, and computed again from the texts (F24)."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest

from app.clients.embedding.embedder import EmbedderUnavailable
from app.services.embedding import spaces
from app.services.memories import memories
from app.services.monitoring import doctor_stores
from app.services.tiers import pca_fitting, vector_repair
from tests.service import Service, Tenant
from tests.services.archived_memories import archive_all, fade, search_tiers
from tests.services.tiers.test_pca_fitting import crowd


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count tenants as large from 300 vectors on, and clear the cache of bases."""
    monkeypatch.setattr(pca_fitting, "OWN_FROM", 300)
    pca_fitting._cached.cache_clear()


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


@pytest.fixture
def archived(service: Service, tenant: Tenant) -> list[UUID]:
    """The first five of 310 memories, archived with vectors that the tenant's own basis has reduced."""
    ids = crowd(service, tenant, 310)
    fade(service, ids[:5])
    archive_all(tenant.tenant_id)
    assert bases(service) != {None}
    return ids[:5]


def bases(service: Service) -> set[int | None]:
    return {basis_id for (basis_id,) in service.rows("SELECT DISTINCT basis_id FROM archived_memories")}


def relevance(service: Service, tenant: Tenant, memory_id: UUID) -> float:
    """Return the relevance of a memory in a search of the archive for its own text."""
    text = service.one("SELECT text FROM memories WHERE memory_id = %s", memory_id)
    [found] = [hit for hit in search_tiers(tenant.tenant_id, text, "archived") if hit.id == memory_id]
    return float(found.explain["relevance"])  # type: ignore[index]


@pytest.mark.parametrize("broken", ["UPDATE pca_bases SET matrix = '\\x00'", "DELETE FROM pca_bases"])
def test_vectors_without_their_basis_are_reported_and_made_again(
    service: Service, tenant: Tenant, archived: list[UUID], broken: str
) -> None:
    before = relevance(service, tenant, archived[0])
    [well] = doctor_stores.archived_vectors()
    service.rows(broken)
    pca_fitting._cached.cache_clear()
    lost = bases(service)
    assert relevance(service, tenant, archived[0]) == 0
    [found] = doctor_stores.archived_vectors()
    assert (well.severity, found.severity) == ("ok", "attention")
    assert "5 archived memories of one tenant" in found.detail

    counts, _ = archive_all(tenant.tenant_id)

    assert (counts["repaired"], counts["reduced"], counts["archived"]) == (5, 5, 0)
    assert not bases(service) & (lost | {None}), "the new basis has reduced them"
    assert relevance(service, tenant, archived[0]) == pytest.approx(before, abs=0.1)
    assert [finding.severity for finding in doctor_stores.archived_vectors()] == ["ok"]
    assert archive_all(tenant.tenant_id)[0] == {}, "a second run finds nothing"


def test_the_repair_goes_on_where_it_stopped(
    service: Service, tenant: Tenant, archived: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_repair, "ROWS", 2)
    service.rows("DELETE FROM pca_bases")
    vectors: list[int] = []
    state: dict[str, Any] | None = {}
    while state is not None:
        done = vector_repair.run_slice(tenant.tenant_id, state, time.monotonic())  # one batch at a time
        vectors.append(done.vectors)
        state = done.state
    assert vectors == [2, 2, 1, 0]
    assert bases(service) == {None}
    assert vector_repair.list_broken(tenant.tenant_id) == []


def test_memories_that_an_erasure_hides_wait_for_its_end(
    service: Service, tenant: Tenant, archived: list[UUID]
) -> None:
    service.rows("DELETE FROM pca_bases")
    memories.delete(tenant.tenant_id, archived[0])
    assert archive_all(tenant.tenant_id)[0]["repaired"] == 4
    assert [group.memories for group in vector_repair.list_broken(tenant.tenant_id)] == [1]


def test_without_the_embedder_the_vectors_wait_and_archiving_goes_on(
    service: Service, tenant: Tenant, archived: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object) -> None:
        raise EmbedderUnavailable("gone")

    service.rows("DELETE FROM pca_bases")
    lost = bases(service)
    active = "SELECT memory_id FROM memory_state WHERE tenant_id = %s AND tier = 'active' LIMIT 1"
    fade(service, [service.one(active, tenant.tenant_id)])
    with monkeypatch.context() as patch:
        patch.setattr(spaces, "open_embedder", unavailable)
        counts, notes = archive_all(tenant.tenant_id)
    assert counts["archived"] == 1
    assert vector_repair.UNAVAILABLE in notes
    assert lost < bases(service)
    assert archive_all(tenant.tenant_id)[0]["repaired"] == 5
