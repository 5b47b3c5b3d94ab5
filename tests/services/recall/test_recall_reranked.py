"""The operator's reranker in a recall orders the sufficiently relevant memories; a failure changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from app.clients.llm.model_clients import model_clients
from app.clients.llm.resilience import ProviderFailed, Reason
from app.clients.llm.responses import Spent, unnoted
from app.domain.policy.policy import Policy
from app.domain.recall.parameters import Recall
from app.domain.recall.request import RecallRequest
from app.domain.search.parameters import Ranking
from app.services.recall.recall import recall_memories
from tests.service import Service, Tenant

TEXTS = (
    "Orla is allergic to walnuts and almonds",
    "Orla is allergic to cats",
    "Orla once ate walnuts and was ill",
    "The car is at the garage",
)
QUESTION = "Is Orla allergic to walnuts?"
RERANKED = Policy(ranking=Ranking(rerank=5))


class Judge:
    """A reranker that scores the least relevant text highest, unless a test sets its answer."""

    model = "judge"
    priced_as: str | None = None

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.answer: Callable[[Sequence[str]], list[float]] = lambda texts: [float(n) for n in range(len(texts))]

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> list[float]:
        del spent
        self.asked.append((query, list(texts)))
        return self.answer(texts)


@pytest.fixture
def tenant(service: Service) -> Tenant:
    tenant = service.tenant()
    service.send(tenant.tenant_id, *TEXTS)
    service.work()
    return tenant


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    one = Judge()
    monkeypatch.setitem(vars(model_clients), "reranker", one)
    return one


def bring(tenant: Tenant, policy: Policy = RERANKED, limit: int | None = None) -> list[UUID]:
    request = RecallRequest([QUESTION], limit=limit)
    return [each.id for each in recall_memories(tenant.tenant_id, request, policy).memories]


def test_its_order_decides_among_those_above_the_bar(tenant: Tenant, judge: Judge) -> None:
    plain = bring(tenant, Policy())
    assert len(plain) == 3
    assert judge.asked == []
    assert bring(tenant) == plain[::-1]
    [(query, texts)] = judge.asked
    assert query == QUESTION
    assert sorted(texts) == sorted(text for text in TEXTS if "Orla" in text)
    assert bring(tenant, limit=1) == plain[-1:]


def test_it_is_shown_twenty_at_least(service: Service, judge: Judge) -> None:
    tenant = service.tenant()
    service.send(tenant.tenant_id, *[f"Orla is allergic to walnuts, for {n} reasons" for n in range(30)])
    service.work()
    low = Recall(relevance_above=0.0)
    for wanted, shown in ((1, 20), (25, 25), (50, 30)):
        bring(tenant, Policy(ranking=Ranking(rerank=wanted), recall=low))
        assert len(judge.asked[-1][1]) == shown


def test_nothing_changes_when_it_fails(tenant: Tenant, judge: Judge) -> None:
    plain = bring(tenant, Policy())

    def fail(_: Sequence[str]) -> list[float]:
        raise ProviderFailed(Reason.UNREACHABLE)

    judge.answer = fail
    with capture_logs() as noted:
        assert bring(tenant) == plain
    assert [entry["event"] for entry in noted] == ["not_reranked"]
    assert "walnuts" not in str(noted)
