"""Execute large, frequent SQL statements with cached plans, of which each connection has a few.

By default, PostgreSQL plans every execution again (see `database`), because a cached plan becomes unsuitable as tables
grow. For a large, frequent statement, planning takes a fifth of the time. Its plan can be cached if the statement
contains every value on which the plan depends as a literal. PostgreSQL replaces a cached plan after `ANALYZE`, and
after an index was created or dropped.
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
"""Maximum number of cached plans per connection; a plan can take 0.7 MB of the server's memory."""
USES_BEFORE: Final = 3
"""A connection caches a statement's plan from this execution on."""
SETTING: Final = "set_config('plan_cache_mode', 'force_generic_plan', true)"
"""Setting that makes the following statements of the transaction use their cached plans."""
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
        values: The values of its parameters; further values are ignored.
        keeps_plan: Cache the plan; requires that the transaction has executed `SETTING`.
    """
    text, names = _number_parameters(statement)
    cursor = psycopg.RawCursor(driver_connection(tx))
    parameters = [values[name] for name in names]
    prepare = _keeps_plan(tx, text) if keeps_plan else None
    return cursor.execute(text, parameters, prepare=prepare, binary=True).fetchall()


@lru_cache(maxsize=64)
def _number_parameters(statement: str) -> tuple[bytes, Sequence[str]]:
    """Replace named by numbered parameters, which the driver needn't parse. Return the statement and the names."""
    numbers: dict[str, int] = {}
    text = _PARAMETER.sub(lambda match: f"${numbers.setdefault(match[1], len(numbers) + 1)}", statement)
    return text.encode(), list(numbers)


def _keeps_plan(tx: Connection, text: bytes) -> bool:
    """Return True if the connection has cached this statement's plan, or caches the plan with this execution."""
    uses: dict[int, int] = tx.connection.info.setdefault(_USES, {})
    statement = hash(text)  # the texts themselves would take half a MB per connection
    count = uses.get(statement, 0)
    if count >= USES_BEFORE:
        return True
    cached = {cached_hash: number for cached_hash, number in uses.items() if number >= USES_BEFORE}
    if count + 1 >= USES_BEFORE and len(cached) >= KEPT_MAX:
        return False
    if count == 0 and len(uses) >= _COUNTED_MAX:
        uses.clear()
        uses.update(cached)
    uses[statement] = count + 1
    return count + 1 >= USES_BEFORE
