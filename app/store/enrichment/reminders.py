"""Store the reminder flags of memories, by which a recall finds memories that share no word with the conversation.

`bridges.read_flags` computes them from a memory's text. The column is `memory_state.reminders`; NULL means that the
text has no flags or isn't indexed yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.search.request import SearchRequest
from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.search.query_parts import allowed_one_sql, allowed_sql, filter_conditions


class ReminderFlags(NamedTuple):
    """The flags of one version of a memory's text."""

    memory_id: UUID
    text_version: int
    flags: int


def write(tx: Connection, tenant_id: UUID, found: Sequence[ReminderFlags]) -> None:
    """Set the flags of memories whose text is unchanged since it was read."""
    values = {
        "tenant": tenant_id,
        "ids": Uuids([entry.memory_id for entry in found]),
        "versions": [entry.text_version for entry in found],
        "flags": [entry.flags for entry in found],
    }
    # The first statement waits until concurrent edits have committed, so the second one checks the current text
    # version.
    if driver_connection(tx).execute(_LOCK, values).fetchall():
        driver_connection(tx).execute(_WRITE, values)


_GIVEN: Final = "unnest(%(ids)s, %(versions)s::int4[], %(flags)s::int4[]) AS given (memory_id, text_version, flags)"
_LOCK: Final = f"""
SELECT state.memory_id FROM {_GIVEN} JOIN memory_state AS state USING (memory_id)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = ANY (%(ids)s) AND coalesce(reminders, 0) <> flags
ORDER BY state.memory_id FOR UPDATE OF state
"""  # noqa: S608 - constants
_WRITE: Final = f"""
UPDATE memory_state AS state SET reminders = nullif(flags, 0) FROM {_GIVEN}
WHERE state.tenant_id = %(tenant)s AND state.memory_id = ANY (%(ids)s) AND state.memory_id = given.memory_id
  AND coalesce(reminders, 0) <> flags
  AND given.text_version = (
    SELECT memory.text_version FROM memories AS memory
    WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = state.memory_id)
"""  # noqa: S608 - constants


class FlagHolders(NamedTuple):
    """The active memories that have a flag.

    Attributes:
        memories: Total number of these memories, regardless of the request's filters.
        newest: Ids of the memories that pass the request's filters, newest first, up to the query's limit.
    """

    memories: int
    newest: list[UUID]


def find_holders(
    tx: Connection, tenant_id: UUID, flags: Sequence[int], request: SearchRequest, most: int
) -> dict[int, FlagHolders]:
    """Return, by flag, the active memories that have it.

    Args:
        flags: Single-bit flags.
        request: Supplies the filters; only the active tier is searched.
        most: Maximum number of memories per flag.
    """
    values: dict[str, Any] = {"tenant": tenant_id, "flags": list(flags), "most": most}
    connection = driver_connection(tx)
    if not filter_conditions(request, values):
        # Without filters, nearly all flagged memories pass, so the newest are looked up one by one.
        statement = _HOLDERS.format(allowed=allowed_one_sql("state.memory_id", request, values))
        return {flag: FlagHolders(*columns) for flag, *columns in connection.execute(statement, values, binary=True)}
    # The filter may match few of many flagged memories, so its matches are read once into a hash table. Nested loops
    # are disabled, because without statistics the planner would compare all pairs.
    statement = _HOLDERS.format(allowed=f"state.memory_id {allowed_sql(request, values)}")
    connection.execute("SET LOCAL enable_nestloop = off")
    rows = connection.execute(statement, values, binary=True).fetchall()
    connection.execute("SET LOCAL enable_nestloop = on")
    return {flag: FlagHolders(*columns) for flag, *columns in rows}


# The conditions on the tier and on `reminders > 0` match the partial index. Ids are ordered by time.
_HOLDERS: Final = """
SELECT flag, (
    SELECT count(*) FROM memory_state
    WHERE tenant_id = %(tenant)s AND tier = 'active' AND reminders > 0 AND reminders & flag <> 0
  ), ARRAY(
    SELECT state.memory_id FROM memory_state AS state
    WHERE tenant_id = %(tenant)s AND tier = 'active' AND reminders > 0 AND reminders & flag <> 0
      AND {allowed}
    ORDER BY state.memory_id DESC LIMIT %(most)s
  )
FROM unnest(%(flags)s::int4[]) AS flag
"""
