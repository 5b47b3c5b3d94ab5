"""Execute large SQL statements with plans that PostgreSQL keeps, for a few statements per connection.

Connections plan every execution afresh (`database`), which suits statements over tables that grow. For a large
statement that is executed often, planning costs a fifth of the time. Its plan may be kept if the statement contains all
values that the plan depends on as literals. PostgreSQL replaces a kept plan after `ANALYZE`, and after an index was
created or dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import psycopg
from sqlalchemy import Connection

from app.store.core.binary_arrays import driver_connection

KEPT_MAX: Final = 4
"""Maximum number of statements per connection whose plans are kept; a plan can take 0.7 MB of the server's memory."""
USES_BEFORE: Final = 3
"""Number of executions after which a connection keeps a statement's plan."""
SETTING: Final = ", set_config('plan_cache_mode', 'force_generic_plan', true)"
"""Part of a SELECT that keeps the plans of the following statements until the transaction ends."""
_COUNTED_MAX: Final = 64
_USES: Final = "ebbing_statement_uses"
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")


def inline_values(statement: str, values: Mapping[str, Any], names: Iterable[str]) -> str:
    """Replace parameters by literals; their values must be ids or numbers.

    Raises:
        TypeError: A value is neither a UUID nor an integer.
    """
    for name in names:
        if (parameter := f"%({name})s") in statement:
            statement = statement.replace(parameter, _literal(values[name]))
    return statement


def _literal(value: UUID | int) -> str:
    if isinstance(value, UUID):
        return f"CAST('{value}' AS uuid)"
    if isinstance(value, int):
        return str(value)
    raise TypeError


def fetch_all(
    tx: Connection, statement: str, values: Mapping[str, Any], *, keeps_plan: bool = False
) -> list[tuple[Any, ...]]:
    """Execute a statement with named parameters and return its rows.

    Args:
        statement: May contain parameters such as `%(name)s`, but no other percent sign.
        values: The values of its parameters; others are ignored.
        keeps_plan: Keep the plan; the transaction has executed `SETTING`.
    """
    text, names = _number_parameters(statement)
    cursor = psycopg.RawCursor(driver_connection(tx))
    given = [values[name] for name in names]
    prepare = _keeps_plan(tx, text) if keeps_plan else None
    return cursor.execute(text, given, prepare=prepare, binary=True).fetchall()


@lru_cache(maxsize=64)
def _number_parameters(statement: str) -> tuple[bytes, Sequence[str]]:
    """Replace named parameters by PostgreSQL's numbered ones, which the driver needn't parse; return their names."""
    numbers: dict[str, int] = {}
    text = _PARAMETER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", statement)
    return text.encode(), list(numbers)


def _keeps_plan(tx: Connection, text: bytes) -> bool:
    """Return True if the connection has kept this statement's plan, or keeps it from now on."""
    uses: dict[int, int] = tx.connection.info.setdefault(_USES, {})
    statement = hash(text)  # the texts themselves would take half a MB per connection
    count = uses.get(statement, 0)
    if count >= USES_BEFORE:
        return True
    kept = {known: number for known, number in uses.items() if number >= USES_BEFORE}
    if count + 1 >= USES_BEFORE and len(kept) >= KEPT_MAX:
        return False
    if count == 0 and len(uses) >= _COUNTED_MAX:
        uses.clear()
        uses.update(kept)
    uses[statement] = count + 1
    return count + 1 >= USES_BEFORE
