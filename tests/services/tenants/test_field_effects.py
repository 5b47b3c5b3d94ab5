"""Fields of the policy whose effect only a running service has, and that no other test sets.

`tests/domain/policy/test_field_effects.py` names these tests, and fails for a field without an effect.
"""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest

from app.clients.llm.model_clients import model_clients
from app.clients.llm.responses import Usage
from app.domain.evaluation.self_test_rules import SelfTests
from app.domain.policy.policy import Budget, Policy
from app.domain.recall.parameters import Recall
from app.domain.recall.request import RecallRequest
from app.domain.tiers.protection import Protection
from app.services.evaluation import question_generation
from app.services.ingest import drain
from app.services.recall.recall import recall_memories
from app.services.tenants import budget, quota
from app.services.tenants.budget import BudgetState
from app.store.core import database
from app.store.tiers import protections
from tests.service import Service
from tests.services.evaluation.test_self_tests import CELLO, ROOF, Model
from tests.services.nights import purged


def test_a_limit_of_cost_stops_a_tenant(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "FRESH_SECONDS", 0.0)
    service.configure(prices=json.dumps({"m": {"input": 2, "output": 4}}))
    states = []
    for cost in (0.001, 1.0):
        tenant = service.tenant(Policy(budget=Budget(cost=cost)))
        budget.spend_tokens(tenant.tenant_id, "score", "m", Usage(calls=1, input_tokens=1000))
        states.append(budget.budget_state(tenant.tenant_id))
    assert states == [BudgetState.HARD, BudgetState.OK]


def test_tags_and_categories_protect(service: Service) -> None:
    """Seed 004 §5.2: the tags and categories of the policy, and no others."""
    tenant_id = service.tenant().tenant_id
    fields = [{"tags": ["decision"]}, {"tags": ["ours"]}, {"categories": ["consent"]}, {"categories": ["own"]}]
    ids = service.send(tenant_id, *({"text": "x", **each} for each in fields))
    drain.drain_streams()
    own = Protection(never_forget_tags=("ours",), never_forget_categories=("own",))
    found = []
    for policy in (Policy(), Policy(protection=own)):
        with database.tenant(tenant_id) as tx:
            marked = protections.read(tx, tenant_id, sorted(ids), policy.rules).is_marked
        found.append([bool(marked[sorted(ids).index(each)]) for each in ids])
    assert found == [[True, False, True, False], [False, True, False, True]]


def test_a_recalls_budget_is_the_policys(service: Service) -> None:
    tenant = service.tenant()
    service.send(tenant.tenant_id, "Orla is allergic to walnuts", "The spare keys are with Orla")
    service.work()
    request = RecallRequest(["Is Orla allergic to walnuts? Where are the spare keys?"], least=0.0)
    usual = recall_memories(tenant.tenant_id, request, Policy())
    less = recall_memories(tenant.tenant_id, request, Policy(recall=Recall(token_budget=usual.tokens - 1)))
    assert (len(usual.ids), len(less.ids)) == (2, 1)


@pytest.mark.parametrize("by_model", [True, False])
def test_questions_may_do_without_a_model(service: Service, monkeypatch: pytest.MonkeyPatch, by_model: bool) -> None:
    tenant_id = service.tenant().tenant_id
    service.configure(openai_base_url="http://127.0.0.1:9/v1")
    model = Model("Who plays an instrument at the weekend, in the attic?", "Which building lets the rain through?")
    monkeypatch.setitem(vars(model_clients), "question_writer", model)
    policy = Policy(self_tests=SelfTests(by_model=by_model))
    question_generation.generate_questions(tenant_id, {uuid4(): CELLO, uuid4(): ROOF}, policy)
    assert bool(model.asked) is by_model


@pytest.mark.parametrize(("quota_near", "state"), [(0.9, "below"), (0.8, "near")])
def test_a_quota_is_near_from_the_policys_share(service: Service, quota_near: float, state: str) -> None:
    tenant_id = service.tenant(Policy(quota_bytes=400, quota_near=quota_near)).tenant_id
    service.send(tenant_id, "x" * 350)
    drain.drain_streams()
    assert quota.warn_near_quota(tenant_id).state == state


@pytest.mark.parametrize(("history_days", "left"), [(30, 0), (60, 1)])
def test_a_history_lasts_as_long_as_the_policy_says(service: Service, history_days: int, left: int) -> None:
    tenant_id = service.tenant(Policy(history_days=history_days)).tenant_id
    [memory_id] = service.send(tenant_id, "x")
    service.work()
    service.rows(
        "INSERT INTO memory_events (tenant_id, memory_id, at, kind) VALUES (%s, %s, now() - %s, 'use')",
        tenant_id,
        memory_id,
        timedelta(days=45),
    )
    purged(tenant_id)
    old = "SELECT count(*) FROM memory_events WHERE tenant_id = %s AND at < now() - interval '40 days'"
    assert service.one(old, tenant_id) == left
