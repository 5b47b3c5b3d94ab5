"""Consolidation runs with a model: a provider that fails, lies or overspends costs wording, never a memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.services.consolidation import consolidation_run, merge_execution
from app.services.memories import recount
from app.services.tenants import budget
from tests.provider.server import FakeProvider, provider
from tests.service import Service
from tests.services import nights
from tests.services.mergeable import LIKE, Alike

SUBJECTS = ("ann", "bob", "cat")
CALLS_OF_A_LIE = 2
"""The first answer, and the second after the model was shown its error."""


@pytest.fixture
def fake(service: Service) -> Iterator[FakeProvider]:
    with provider() as fake:
        service.configure(openai_base_url=fake.url, summary_model="summer", llm_breaker_failures=1)
        yield fake


@pytest.fixture
def alike(service: Service, monkeypatch: pytest.MonkeyPatch) -> Alike:
    """A tenant with three groups, each consolidated in a transaction of its own."""
    monkeypatch.setattr(consolidation_run, "SOURCES", 1)
    alike = Alike(service)
    for subject in SUBJECTS:
        alike.remember(*LIKE, subject=subject)
    return alike


def sound(alike: Alike) -> dict[str, int]:
    """Assert that each group has one faithful summary and lost nothing; count the summaries by method."""
    rows = alike.service.rows(
        "SELECT method, memory.text, ARRAY(SELECT source.text FROM lineage JOIN memories AS source "
        "  USING (tenant_id, memory_id) WHERE merge_id = merges.merge_id AND part = 'source'), sources "
        "FROM merges JOIN memories AS memory ON memory_id = summary_id WHERE status = 'done'"
    )
    assert len(rows) == len(SUBJECTS)
    for _, text, said, sources in rows:
        assert len(said) == sources == len(LIKE) - 1
        own = {word for each in said for word in each.split()}
        assert own.issuperset(word.rstrip(".") for word in text.split() if word.rstrip(":") not in SUBJECTS)
    left = alike.service.rows("SELECT tier, count(*) FROM memory_state GROUP BY tier ORDER BY tier")
    assert left == [("active", 2 * len(SUBJECTS)), ("archived", len(SUBJECTS) * (len(LIKE) - 1))]
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()
    methods = [method for method, *_ in rows]
    by_model = methods.count("llm")
    [run] = alike.service.rows("SELECT summaries, by_model, finished_at IS NOT NULL FROM consolidation_runs")
    assert run == (len(SUBJECTS), by_model, True)
    return {"llm": by_model, "extractive": methods.count("extractive")}


def test_a_model_writes_all_of_them(alike: Alike, fake: FakeProvider) -> None:
    alike.run()
    assert sound(alike) == {"llm": 3, "extractive": 0}
    assert fake.calls == len(SUBJECTS)


@pytest.mark.parametrize("death", ["refuse", "server_error", "reset"])
def test_a_provider_that_dies_in_the_middle(
    alike: Alike, fake: FakeProvider, death: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = merge_execution.write_merges

    def dies(*given: Any) -> Any:
        fake.refuse() if death == "refuse" else fake.control.set(mode=death)
        return carry_out(*given)

    monkeypatch.setattr(merge_execution, "write_merges", dies)
    alike.run()
    assert sound(alike) == {"llm": 1, "extractive": 2}


@pytest.mark.parametrize("lie", ["wrong_ids", "wrong_count", "invented_link", "invented_name", "not_json"])
def test_a_provider_that_lies(alike: Alike, fake: FakeProvider, lie: str) -> None:
    fake.control.set(mode=lie)
    alike.run()
    assert sound(alike) == {"llm": 0, "extractive": 3}
    assert fake.calls == CALLS_OF_A_LIE * len(SUBJECTS)
    [spent] = budget.report_costs(alike.tenant_id).rows
    assert (spent.purpose, spent.calls) == ("summarise", fake.calls), "rejected answers are billed too"


def test_a_provider_that_overspends(alike: Alike, fake: FakeProvider) -> None:
    alike.service.configure(budget_tokens=1)
    alike.run()
    assert sound(alike) == {"llm": 1, "extractive": 2}
    assert fake.calls == 1, "no call follows the one that exceeded the limit"


def test_a_night_with_a_dead_provider_does_all_the_same(alike: Alike, fake: FakeProvider) -> None:
    fake.refuse()
    nights.run(alike.tenant_id)
    alike.settle()
    assert sound(alike) == {"llm": 0, "extractive": 3}
