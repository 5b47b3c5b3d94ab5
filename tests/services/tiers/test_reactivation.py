"""Archived memories are restored by a use, a review or an edit, and then stay active for a grace period."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from uuid import UUID

import pytest

from app.domain.dynamics.profiles import PROFILES
from app.domain.ingest.memory import MemoryPatch
from app.domain.policy.policy import Forgetting, Policy
from app.services.ingest import drain
from app.services.memories import memories
from app.services.storage.memory_write import memory_write
from app.services.tiers import reactivation
from app.services.uses import reinforcement, reviews
from tests.service import Service, Tenant
from tests.services import archived_memories
from tests.services.archived_memories import archive_all, fade, remember, search_tiers, tiers

KETTLE, BOAT = "The red kettle stands in the kitchen", "We rowed the boat across the lake"


def archived(service: Service, tenant: Tenant) -> list[UUID]:
    """Two turns of a thread, both archived."""
    ids = remember(service, tenant.tenant_id, {"text": KETTLE, "thread": "t"}, {"text": BOAT, "thread": "t"})
    fade(service, ids, days=archived_memories.LONG_AGO_DAYS)
    archive_all(tenant.tenant_id)
    assert tiers(service, ids) == ["archived", "archived"]
    return ids


def by_touch(service: Service, tenant: Tenant, memory_id: UUID) -> None:
    assert (
        reinforcement.touch_memory(tenant.tenant_id, memory_id, archived_memories.used(memory_id)).strength[1] >= 0.45
    )


def by_observation(service: Service, tenant: Tenant, memory_id: UUID) -> None:
    touched = reinforcement.EnvelopeTouches(b"x" * 16, time.time(), archived_memories.used(memory_id))
    reinforcement.reinforce_used(tenant.tenant_id, [touched])


def by_review(service: Service, tenant: Tenant, memory_id: UUID) -> None:
    assert reviews.record_review(tenant.tenant_id, memory_id, "passed").after >= 0.45


def by_edit(service: Service, tenant: Tenant, memory_id: UUID) -> None:
    assert memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(tags=("x",))).tier == "active"


def by_rewording(service: Service, tenant: Tenant, memory_id: UUID) -> None:
    memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(text="A blue kettle stands there"))


def by_asking(service: Service, tenant: Tenant, memory_id: UUID) -> None:
    with memory_write(tenant.tenant_id, "state") as write:
        assert reactivation.restore(write, [memory_id], "use") == [memory_id]
        assert reactivation.restore(write, [memory_id], "use") == []


@pytest.mark.parametrize("way", [by_touch, by_observation, by_review, by_edit, by_rewording, by_asking])
def test_it_comes_back_at_once_and_alone(service: Service, way: archived_memories.Way) -> None:
    tenant = service.tenant()
    kettle, boat = archived(service, tenant)
    way(service, tenant, kettle)
    assert tiers(service, [kettle, boat]) == ["active", "archived"]
    assert archived_memories.strength(tenant.tenant_id, kettle) >= 0.45 - 1e-6
    assert service.rows("SELECT before, after FROM memory_events WHERE kind = 'restored'") == [(1, 0)]
    uses, wanted, fresh = service.rows(
        "SELECT access_count, wanted_tier, restored_at > now() - interval '1 hour' FROM memory_state "
        "WHERE memory_id = %s",
        kettle,
    )[0]
    assert (uses, wanted, fresh) == (1, "active", True)
    assert [result.id for result in search_tiers(tenant.tenant_id, "kettle")] == [kettle], "found by its words at once"
    archived_memories.embed(service)
    archived_memories.check(service, [kettle, boat])


@pytest.mark.parametrize("profile", ["spec", "mnemex", "cmm", "memory_decay"])
def test_it_is_strong_enough_in_every_model_and_doesnt_fall_back_within_its_grace(
    service: Service, profile: str
) -> None:
    assert profile in PROFILES
    tenant = service.tenant(Policy(forgetting=Forgetting(profile=profile)))
    ids = remember(service, tenant.tenant_id, KETTLE)
    fade(service, ids, days=100)
    archive_all(tenant.tenant_id)
    assert tiers(service, ids) == ["archived"]
    by_touch(service, tenant, ids[0])
    service.rows("UPDATE memory_state SET level = level - 5, retrieval = 0.01")  # however fast it fades
    fade(service, ids, days=6.9)
    archive_all(tenant.tenant_id)
    assert tiers(service, ids) == ["active"], "within its grace period"
    fade(service, ids, days=0.2)
    archive_all(tenant.tenant_id)
    assert tiers(service, ids) == ["archived"], "after its grace period"


def test_a_failed_review_and_a_use_of_long_ago_bring_nothing_back(service: Service) -> None:
    tenant = service.tenant()
    kettle, boat = archived(service, tenant)
    reviews.record_review(tenant.tenant_id, kettle, "failed")
    long_ago = time.time() - 30 * 86_400
    touched = reinforcement.EnvelopeTouches(b"x" * 16, long_ago, archived_memories.used(boat))
    reinforcement.reinforce_used(tenant.tenant_id, [touched])
    assert tiers(service, [kettle, boat]) == ["archived", "archived"]


def test_a_memory_that_is_sent_again_comes_back_where_it_says_something_else(service: Service) -> None:
    tenant = service.tenant()
    ids = remember(service, tenant.tenant_id, {"text": KETTLE, "external_id": "k"})
    fade(service, ids)
    archive_all(tenant.tenant_id)
    service.send(tenant.tenant_id, {"text": KETTLE, "external_id": "k"})
    drain.drain_streams()
    assert tiers(service, ids) == ["archived"]
    remember(service, tenant.tenant_id, {"text": "A blue kettle", "external_id": "k"})
    assert tiers(service, ids) == ["active"]
    archived_memories.check(service, ids)


def test_a_callers_own_vector_comes_back_as_it_was(service: Service) -> None:
    tenant = service.tenant()
    remember(service, tenant.tenant_id, BOAT)
    vector = [1.0] + [0.0] * 255
    [kettle] = ids = remember(service, tenant.tenant_id, {"text": KETTLE, "embedding": vector})
    before = service.rows("SELECT * FROM embeddings WHERE memory_id = %s", kettle)
    fade(service, ids)
    counts, _ = archive_all(tenant.tenant_id)
    assert counts["whole"] == 0, "a caller's own vector is never reduced"
    by_touch(service, tenant, kettle)
    assert service.rows("SELECT * FROM embeddings WHERE memory_id = %s", kettle) == before
    archived_memories.embed(service)
    assert service.rows("SELECT * FROM embeddings WHERE memory_id = %s", kettle) == before


@pytest.mark.slow
def test_killed_before_its_commit_it_stays_in_the_archive_and_can_be_used_again(service: Service) -> None:
    tenant = service.tenant()
    kettle, boat = archived(service, tenant)
    code = (
        "import sys; from uuid import UUID\n"
        "from app.services.storage.memory_write import memory_write; from app.services.tiers import reactivation\n"
        "tenant, memory = map(UUID, sys.argv[1:])\n"
        "with memory_write(tenant, 'state') as write: reactivation.restore(write, [memory], 'use')"
    )
    environment = {**os.environ, "EBBING_FAILPOINTS": "restore.before_commit"}
    command = [sys.executable, "-c", code, str(tenant.tenant_id), str(kettle)]
    assert subprocess.run(command, env=environment, check=False).returncode == -9
    assert tiers(service, [kettle, boat]) == ["archived", "archived"]
    archived_memories.check(service, [kettle, boat])
    by_touch(service, tenant, kettle)
    archived_memories.embed(service)
    archived_memories.check(service, [kettle, boat])
