"""Bases: fitted at night, shared by small tenants, and never used for vectors that they don't fit (F24)."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest

from app.services.memories import memories
from app.services.tiers import archive, pca_fitting
from app.store.core import database
from app.store.tiers import pca_bases
from app.store.tiers.pca_bases import SHARED
from tests.service import Service, Tenant
from tests.services import archived_memories
from tests.services.archived_memories import archive_all, fade, remember, search_tiers
from tests.services.embedder_move import Move, Movers, gone, movers

__all__ = ["movers"]

WORDS = [f"{first}{second}" for first in ("tea", "sun", "rain", "rock", "wood") for second in ("cup", "house", "fall")]
KETTLE = "The red kettle stands in the kitchen"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count tenants as large from 300 vectors on, and clear the cache of bases."""
    monkeypatch.setattr(pca_fitting, "OWN_FROM", 300)
    pca_fitting._cached.cache_clear()


def crowd(service: Service, tenant: Tenant, count: int = 300, subject: str | None = None) -> list[UUID]:
    """Store this many memories of random words."""
    random = np.random.default_rng(1)
    return remember(
        service,
        tenant.tenant_id,
        *({"text": " ".join(random.choice(WORDS, 6)), "subject": subject} for _ in range(count)),
    )


def stored_shapes(service: Service) -> set[tuple[int, int | None]]:
    """Return the distinct dimensions and bases of archived vectors."""
    return {tuple(row) for row in service.rows("SELECT vector_dims(vector), basis_id FROM archived_memories")}


def test_a_large_tenant_has_a_basis_of_its_own_and_is_found_by_meaning(service: Service) -> None:
    tenant = service.tenant()
    ids = [*crowd(service, tenant), *remember(service, tenant.tenant_id, KETTLE)]
    before = {result.id: result.explain["relevance"] for result in search_tiers(tenant.tenant_id, "teapot")}  # type: ignore[index]
    fade(service, ids)
    counts, notes = archive_all(tenant.tenant_id)
    assert counts["archived"] == 301
    assert counts["whole"] == 0
    [basis_id] = service.rows("SELECT basis_id FROM pca_bases")[0]
    assert "basis" in notes[0]
    assert stored_shapes(service) == {(128, basis_id)}
    [used] = pca_fitting.list_in_use(tenant.tenant_id)
    assert (used.basis, used.shared, used.samples, used.memories) == (basis_id, False, 301, 301)
    assert used.variance_kept is not None
    assert used.variance_kept > 0.5
    after = {result.id: result.explain["relevance"] for result in search_tiers(tenant.tenant_id, "teapot", "archived")}  # type: ignore[index]
    assert len(before.keys() & after.keys()) >= 9
    assert [after[memory_id] for memory_id in before.keys() & after.keys()] == pytest.approx(
        [before[memory_id] for memory_id in before.keys() & after.keys()], abs=0.05
    )


def test_vectors_are_stored_whole_if_an_erasure_has_deleted_the_basis_meanwhile(service: Service) -> None:
    tenant = service.tenant()
    ids = crowd(service, tenant)
    pca_fitting.refit_basis(tenant.tenant_id)
    chosen = archive.current_basis(tenant.tenant_id)
    assert chosen is not None
    service.rows("DELETE FROM pca_bases")  # as an erasure's refit does between two slices of archiving
    fade(service, ids)
    archived_memories.swept(tenant.tenant_id)
    assert archive.move_slice(tenant.tenant_id, None, chosen)[1]["whole"] == len(ids)
    assert {basis_id for _, basis_id in stored_shapes(service)} == {None}


def test_a_basis_that_vectors_use_isnt_deleted(service: Service) -> None:
    tenant = service.tenant()
    fade(service, crowd(service, tenant))
    archive_all(tenant.tenant_id)
    [(basis_id,)] = service.rows("SELECT basis_id FROM pca_bases")
    with database.tenant(tenant.tenant_id) as tx:
        assert pca_bases.drop_bases(tx, tenant.tenant_id, [basis_id]) == 0
        assert pca_bases.list_ids(tx, tenant.tenant_id) == [basis_id]


def test_a_basis_lasts_until_there_are_twice_as_many_vectors(service: Service) -> None:
    tenant = service.tenant()
    first = crowd(service, tenant, 310)
    assert len(pca_fitting.refit_basis(tenant.tenant_id)) == 1
    assert pca_fitting.refit_basis(tenant.tenant_id) == ()
    fade(service, first[:1])
    archive_all(tenant.tenant_id)
    crowd(service, tenant, 320)
    assert len(pca_fitting.refit_basis(tenant.tenant_id)) == 1
    [old, new] = [basis_id for (basis_id,) in service.rows("SELECT basis_id FROM pca_bases ORDER BY 1")]
    fade(service, first[1:2])
    archive_all(tenant.tenant_id)
    assert stored_shapes(service) == {(128, old), (128, new)}
    assert len(search_tiers(tenant.tenant_id, "teacup sunhouse", "archived")) == 2, "each is compared in its own basis"
    service.rows("DELETE FROM archived_memories WHERE memory_id = %s", first[0])
    service.rows("UPDATE pca_bases SET made_at = made_at - interval '91 days'")
    assert len(pca_fitting.refit_basis(tenant.tenant_id)) == 1
    assert old not in {basis_id for (basis_id,) in service.rows("SELECT basis_id FROM pca_bases")}


