"""Reranking of the best results: which searches use it, what it changes and costs, and that it may fail."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from sqlalchemy import QueuePool
from structlog.testing import capture_logs

from app.clients.llm.model_clients import model_clients
from app.clients.llm.responses import Spent, Usage, unnoted
from app.domain.policy.policy import Policy
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest
from app.errors import Misconfigured
from app.services.monitoring import doctor
from app.services.search import rerank
from app.services.search.search import SearchOutcome, find_memories
from app.services.tenants import budget
from app.settings import settings
from app.store.core import database
from tests.provider.server import FakeProvider, provider
from tests.service import Service, forget
from tests.services.stored_memories import Shelf
from tests.waiting import PATIENCE_SECONDS

TEXTS = {
    "both": "lessons for the piano are on Tuesday at nine in the morning",
    "more": "piano lessons and guitar lessons, and all that they cost",
    "short": "lessons",
    "other": "Paris",
}


class Judge:
    """A reranker with a configurable answer; by default it prefers the texts at the end."""

    model = "judge"
    priced_as: str | None = None

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.answer: Callable[[Sequence[str]], list[float]] = lambda texts: [float(n) for n in range(len(texts))]

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> list[float]:
        pool = database.engine("ebbing_app").pool
        assert isinstance(pool, QueuePool)
        assert pool.checkedout() == 0, "a transaction waits for the model"
        self.asked.append((query, list(texts)))
        spent(Usage(calls=1, input_tokens=7, output_tokens=2))
        return self.answer(texts)


@pytest.fixture
def memories(service: Service) -> Shelf:
    shelf = Shelf(service.tenant().tenant_id)
    for key, said in TEXTS.items():
        shelf.put(key, said, speaker="Ann" if key == "both" else None)
    shelf.index()
    shelf.embed()
    return shelf


@pytest.fixture
def judge(memories: Shelf, monkeypatch: pytest.MonkeyPatch) -> Judge:
    one = Judge()
    monkeypatch.setitem(vars(model_clients), "reranker", one)
    return one


def keys(found: SearchOutcome) -> list[str | None]:
    return [result.external_id for result in found.results]


def search(shelf: Shelf, policy: Policy | None = None, **more: int | bool) -> SearchOutcome:
    return find_memories(shelf.tenant_id, SearchRequest("piano lessons", **more), policy or Policy())  # type: ignore[arg-type]


@pytest.fixture
def plain(memories: Shelf) -> list[str | None]:
    """Return the order of the search without a reranker."""
    found = keys(search(memories))
    assert len(found) >= 3
    return found


# --- Effect on the order ---


def test_the_reranker_re_orders_the_best(memories: Shelf, judge: Judge, plain: list[str | None]) -> None:
    found = search(memories, rerank=2)
    assert found.reranked
    assert keys(found) == [plain[1], plain[0], *plain[2:]]
    [(query, texts)] = judge.asked
    assert query == "piano lessons"
    assert [text.removeprefix("Ann: ") for text in texts] == [TEXTS[str(key)] for key in plain[:2]]
    assert "Ann: lessons for" in "".join(texts), "the text starts with the speaker"


def test_what_was_behind_the_limit_may_come_to_the_front(memories: Shelf, judge: Judge, plain: list[str]) -> None:
    assert keys(search(memories, rerank=3, limit=1)) == [plain[2]]


def test_the_score_is_still_the_parts_times_the_factors(memories: Shelf, judge: Judge, plain: list[str]) -> None:
    found = search(memories, rerank=2, explain=True)
    scores = [result.score for result in found.results]
    assert scores == sorted(scores, reverse=True)
    for result, raw in zip(found.results, (1.0, 0.0, None), strict=False):
        assert result.explain is not None
        factors = result.explain["factors"]
        parts = sum(part for part in result.explain.values() if isinstance(part, float))
        assert result.score == pytest.approx(parts * math.prod(factors.values()))
        expected = None if raw is None else {"model": "judge", "score": raw}
        assert result.explain.get("reranker") == expected


def test_the_policy_may_ask_for_it_and_the_search_may_refuse(memories: Shelf, judge: Judge, plain: list[str]) -> None:
    policy = Policy(ranking=Ranking(rerank=2))
    assert search(memories, policy).reranked
    assert keys(search(memories, policy, rerank=0)) == plain
    assert keys(search(memories)) == plain
    assert len(judge.asked) == 1


def test_places_for_review_are_given_after_it(memories: Shelf, judge: Judge, plain: list[str]) -> None:
    found = find_memories(memories.tenant_id, SearchRequest("piano lessons", rerank=3, limit=1, review_blend=0.01))
    assert (keys(found), found.reranked) == ([plain[2]], True)


def test_where_there_is_no_choice_nobody_is_asked(memories: Shelf, judge: Judge) -> None:
    assert not search(memories, rerank=1).reranked
    assert not find_memories(memories.tenant_id, SearchRequest("zeppelin", rerank=9)).reranked
    assert judge.asked == []


def test_without_a_reranker_a_search_that_wants_one_is_as_any(memories: Shelf, plain: list[str]) -> None:
    with capture_logs() as logged:
        found = search(memories, rerank=9)
    assert (keys(found), found.reranked, logged) == (plain, False, [])


# --- Failures ---


def _raise(error: Exception) -> list[float]:
    raise error


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: [1.0], "garbage, wrong count"),
        (lambda texts: [float("nan")] * len(texts), "garbage, not finite"),
        (lambda texts: [float("inf")] * len(texts), "garbage, not finite"),
        (lambda texts: [None] * len(texts), "garbage, TypeError"),
        (lambda texts: _raise(ValueError(texts[0])), "garbage, ValueError"),
        (lambda texts: _raise(TimeoutError(texts[0])), "timeout"),
    ],
)
def test_a_failure_leaves_the_order_with_one_warning(
    memories: Shelf,
    judge: Judge,
    plain: list[str],
    answer: Callable[[Sequence[str]], list[float]],
    reason: str,
) -> None:
    judge.answer = answer
    with capture_logs() as logged:
        found = search(memories, rerank=3)
    assert (keys(found), found.reranked) == (plain, False)
    [line] = logged
    assert (line["event"], line["reason"], line["model"]) == ("not_reranked", reason, "judge")
    assert "lessons" not in str(logged)


def test_one_that_is_late_is_not_waited_for(service: Service, memories: Shelf, judge: Judge, plain: list[str]) -> None:
    service.configure(rerank_timeout_seconds=0.05)
    goes_on = threading.Event()
    judge.answer = lambda texts: [float(goes_on.wait(PATIENCE_SECONDS)) for _ in texts]
    found = search(memories, rerank=3)
    goes_on.set()
    assert (keys(found), found.reranked) == (plain, False)


def test_one_that_keeps_failing_is_left_alone(service: Service, memories: Shelf, judge: Judge) -> None:
    service.configure(llm_breaker_failures=2)
    judge.answer = lambda _: _raise(TimeoutError())
    with capture_logs() as logged:
        for _ in range(4):
            search(memories, rerank=3)
    assert len(judge.asked) == 2
    assert [line["reason"] for line in logged][2:] == ["circuit_open"] * 2


# --- Cost ---


def booked(service: Service) -> list[tuple[object, ...]]:
    """Return tenant, purpose, model, calls and memories of each usage row."""
    return [tuple(row) for row in service.rows("SELECT tenant_id, purpose, model, calls, memories FROM usage")]


@contextmanager
def asking(service: Service, **values: object) -> Iterator[FakeProvider]:
    """Configure a chat model of a fake provider as the reranker."""
    with provider() as fake:
        service.configure(reranker="llm", reranker_model="small", openai_base_url=fake.url, **values)
        model_clients.close()
        yield fake
        forget()


def test_a_chat_model_re_orders_on_the_tenants_account(service: Service, memories: Shelf, plain: list[str]) -> None:
    with asking(service) as fake:
        found = search(memories, rerank=3)
        assert found.reranked
        assert keys(found)[0] == "short", "this text contains every word of the query"
        assert booked(service) == [(memories.tenant_id, "rerank", "small", 1, 3)]
        fake.control.set(mode="garbage")
        assert keys(search(memories, rerank=3)) == plain
        fake.control.set(mode="not_json")
        with capture_logs() as logged:
            assert keys(search(memories, rerank=3)) == plain
        assert [line["reason"] for line in logged] == ["garbage, not JSON"]
        [(*_, calls, _)] = booked(service)
        assert calls == 2, "an invalid answer is billed too"


def test_without_a_budget_nobody_is_asked(service: Service, memories: Shelf, plain: list[str]) -> None:
    with asking(service, budget_tokens=0) as fake:
        with capture_logs() as logged:
            assert keys(search(memories, rerank=3)) == plain
        assert fake.calls == 0
    assert [line["reason"] for line in logged if line["event"] == "not_reranked"] == ["over_budget"]


def test_the_models_of_a_provider_are_known_by_name(service: Service) -> None:
    with asking(service, salience_model="large"):
        assert budget.list_models(settings()) == ["large", "small"]
        service.configure(reranker_model="large")
        assert budget.list_models(settings()) == ["large"]


def test_the_doctor_says_what_there_is(service: Service) -> None:
    [found] = doctor.reranker_loads()
    assert found.detail.startswith("none")
    with asking(service):
        [found] = doctor.reranker_loads()
        assert (found.severity, found.detail) == ("ok", "small, called at the provider")


def test_one_that_can_not_be_keeps_the_api_from_starting(service: Service) -> None:
    service.configure(reranker="other")
    model_clients.close()
    with capture_logs() as logged, pytest.raises(Misconfigured, match="EBBING_RERANKER=other"):
        rerank.check_reranker()
    assert [line["event"] for line in logged] == ["misconfigured"]
    [found] = doctor.reranker_loads()
    assert (found.severity, "EBBING_RERANKER=other" in found.detail) == ("trouble", True)
