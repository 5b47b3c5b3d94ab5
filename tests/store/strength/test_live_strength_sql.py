"""Live strength computed by PostgreSQL from rows of `memory_state` equals NumPy's, under every policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pytest
from sqlalchemy import text

from app.domain.dynamics.ops import Floats, Term
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, Row, State, new
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.policy.policy import Forgetting, Policy
from app.services.strength import memory_strength
from app.store.core import database
from app.store.strength import live_strength_sql, states
from app.store.strength.states import StoredStates
from tests.domain.dynamics.batches import ALL, CLOSED, START, TICKING, YEAR_SECONDS, each_model, many
from tests.service import Service

ROWS = 10_000
NOBODY = UUID(int=0)
AS_OF = Term("CAST(:as_of AS timestamptz)")
LEAST_REAL = float(np.float32(1e-45))
YEAR_2 = -62_104_060_800.0
YEAR_9998 = 253_339_228_800.0


def policy_of(dynamics: Dynamics) -> Policy:
    """Return the policy that selects this model."""
    given = asdict(dynamics.parameters)
    importance = given.pop("importance", {})
    return Policy(forgetting=Forgetting(profile=dynamics.name, parameters=given), importance=importance)


def eras(*models: Dynamics) -> Timeline:
    """Return policies 1, 2, … from the start on, each in force for a hundred days."""
    return Timeline(
        [Era(place + 1, START + 100 * DAY_SECONDS * place, policy_of(model)) for place, model in enumerate(models)]
    )


def fill(service: Service, tenant_id: UUID, state: State, versions: npt.ArrayLike = 1) -> None:
    """Insert these states into `memory_state`; one in ten of those without salience is unscored."""
    arrays = {field.name: getattr(state, field.name).tolist() for field in fields(Row)}
    arrays["policy_version"] = np.broadcast_to(versions, state.level.shape).tolist()
    values = {name: f"to_timestamp(given.{name})" if name.endswith("_at") else f"given.{name}" for name in arrays}
    values["salience"] = "CASE WHEN given.salience > 0 OR mod(place, 10) > 0 THEN given.salience END"
    source = ", ".join(["%s::float8[]"] * len(arrays))
    service.rows(
        f"INSERT INTO memory_state (tenant_id, memory_id, {', '.join(values)}) "  # noqa: S608 - columns by name
        f"SELECT %s, md5(place::text)::uuid, {', '.join(values.values())} "
        f"FROM unnest({source}) WITH ORDINALITY AS given ({', '.join(arrays)}, place)",
        tenant_id,
        *arrays.values(),
    )


def by_sql(tx: database.Transaction, tenant_id: UUID, times: Timeline, now: float) -> npt.NDArray[Any]:
    """Return strength and importance, shape (2, n), in id order."""
    relation = live_strength_sql.strength_relation(times, now, AS_OF)
    query = f"SELECT strength, importance FROM {relation} AS state WHERE tenant_id = :tenant ORDER BY memory_id"  # noqa: S608
    moment = tx.execute(text("SELECT to_timestamp(:now)"), {"now": now}).scalar_one()
    return np.array(tx.execute(text(query), {"tenant": tenant_id, "as_of": moment}).all(), np.float64).T


def live_and_exact(
    tenant_id: UUID, times: Timeline, now: float
) -> tuple[StoredStates, npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the rows under the current policy, and their strength and importance by SQL and by NumPy."""
    with database.tenant(tenant_id) as tx:
        found = by_sql(tx, tenant_id, times, now)
        held = memory_strength.advance_to_era(states.list_page(tx, tenant_id, NOBODY, 1_000_000), times, now)
    return held, found, np.stack(memory_strength.evaluate_strength(times.at(now), held.state, now))


def assert_live_is_exact(tenant_id: UUID, times: Timeline, moments: Sequence[float]) -> None:
    for now in moments:
        _, found, exact = live_and_exact(tenant_id, times, now)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-9)


@each_model(CLOSED)
def test_strength_and_importance_are_numpys_in_ten_thousand_rows(service: Service, dynamics: Dynamics) -> None:
    tenant_id = service.tenant().tenant_id
    fill(service, tenant_id, many(dynamics, ROWS))
    moments = (START, START + 3 * DAY_SECONDS + 0.25, START + 10 * YEAR_SECONDS)
    assert_live_is_exact(tenant_id, eras(dynamics), moments)