def test_small_tenants_share_one(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca_fitting, "SHARE_EACH", 130)
    monkeypatch.setattr(pca_fitting, "OWN_FROM", 1000)
    one, other = service.tenant(), service.tenant()
    some, more = crowd(service, one, 140), crowd(service, other, 140)
    fade(service, [some[0], more[0]])
    assert archive_all(one.tenant_id)[0]["whole"] == 1, "130 are too few"
    assert archive_all(other.tenant_id)[1][0].startswith("shared basis")
    [(owner, basis_id)] = service.rows("SELECT tenant_id, basis_id FROM pca_bases")
    assert owner == SHARED
    assert archive_all(one.tenant_id)[0]["reduced"] == 1, "vectors stored whole are reduced later"
    assert stored_shapes(service) == {(128, basis_id)}
    assert pca_fitting.list_in_use(one.tenant_id)[0].shared
    assert search_tiers(one.tenant_id, "teacup", "archived")[0].id == some[0]


def test_samples_forget_what_was_deleted_or_reworded(service: Service) -> None:
    tenant = service.tenant()
    ids = crowd(service, tenant, 300, subject="ann")
    pca_fitting.refit_basis(tenant.tenant_id)
    assert service.rows("SELECT count(*), min(subject) FROM pca_samples") == [(300, "ann")]
    memories.delete(tenant.tenant_id, ids[0])
    archived_memories.act_on(tenant.tenant_id, ids[1], "edit")
    assert service.one("SELECT count(*) FROM pca_samples") == 298


def test_a_missing_or_broken_basis_reduces_nothing_and_is_told_of(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = service.tenant()
    ids = crowd(service, tenant, 301)
    pca_fitting.refit_basis(tenant.tenant_id)
    fade(service, ids[:1])
    archive_all(tenant.tenant_id)
    for breaking in ("UPDATE pca_bases SET matrix = '\\x00'", "DELETE FROM pca_bases"):
        service.rows(breaking)
        pca_fitting._cached.cache_clear()
        hits = search_tiers(tenant.tenant_id, service.texts(tenant.tenant_id)[0], "archived")
        assert [hit.id for hit in hits] == ids[:1], "found by its words"
        assert hits[0].explain["relevance"] == 0  # type: ignore[index]
    assert capsys.readouterr().out.count("basis_missing") == 2
    assert pca_fitting.list_in_use(tenant.tenant_id)[0].variance_kept is None
    service.rows("DELETE FROM pca_samples")
    service.rows(
        "INSERT INTO pca_bases (tenant_id, space_id, matrix, mean, variance_kept, samples) "
        "SELECT tenant_id, space_id, '\\x0000', '\\x00000000', 0, 400 FROM embeddings LIMIT 1"
    )
    there = archived_memories.space_of(tenant.tenant_id)
    assert pca_fitting.current_basis(tenant.tenant_id, there) is None
    assert "basis_unusable" in capsys.readouterr().out
    fade(service, ids[1:2])
    counts, notes = archive_all(tenant.tenant_id)  # a newly fitted basis
    assert counts["whole"] == 0
    assert "basis" in notes[0]


def test_vectors_of_another_space_are_never_compared_or_reduced_by_a_basis(movers: Movers) -> None:
    service = movers.service
    tenant = service.tenant()
    ids = crowd(service, tenant, 301)
    pca_fitting.refit_basis(tenant.tenant_id)
    old = archive.current_basis(tenant.tenant_id)
    fade(service, ids[:1])
    archive_all(tenant.tenant_id)
    held = service.rows("SELECT * FROM archived_memories")
    movers.use("openai")
    Move.read(tenant.tenant_id).end()
    assert service.rows("SELECT * FROM archived_memories") == held, "a move doesn't change the archive"
    text = service.texts(tenant.tenant_id)[0]
    [hit] = search_tiers(tenant.tenant_id, text, "archived")
    assert hit.explain["relevance"] > 0, "compared in the memory's own space"  # type: ignore[index]
    fade(service, ids[1:2])
    archived_memories.swept(tenant.tenant_id)
    assert archive.move_slice(tenant.tenant_id, None, old)[1]["archived"] == 1
    assert {row[0] for row in stored_shapes(service)} == {128, 64}, "short vectors are stored unchanged"
    archived_memories.act_on(tenant.tenant_id, ids[0], "touch")
    archived_memories.embed(service)
    assert movers.spaces(ids[0]) == {("embed-small+passage-1", 64)}


def test_without_the_embedder_of_its_space_it_is_found_by_its_words(movers: Movers) -> None:
    service = movers.service
    tenant = service.tenant()
    movers.use("openai")
    ids = remember(service, tenant.tenant_id, KETTLE)
    fade(service, ids)
    archive_all(tenant.tenant_id)
    movers.use("local")
    Move.read(tenant.tenant_id).end()
    assert search_tiers(tenant.tenant_id, "kettle", "archived")[0].explain["relevance"] > 0  # type: ignore[index]
    with gone(movers):
        [hit] = search_tiers(tenant.tenant_id, "red kettle", "archived")
    assert (hit.id, hit.explain["relevance"]) == (ids[0], 0)  # type: ignore[index]
