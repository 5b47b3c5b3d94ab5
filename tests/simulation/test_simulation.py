"""A short simulated year in the real database, for each of its tenants."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.policy.policy import Policy
from app.domain.simulation.hard.year import generate_hard_year
from app.domain.simulation.year import SimulatedFact, SimulatedStatement, Year, generate_year
from app.services.evaluation import simulation
from app.services.evaluation.simulation import KEEP_ALL, Simulation
from app.services.jobs import schedule
from app.services.night import night_run
from app.services.tenants import tenants
from app.store.core import database
from tests.service import Service

THEN = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def quick(service: Service) -> Service:
    service.configure(master_key="a key of tests, as long as it must be", openai_base_url="http://127.0.0.1:9/v1")
    return service


@pytest.mark.long
def test_a_short_year_end_to_end(quick: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty-eight days pass without any call to a model, although one is configured."""
    monkeypatch.setattr(simulation, "RANKED", 20)
    year = generate_year(60, 28, seed=5)
    reported: list[float] = []
    found = Simulation(year, lambda _, share: reported.append(share))
    own, *others = found.outcomes("spec")
    assert reported == sorted(reported)
    assert [one.name for one in (own, *others)] == ["spec", "ttl", "lru", "linear"]
    assert own.sizes[0] == 0
    assert own.measures.active_set <= own.sizes[-1] < found.keep_all.measures.active_set == 60
    assert all(one.measures.active_set <= own.sizes[-1] + 60 // 28 + 4 for one in others)
    assert own.measures.kept == 1, "no memory is deleted within ninety days"
    tenant_id = found.tenants["spec"]
    rows = quick.rows(
        "SELECT created_at FROM memories WHERE tenant_id = %s AND made_by = 'caller' ORDER BY created_at", tenant_id
    )
    assert {moment.hour for (moment,) in rows} == {found.told_at(0).hour}
    assert rows[0][0] >= found.told_at(0) > found.end - timedelta(days=29)
    [uses] = quick.rows(
        "SELECT count(*), min(at), max(at) FROM memory_events WHERE tenant_id = %s AND kind = 'use'", tenant_id
    )
    assert uses[0] > 0
    assert found.told_at(0) < uses[1] <= uses[2] < found.end
    assert not quick.rows("SELECT FROM rating_turns")
    assert not quick.rows("SELECT FROM usage")
    assert not quick.rows("SELECT FROM tenant_work")
    assert (own.pillars.forgetting, own.pillars.plausibility is None) == (1 - own.measures.unimportant_active, False)
    assert {one.pillars.plausibility for one in (found.keep_all, *others)} == {None}


@pytest.mark.slow
def test_a_summary_answers_for_what_it_tells_alone(quick: Service) -> None:
    """All but one of the statements about boats become one text, which mentions Ghent but not each colour."""
    boats = ["The boat of Ghent lies in the harbour and waits there for 40 sailors, and for rain"]
    boats += [f"The {colour} boat lies in the harbour and waits for rain" for colour in ("red", "blue", "old", "new")]
    said = [SimulatedStatement(1, "Ann", text, place if place < 2 else None) for place, text in enumerate(boats)]
    said += [SimulatedStatement(1, "Ann", "Good morning", None)]
    facts = [SimulatedFact("boats", "Ann", (place,), ("What lies in the harbour?",), math.inf) for place in (0, 1)]
    year = Year(0, 28, tuple(said), tuple(facts), ())
    given = {"protection": {"salience_above": 1}, "consolidation": {"level": "aggressive", "low_importance_below": 1}}
    found = Simulation(year, given=given)
    own = next(found.outcomes("spec"))
    [(text, sources)] = quick.rows(
        "SELECT text, sources FROM merges JOIN memories ON memory_id = summary_id AND memories.tenant_id = %s",
        found.tenants["spec"],
    )
    assert "Ghent" in text
    assert "red" not in text
    assert sources == len(boats)
    assert found.keep_all.measures.found == 1
    assert (own.measures.active, own.measures.found) == (0, 0.5)
    assert own.measures.active_set == own.sizes[-1]


def test_simulated_tenants_have_no_nights_and_aren_t_listed(service: Service) -> None:
    real = service.tenant().tenant_id
    made_up = tenants.create_simulated("made up", Policy(), THEN)
    schedule.insert_due_runs([night_run.KIND])
    assert service.rows("SELECT tenant_id FROM schedules") == [(real,)]
    assert [tenant.tenant_id for tenant in tenants.list_tenants()] == [real]
    for tenant_id in (real, made_up):
        service.send(tenant_id, "I live in Ghent now")
    service.work()
    assert service.rows("SELECT tenant_id FROM rating_turns") == [(real,)]


def test_the_time_of_a_simulated_tenant_is_made_up_and_that_of_others_isn_t(service: Service) -> None:
    real = service.tenant().tenant_id
    made_up = tenants.create_simulated("made up", Policy(), THEN)
    with database.at(made_up, THEN):
        with database.tenant(made_up) as tx:
            assert database.now(tx) == THEN
        with database.tenant(real) as tx:
            assert database.now(tx) > THEN
    with database.tenant(made_up) as tx:
        assert database.now(tx) > THEN
    with pytest.raises(ValueError, match="isn't simulated"), database.at(real, THEN):
        pass


@pytest.mark.slow
def test_labels_don_t_leak(service: Service) -> None:
    """The service receives only what a listener would have heard, none of the labels."""
    year = generate_year(50, 28, seed=5)
    found = Simulation(year)
    rows = service.rows(
        "SELECT text, subject, speaker, memories.kind, tags, categories, entities, metadata, salience_source "
        "FROM memories JOIN memory_state USING (tenant_id, memory_id) WHERE memories.tenant_id = %s",
        found.tenants[KEEP_ALL],
    )
    assert sorted(row[:3] for row in rows) == sorted((one.text, one.person, one.person) for one in year.said)
    assert {tuple(map(str, row[3:])) for row in rows} == {("None", "[]", "[]", "[]", "None", "heuristic")}


@pytest.mark.slow
def test_a_dialogue_is_stored_as_a_thread_of_user_and_assistant(service: Service) -> None:
    year = generate_hard_year(50, 28, seed=5)
    found = Simulation(year)
    rows = service.rows(
        "SELECT text, subject, speaker, role, thread FROM memories WHERE tenant_id = %s ORDER BY seq",
        found.tenants[KEEP_ALL],
    )
    told: dict[str, list[tuple[str, ...]]] = {}
    for one in year.said:
        speaker = simulation.ASSISTANT if one.role == "assistant" else one.person
        told.setdefault(f"{one.person} {int(one.day)}", []).append((one.text, one.person, speaker, str(one.role)))
    stored: dict[str, list[tuple[str, ...]]] = {}
    for *row, thread in rows:
        stored.setdefault(thread, []).append(tuple(row))
    assert stored == told
