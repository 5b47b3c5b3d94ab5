"""Promotion at night and by a job, its dry run, and the tiers of promoted memories on a running service."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from app.domain.policy.policy import Forgetting, Policy
from app.domain.strength.promotion import Promotion
from app.domain.tiers.protection import Protection
from app.services.memories import explanation, manual_promotion
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.services.tiers import promotion_run
from tests.service import Service
from tests.services import nights
from tests.services.backdated import age

MNEMEX = Policy(forgetting=Forgetting(profile="mnemex"), protection=Protection(salience_above=1.0, grace_days=0))
KEEPS = MNEMEX.model_copy(update={"promotion": Promotion(keeps=True)})


def run(tenant_id: UUID) -> int:
    """Run the step to its end, a page at a time, and return the number of promoted memories."""
    promoted, state = 0, dict[str, Any]()
    while True:
        step = promotion_run.run_slice(tenant_id, None, state, time.monotonic())
        promoted, state = promoted + step.counts["promoted"], step.state
        if step.finished:
            return promoted


def set_uses(service: Service, uses: int, *memory_ids: UUID) -> None:
    ids = list(memory_ids)
    service.rows("UPDATE memory_state SET access_count = %s WHERE memory_id = ANY (%s)", uses, ids)


def test_001_candidates_are_previewed_then_promoted_once(service: Service, monkeypatch: Any) -> None:
    """Seed 001, promotion flow: identify candidates, optional dry-run preview, update the status."""
    monkeypatch.setattr(promotion_run, "ROWS", 2)
    tenant_id = service.tenant().tenant_id
    ids = sorted(service.send(tenant_id, *(f"memory {place}" for place in range(7))))
    service.work()
    set_uses(service, 5, *ids[1:6])
    set_uses(service, 4, ids[6])
    age(service, 20, ids[5])
    first = promotion_run.preview_promotion(tenant_id, None, None, 3)
    rest = promotion_run.preview_promotion(tenant_id, None, first.following, 3)
    assert [move.memory_id for move in (*first.moves, *rest.moves)] == ids[1:5]
    assert {(move.before, move.after, move.rule) for move in first.moves} == {("active", "promoted", "uses")}
    assert (first.counts["promoted"], rest.counts["promoted"], rest.following) == (3, 1, None)
    assert service.one("SELECT count(*) FROM memory_state WHERE promoted_at IS NOT NULL") == 0
    assert (run(tenant_id), run(tenant_id)) == (4, 0)
    assert service.one("SELECT count(*) FROM memory_events WHERE kind = 'promoted'") == 4
    assert service.one("SELECT min(promoted_strength) FROM memory_state WHERE promoted_at IS NOT NULL") > 0


def test_000_a_score_promotes_used_memories_only(service: Service) -> None:
    """Seed 000, promote threshold; worked example A keeps a new memory with a score of .944 unpromoted."""
    tenant_id = service.tenant(MNEMEX).tenant_id
    _, used, faded = service.send(tenant_id, "unused", "used", "faded")
    service.work()
    set_uses(service, 1, used, faded)
    age(service, 30, faded)
    assert run(tenant_id) == 1
    assert service.rows("SELECT memory_id, promoted_for FROM memory_state WHERE promoted_at IS NOT NULL") == [
        (used, "score")
    ]


def test_a_night_promotes_before_it_decides_and_keeps_promoted_memories(service: Service) -> None:
    tenant_id = service.tenant(KEEPS).tenant_id
    kept, lost = service.send(tenant_id, "kept", "lost")
    service.work()
    set_uses(service, 1, kept)
    assert nights.run(tenant_id)["promote.promoted"] == 1
    age(service, 30, kept, lost)
    service.rows("UPDATE memory_state SET next_due_at = '-infinity'")
    nights.run(tenant_id)
    found = dict(service.rows("SELECT memory_id, tier FROM memory_state"))
    assert (found[kept], found[lost]) == ("active", "archived")
    explained = explanation.explain_tier(tenant_id, kept)
    assert (explained.verdict.rule, explained.case.is_promoted, explained.change_at) == ("promoted", True, None)


def test_a_demoted_memory_fades_and_only_a_person_promotes_it_again(service: Service) -> None:
    tenant_id = service.tenant(KEEPS).tenant_id
    [memory_id] = service.send(tenant_id, "kept")
    service.work()
    set_uses(service, 1, memory_id)
    run(tenant_id)
    age(service, 30, memory_id)
    assert nights.swept(tenant_id) == 1
    manual_promotion.demote(tenant_id, memory_id, "key")
    assert run(tenant_id) == 0
    nights.run(tenant_id)
    assert service.one("SELECT tier FROM memory_state") == "archived"
    manual_promotion.promote(tenant_id, memory_id, "key", force=True)
    assert service.rows("SELECT promoted_for, demoted_at FROM memory_state") == [("manual", None)]


def test_a_policy_that_stops_keeping_them_lets_them_fade(service: Service) -> None:
    tenant_id = service.tenant(KEEPS).tenant_id
    [memory_id] = service.send(tenant_id, "kept")
    service.work()
    manual_promotion.promote(tenant_id, memory_id, "key", force=True)
    age(service, 30, memory_id)
    nights.run(tenant_id)
    assert service.one("SELECT tier FROM memory_state") == "active"
    policy_versions.write_change(tenant_id, RequestedChange({"promotion": {"keeps": False}}))
    nights.run(tenant_id)
    assert service.one("SELECT tier FROM memory_state") == "archived"