@each_model(TICKING)
def test_what_goes_by_ticks_shows_the_strength_of_its_anchor(service: Service, dynamics: Dynamics) -> None:
    tenant_id = service.tenant().tenant_id
    fill(service, tenant_id, many(dynamics, ROWS // 10))
    held, (found, _), _ = live_and_exact(tenant_id, eras(dynamics), START + 10 * YEAR_SECONDS)
    np.testing.assert_allclose(found, dynamics.strength(held.state, held.state.anchored_at), rtol=0, atol=1e-9)


FORMER: dict[str, tuple[str, ...]] = {
    "another law": ("spec", "spec linear"),
    "another way of forgetting": ("spec", "spec subtractive", "spec product"),
    "another profile": ("spec linear", "mnemex", "cmm", "spec"),
    "scores above 1": ("mnemex", "mnemex two-component", "mnemex exponential", "mnemex flat"),
    "everything gone": ("spec hasty", "mnemex hasty", "cmm hasty", "spec hasty", "cmm without grace"),
    "into ticks": ("spec", "memory_decay"),
}


@pytest.mark.parametrize("names", FORMER.values(), ids=FORMER)
def test_rows_of_former_policies_are_as_their_rebase_would_have_them(service: Service, names: tuple[str, ...]) -> None:
    tenant_id = service.tenant().tenant_id
    models = [ALL[name] for name in names]
    versions = np.random.default_rng(3).integers(0, len(names) + 1, ROWS // 2)
    fill(service, tenant_id, many(models[0], ROWS // 2), versions)
    until = START + len(names) * 100 * DAY_SECONDS
    if models[-1].refresh_seconds < np.inf:
        held, (found, _), _ = live_and_exact(tenant_id, eras(*models), until)
        exact = models[-1].strength(held.state, held.state.anchored_at)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-9)
    else:
        assert_live_is_exact(tenant_id, eras(*models), [START, until - 100 * DAY_SECONDS, until, until + YEAR_SECONDS])


def test_a_policy_that_leaves_the_model_as_it_is_costs_nothing() -> None:
    many_versions = [Era(place, START + place, Policy(history_days=place)) for place in range(1, 40)]
    assert live_strength_sql.strength_relation(
        Timeline(many_versions), START + 100
    ) == live_strength_sql.strength_relation(Timeline([]), START)


def test_a_policy_is_compiled_once() -> None:
    times = eras(CLOSED["spec"], CLOSED["cmm"])
    first, again = (live_strength_sql.strength_relation(times, START + YEAR_SECONDS + moment) for moment in (0, 1))
    assert first is again


def test_only_the_last_models_are_told_apart() -> None:
    changing = [CLOSED["spec"], CLOSED["spec linear"]] * 20
    one, forty = (
        len(live_strength_sql.strength_relation(eras(*models), START + 20 * YEAR_SECONDS)) for models in ([], changing)
    )
    assert forty < one * live_strength_sql.MODELS_MOST * 3


def test_rows_from_ticks_show_their_anchor_until_they_are_rebased(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    ticking, spec = TICKING["memory_decay"], CLOSED["spec"]
    state = ticking.at_strength(new(np.full(3, START), salience=np.array([0, 0.5, 1])), START, 0.8)
    fill(service, tenant_id, state)
    times = eras(ticking, spec)
    _, (shown, _), (exact, _) = live_and_exact(tenant_id, times, START + 100 * DAY_SECONDS)
    np.testing.assert_allclose(shown, 0.8, atol=1e-9)
    assert (exact < 0.5).all()


class Plain:
    """An external model without a conversion in SQL; it fades by a tenth a day."""

    name = "plain"
    refresh_seconds = np.inf
    spreads = False
    __hash__ = None  # type: ignore[assignment]  # as any dataclass that isn't frozen

    def strength_sql(self, row: Row[Term], now: Term) -> str:
        return f"least(1, power(0.9, date_part('epoch', {now.sql} - {row.accessed_at.sql}) / 86400))"


def test_a_model_that_cant_be_taken_over_to_shows_the_strength_of_the_change(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant_id = service.tenant().tenant_id
    fill(service, tenant_id, many(CLOSED["spec"], 1_000), np.arange(1_000) % 4)
    times = eras(*(ALL[name] for name in ("spec", "cmm", "spec linear")))
    until_second, until_third = (times.at(START + days * DAY_SECONDS) for days in (100, 200))
    monkeypatch.setitem(until_second.policy.__dict__, "model", Plain())
    relation = live_strength_sql.strength_relation(times, START + 150 * DAY_SECONDS, AS_OF)
    later = live_strength_sql.strength_relation(times, START + 250 * DAY_SECONDS, AS_OF)

    def at(days: float, relation: str) -> Floats:
        values = {"days": days, "start": START, "tenant": tenant_id}
        moment = "CAST(to_timestamp(:start + 86400.0 * :days) AS timestamptz)"
        query = f"SELECT strength FROM {relation} AS state WHERE tenant_id = :tenant ORDER BY memory_id"  # noqa: S608
        with database.tenant(tenant_id) as tx:
            return np.array(tx.execute(text(query.replace(AS_OF.sql, moment)), values).scalars().all(), np.float64)

    with database.tenant(tenant_id) as tx:
        held = states.list_page(tx, tenant_id, NOBODY, 1_000)
    old = held.versions < until_second.version
    change = np.maximum(held.state.anchored_at, until_second.since)
    expected = CLOSED["spec"].strength(held.state, change)
    np.testing.assert_allclose(at(150, relation)[old], expected[old], atol=1e-9)
    np.testing.assert_allclose(at(180, relation)[old], expected[old], atol=1e-9)
    assert (at(180, relation)[held.versions == until_second.version] >= 0).all()
    taken_over = CLOSED["spec linear"].at_strength(held.state, until_third.since, expected)
    exact = CLOSED["spec linear"].strength(taken_over, START + 250 * DAY_SECONDS)
    np.testing.assert_allclose(at(250, later)[old], exact[old], atol=1e-9)


@each_model()
def test_no_row_that_may_be_there_makes_postgresql_fail(service: Service, dynamics: Dynamics) -> None:
    """The ends of every range that the table allows, in every combination of two, and a former policy."""
    ends = {
        "kind": [0, 4],
        "salience": [0, LEAST_REAL, 1],
        "multiplier": [0, LEAST_REAL, 2],
        "pace": [LEAST_REAL, 1, 1000],
        "access_count": [0, 2**31 - 1],
        "created_at": [YEAR_2, START, YEAR_9998],
        "accessed_at": [YEAR_2, START, YEAR_9998],
        "anchored_at": [YEAR_2, START, YEAR_9998],
        "level": [-1e9, -1e-300, 0, 1e-300, 1e9],
        "retrieval": [0, 1],
        "stability": [0, 1],
    }
    random = np.random.default_rng(5)
    state = Row(**{name: random.choice(np.array(values, np.float64), 800) for name, values in ends.items()})
    tenant_id = service.tenant().tenant_id
    fill(service, tenant_id, state, random.integers(0, 3, 800))
    spec, linear = CLOSED["spec"], CLOSED["spec linear"]
    for models in ((dynamics, dynamics), (spec, dynamics), (dynamics, linear)):
        for now in (YEAR_2, START + 1e-6, START + 200 * DAY_SECONDS, YEAR_9998):
            with database.tenant(tenant_id) as tx:
                found = by_sql(tx, tenant_id, eras(*models), now)
            assert np.isfinite(found).all()
            assert found.min() >= 0
            assert found.max() <= 1 + 1e-12


def test_a_row_without_salience_counts_as_one_of_salience_0(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    fill(service, tenant_id, replace(new(np.full(10, START)), salience=np.zeros(10)))
    assert service.one("SELECT count(*) FROM memory_state WHERE salience IS NULL") == 1
    _, (strength, _), _ = live_and_exact(tenant_id, eras(), START + 30 * DAY_SECONDS)
    assert len(set(strength)) == 1
    assert 0 < strength[0] < 0.1
