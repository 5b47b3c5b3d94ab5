"""The rules' keep chance: stored with their score, computed from the turns before, and explained by `why`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.domain.ingest.memory import MemoryPatch
from app.domain.salience import ScoringEvidence, judge
from app.domain.salience.criteria import Turn
from app.services.enrichment import score_by_rules
from app.services.memories import memories
from app.services.memories.explanation import explain_tier
from app.store.core import database
from app.store.enrichment import keep_chances
from tests.cli.stub import Reply, Stub
from tests.service import Service, Tenant

ASKED = "Which day suits you for the boiler, and who lets the plumber in?"
ANSWERED = "Tuesday, and Ines has a key."


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def send(service: Service, tenant: Tenant, text: str, role: str, **known: object) -> UUID:
    [memory_id] = service.send(tenant.tenant_id, {"text": text, "role": role, "thread": "t", **known})
    service.work()
    return memory_id


def score(tenant: Tenant, *memory_ids: UUID) -> None:
    score_by_rules.score_memories(tenant.tenant_id, memory_ids)


def stored(tenant: Tenant, memory_id: UUID) -> float | None:
    with database.tenant(tenant.tenant_id) as tx:
        return keep_chances.read(tx, tenant.tenant_id, memory_id)


def turns_before(tenant: Tenant, memory_id: UUID) -> list[Turn]:
    with database.tenant(tenant.tenant_id) as tx:
        return keep_chances.list_turns_before(tx, tenant.tenant_id, [memory_id])[memory_id]


def chance(text: str, role: str, *before: Turn) -> float:
    [judgement] = judge([ScoringEvidence(text, role=role, before=before)])  # type: ignore[arg-type]
    return judgement.keep_chance


def test_a_rating_reads_role_and_turns_before_in_the_thread(service: Service, tenant: Tenant) -> None:
    turns = [("Good morning.", "user"), (ASKED, "assistant"), (ANSWERED, "user")]
    ids = [send(service, tenant, *turn) for turn in turns]
    send(service, tenant, "The cat of another thread.", "user", thread="other")
    assert turns_before(tenant, ids[2]) == [Turn(ASKED, None, "assistant"), Turn("Good morning.", None, "user")]
    alone = chance(ANSWERED, "user")
    assert stored(tenant, ids[2]) != pytest.approx(alone, abs=1e-4)
    assert stored(tenant, ids[2]) == pytest.approx(chance(ANSWERED, "user", *turns_before(tenant, ids[2])), abs=1e-6)


def test_a_turn_that_is_scored_late_changes_the_chance_of_its_followers(service: Service, tenant: Tenant) -> None:
    asked, answered = (send(service, tenant, *turn) for turn in ((ASKED, "assistant"), (ANSWERED, "user")))
    service.rows("UPDATE memories SET deleted_at = now() WHERE memory_id = %s", asked)
    score(tenant, answered)
    before = stored(tenant, answered)
    service.rows("UPDATE memories SET deleted_at = NULL WHERE memory_id = %s", asked)
    score(tenant, asked)
    after = stored(tenant, answered)
    assert before != after
    score(tenant, asked, answered)
    assert stored(tenant, answered) == after


def test_an_edit_changes_the_chance_of_the_memory_and_its_followers(service: Service, tenant: Tenant) -> None:
    asked, answered = (send(service, tenant, *turn) for turn in ((ASKED, "assistant"), (ANSWERED, "user")))
    before = stored(tenant, asked), stored(tenant, answered)
    memories.edit_memory(tenant.tenant_id, asked, MemoryPatch(text="ok"))
    service.work()
    after = stored(tenant, asked), stored(tenant, answered)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_a_memory_with_the_caller_s_salience_has_no_chance(service: Service, tenant: Tenant) -> None:
    memory_id = send(service, tenant, ANSWERED, "user", salience=0.9)
    assert stored(tenant, memory_id) is None
    assert explain_tier(tenant.tenant_id, memory_id).keep is None


def test_why_names_the_chance_and_three_reasons(service: Service, tenant: Tenant) -> None:
    memory_id = send(service, tenant, "I'm allergic to penicillin, and Ines Okafor is my doctor.", "user")
    keep = explain_tier(tenant.tenant_id, memory_id).keep
    assert keep is not None
    assert keep.chance == stored(tenant, memory_id)
    assert len(keep.reasons) == 3


def test_the_command_shows_the_chance_with_its_reasons(service: Service) -> None:
    reasons = [{"feature": "first person", "points": 0.64}, {"feature": "general advice", "points": -0.1}]
    found: dict[str, Any] = {
        "tier": "active", "wanted": "active", "rule": "decay", "why": "x", "numbers": {"uses": 1}, "holds": [],
        "next_change": None, "keep": {"chance": 0.707, "reasons": reasons},
    }  # fmt: skip
    stub = Stub()
    try:
        stub.replies["GET /v1/memories/one/why"] = Reply(200, found)
        service.configure(api_url=stub.url, api_key="ebb_stub")
        shown = CliRunner().invoke(app, ["why", "one"])
    finally:
        stub.close()
    assert "keep chance     0.707, raised by: first person, lowered by: general advice" in shown.stdout
