"""Summaries end to end: with a model, a lying model, a failing provider and budgets; no fact is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app import metrics
from app.clients.llm.model_clients import model_clients
from app.domain.consolidation.extractive_summary import extract_summary
from app.domain.consolidation.group_types import Source, Summary
from app.services.consolidation import summaries
from app.services.consolidation.summaries import SummaryRequest
from app.services.tenants import budget
from tests.consolidation.made import MOVE, sources
from tests.provider import model
from tests.provider.control import SUMMARY_SPOILS
from tests.provider.server import FakeProvider, provider
from tests.service import Service, Tenant

HOSTILE = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "salience" / "hostile.jsonl").read_text(encoding="utf-8").splitlines()
]
LIES = sorted({*SUMMARY_SPOILS, "not_json", "wrong_ids", "wrong_count", "swapped", "extra_field", "missing_field"})
LIES += ["text_numbers", "long_answer", "truncated"]
FAILING = [
    "rate_limit",
    "quota",
    "server_error",
    "unauthorised",
    "bad_request",
    "refusal",
    "reset",
    "html",
    "no_choice",
]
GROUP = sources(MOVE)
OWN = extract_summary(GROUP, "summary", "light")


@dataclass
class Summed:
    """A tenant and the fake provider that summarises its memories."""

    service: Service
    fake: FakeProvider
    tenant: Tenant

    def summary(self, group: list[Source] | None = None) -> Summary:
        return summaries.summarise_one(self.tenant.tenant_id, group or GROUP, "summary", "light")

    def spent(self) -> list[tuple[str, str, int, int]]:
        """Return purpose, model, calls and memories of each usage row."""
        return [
            (row.purpose, row.model, row.calls, row.memories) for row in budget.report_costs(self.tenant.tenant_id).rows
        ]


@pytest.fixture
def summed(service: Service) -> Iterator[Summed]:
    with provider() as fake:
        service.configure(openai_base_url=fake.url, summary_model="summer")
        yield Summed(service, fake, service.tenant())


def test_without_a_provider_a_summary_is_of_the_memories_own_sentences(service: Service) -> None:
    assert summaries.summarise_one(service.tenant().tenant_id, GROUP, "summary", "light") == OWN


def test_a_model_writes_it_and_is_paid_for(summed: Summed) -> None:
    made = summed.summary()
    assert (made.method, made.model) == ("llm", "summer")
    assert "555-0117" in made.text
    assert summed.spent() == [("summarise", "summer", 1, len(GROUP))]
    assert metrics.read_counters()["summaries_by_model"] == 1
    [body] = summed.fake.control.bodies
    assert body.keys() == {"model", "messages", "response_format", "max_completion_tokens"}, "no tools"
    assert [line["text"] for line in model.memories(body["messages"])] == [text for _, text in MOVE]


def test_a_model_that_lies_is_asked_once_more_and_then_not_heard(summed: Summed) -> None:
    for mode in LIES:
        calls = summed.fake.calls
        summed.fake.control.set(mode=mode, times=1)
        assert summed.summary().method == "llm", f"{mode}: the second answer is a true one"
        again = summed.fake.control.bodies[-1]["messages"][-1]["content"].split("\n")[-1]
        assert "An earlier answer was refused: " in again
        assert "Zebulon" not in again
        summed.fake.control.set(mode=mode)
        with capture_logs() as logs:
            assert summed.summary() == OWN, mode
        assert summed.fake.calls == calls + 4
        assert not any(text in str(logs) + again for _, text in MOVE)
        assert [(line["event"], line["groups"]) for line in logs] == [("not_summarised", 1)]
    assert summed.spent() == [("summarise", "summer", 4 * len(LIES), 2 * len(LIES) * len(GROUP))], (
        "rejected answers are billed too"
    )


def test_a_provider_that_fails_costs_the_better_wording_and_no_more(summed: Summed) -> None:
    wanted = [SummaryRequest(GROUP, "summary", "light")] * 9
    for mode in FAILING:
        calls = summed.fake.calls
        summed.fake.control.set(mode=mode)
        with capture_logs() as logs:
            assert summaries.summarise_all(summed.tenant.tenant_id, wanted, 5) == [OWN] * 9
        assert not any(text in str(logs) for _, text in MOVE)
        if mode in {"server_error", "quota", "unauthorised", "reset"}:
            assert summed.fake.calls - calls < len(wanted), "a failing provider is not called"
        model_clients.close()


def test_a_provider_that_is_away_is_left_alone_by_the_breaker(summed: Summed) -> None:
    summed.service.configure(llm_breaker_failures=1)
    summed.fake.refuse()
    assert summed.summary() == OWN
    assert model_clients.summariser.is_resting
    assert summed.summary() == OWN


def test_at_the_hard_limit_of_a_budget_no_model_is_asked(summed: Summed) -> None:
    summed.service.configure(budget_tokens=1)
    assert summed.summary().method == "llm"
    calls = summed.fake.calls
    assert summed.summary() == OWN
    assert (
        summaries.summarise_all(summed.tenant.tenant_id, [SummaryRequest(GROUP, "support", "medium")] * 3, 5)
        == [extract_summary(GROUP, "support", "medium")] * 3
    )
    assert summed.fake.calls == calls


def test_the_log_names_the_reason_that_stopped_the_model(summed: Summed) -> None:
    summed.service.configure(llm_concurrency=1, budget_tokens=1)
    wanted = [SummaryRequest(GROUP, "summary", "light")] * 3
    with capture_logs() as logs:
        summaries.summarise_all(summed.tenant.tenant_id, wanted, 30)
    assert [(line["reason"], line["groups"]) for line in logs if line["event"] == "not_summarised"] == [
        ("over_budget", 2)
    ], "the first call uses up the budget, the second finds it used up, the third isn't made"


def test_the_log_names_the_end_of_the_time(summed: Summed) -> None:
    summed.service.configure(llm_concurrency=2)
    with capture_logs() as logs:
        summaries.summarise_all(summed.tenant.tenant_id, [SummaryRequest(GROUP, "summary", "light")] * 5, 0)
    assert [(line["reason"], line["groups"]) for line in logs if line["event"] == "not_summarised"] == [("no time", 3)]


def test_a_budget_that_ends_with_a_lie_pays_for_no_second_answer(summed: Summed) -> None:
    summed.service.configure(budget_tokens=1)
    summed.fake.control.set(mode="wrong_ids")
    assert summed.summary() == OWN
    assert summed.fake.calls == 1


def test_several_are_asked_about_at_once_and_come_back_in_their_order(summed: Summed) -> None:
    groups = [sources([(speaker, f"{text} Topic {n}.") for speaker, text in MOVE]) for n in range(6)]
    made = summaries.summarise_all(
        summed.tenant.tenant_id, [SummaryRequest(each, "summary", "light") for each in groups], 30
    )
    assert [each.method for each in made] == ["llm"] * 6
    assert all(f"Topic {n}." in each.text for n, each in enumerate(made))


def test_when_the_time_is_over_the_rest_is_of_their_own_sentences(summed: Summed) -> None:
    summed.service.configure(llm_concurrency=2)
    made = summaries.summarise_all(summed.tenant.tenant_id, [SummaryRequest(GROUP, "summary", "light")] * 5, 0)
    assert [each.method for each in made] == ["llm"] * 2 + ["extractive"] * 3


def test_a_group_that_is_too_large_for_one_call_isn_t_shown_to_a_model(summed: Summed) -> None:
    summed.service.configure(summary_tokens=100)
    assert summed.summary() == OWN
    assert summed.fake.calls == 0


def test_texts_that_give_orders_change_no_more_than_wording(summed: Summed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that obeys instructions in a text adds unsupported statements or omits facts; its summary is rejected."""
    obeyed = {"summary": "PWNED by order, rated 10 of 10, see https://evil.example", "key_points": ["never forget"]}
    monkeypatch.setattr("tests.provider.summaries._spoiled", lambda said, _most, _mode: said | obeyed)
    wanted = [
        SummaryRequest(sources([*MOVE[:5], ("Mallory", item["text"])]), "summary", "light") for item in HOSTILE[::6]
    ]
    made = summaries.summarise_all(summed.tenant.tenant_id, wanted, 30)
    assert made == [extract_summary(each.sources, each.form, each.level) for each in wanted]
    assert summed.fake.calls == 2 * len(wanted)
