"""The formulas evaluated by PostgreSQL: equal to NumPy's results, and never an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import psycopg
import pytest

from app.domain.dynamics.ops import NUMPY, Floats, Ops, Sql, Term, V, literal
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, SQL_NOW, Row, State, new, sql_columns
from app.domain.strength.importance import Importance, lasting_importance
from tests.domain.dynamics.batches import ALL, CLOSED, START, TICKING, YEAR_SECONDS, each_model, many
from tests.servers import Servers

ROWS = 10_000
COLUMNS = {
    "kind": "smallint",
    "salience": "real",
    "multiplier": "real",
    "pace": "real",
    "access_count": "integer",
    "created_at": "timestamptz",
    "accessed_at": "timestamptz",
    "anchored_at": "timestamptz",
    "level": "float8",
    "retrieval": "float8",
    "stability": "float8",
}
YEAR_9999 = 253_370_764_800.0


class Table:
    """A temporary table with the columns of `memory_state`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in COLUMNS.items())
        connection.execute(f"CREATE TEMP TABLE memory_state (place integer PRIMARY KEY, {columns})".encode())

    def fill(self, state: State) -> None:
        arrays = {field.name: getattr(state, field.name).tolist() for field in fields(Row)}
        values = ", ".join(f"to_timestamp({name})" if name.endswith("_at") else name for name in arrays)
        given = ", ".join(f"%({name})s::float8[]" for name in arrays)
        self._connection.execute("TRUNCATE memory_state")
        source = f"unnest({given}) WITH ORDINALITY AS given ({', '.join(arrays)}, place)"
        insert = f"INSERT INTO memory_state SELECT place, {values} FROM {source}"  # noqa: S608 - columns by name
        self._connection.execute(insert.encode(), arrays)

    def ask(self, expression: str) -> Floats:
        """Return the value of the expression for each row."""
        select = f"SELECT {expression} FROM memory_state AS s ORDER BY place"  # noqa: S608 - a formula's text
        found = self._connection.execute(select.encode())
        return np.array([value for (value,) in found.fetchall()], np.float64)


@pytest.fixture(scope="module")
def table(servers: Servers) -> Iterator[Table]:
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("SET jit = off")
        yield Table(connection)


def at(moment: float) -> Term:
    return Term(f"to_timestamp({literal(moment)})")


@each_model(CLOSED)
def test_sql_and_numpy_agree_on_ten_thousand_states(table: Table, dynamics: Dynamics) -> None:
    state = many(dynamics, ROWS)
    table.fill(state)
    for now in (START, START + 3 * DAY_SECONDS + 0.25, START + 10 * YEAR_SECONDS):
        found = table.ask(dynamics.strength_sql(sql_columns("s"), at(now)))
        np.testing.assert_allclose(found, dynamics.strength(state, now), rtol=0, atol=1e-9)


@each_model(TICKING)
def test_sql_shows_what_goes_by_ticks_as_of_its_anchor(table: Table, dynamics: Dynamics) -> None:
    state = many(dynamics, ROWS)
    table.fill(state)
    found = table.ask(dynamics.strength_sql(sql_columns("s"), at(START + 10 * YEAR_SECONDS)))
    np.testing.assert_allclose(found, dynamics.strength(state, state.anchored_at), rtol=0, atol=1e-9)
    assert dynamics.refresh_seconds < 30 * DAY_SECONDS


@each_model()
def test_no_state_makes_postgresql_fail(table: Table, dynamics: Dynamics) -> None:
    """Strengths that underflow, scores near 0, use counts at the column's limit, years far before and after."""
    least = float(np.float32(1e-45))
    state = replace(
        new(np.array([-3e9, 0, START, START, YEAR_9999, START]), salience=np.array([least, 0, 1, least, 1, 0.5])),
        multiplier=np.array([least, 2, 0, 2, 1, 1]),
        kind=np.array([0.0, 1, 2, 3, 4, 0]),
        access_count=np.array([0, 2.0**31 - 1, 5, 0, 1, 1]),
        anchored_at=np.array([START, START, START, START, YEAR_9999, START]),
    )
    for strength in (1.0, 1e-300, 0.0):
        worn = dynamics.at_strength(state, START, strength)
        table.fill(worn)
        for now in (-3e9, START, START + 1e-6, YEAR_9999):
            found = table.ask(dynamics.strength_sql(sql_columns("s"), at(now)))
            assert np.isfinite(found).all()
            assert found.min() >= 0
            assert found.max() <= 1


@each_model()
def test_strength_stands_in_a_view_without_a_numeric(table: Table, dynamics: Dynamics) -> None:
    """Literals of type numeric would slow down each operation; searches sort by strength."""
    table.fill(many(dynamics, 10))
    expression = dynamics.strength_sql(sql_columns("s"), SQL_NOW)
    view = f"CREATE TEMP VIEW live AS SELECT {expression} AS strength FROM memory_state s"  # noqa: S608 - as above
    table._connection.execute(view.encode())
    try:
        sorted_by_strength = "SELECT pg_typeof(strength)::text, strength FROM live ORDER BY strength DESC LIMIT 3"
        assert [kind for kind, _ in table._connection.execute(sorted_by_strength)] == ["double precision"] * 3
        assert "numeric" not in table._connection.execute("SELECT pg_get_viewdef('live')").fetchall()[0][0]
    finally:
        table._connection.execute("DROP VIEW live")


def test_importance_is_the_same_in_sql(table: Table) -> None:
    state = many(ALL["spec"], ROWS)
    table.fill(state)
    ops = Sql()
    found = table.ask(ops.text(lasting_importance(ops, Importance(), sql_columns("s"))))
    np.testing.assert_allclose(found, lasting_importance(NUMPY, Importance(), state), rtol=0, atol=1e-12)


def everything(ops: Ops[V], row: Row[V]) -> V:
    """Use each operation once, with named values that depend on one another."""
    salience, count = ops.once("twice_salience", row.salience + row.salience), row.access_count
    sums = ops.once("sums", 1.5 - salience + 2.0 * count - 0.25)
    quotients = 3.0 / (count + 1.0) + sums / 7.0
    least = ops.minimum(ops.maximum(quotients, salience), 5.0)
    chosen = ops.pick(row.kind, [0.5, 1, -2, 1e-7, 0])
    compared = ops.where(count >= 3.0, least, 0.5 + least) + ops.where(salience < 0.5, chosen, sums)
    return compared + ops.exp(compared * compared * -1000.0) + ops.log(count + 2.0) + ops.exp(salience, floor=0.5)


def test_every_operation_means_the_same_in_both(table: Table) -> None:
    state = many(ALL["spec"], 1_000)
    table.fill(state)
    ops = Sql()
    text = ops.text(everything(ops, sql_columns("s")))
    np.testing.assert_allclose(table.ask(text), everything(NUMPY, state), rtol=1e-12)
    assert text.count("AS twice_salience") == text.count("AS sums") == 1
