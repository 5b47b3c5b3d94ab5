"""Store the flags of memories that a conversation can ask for without sharing a word: `memory_state.reminders`.

The flags are `bridges.read_flags` of a memory's text. NULL means no flags, or a text that isn't indexed yet.
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
        "ids": Uuids([each.memory_id for each in found]),
        "versions": [each.text_version for each in found],
        "flags": [each.flags for each in found],
    }
    # Two statements: a concurrent edit that holds a row's lock commits before the second one checks the version.
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
        memories: Their total number.
        newest: Those that pass the request's filters, newest first.
    """

    memories: int
    newest: list[UUID]


def find_holders(
    tx: Connection, tenant_id: UUID, flags: Sequence[int], request: SearchRequest, most: int
) -> dict[int, FlagHolders]:
    """Return the holders of each of these flags.

    Args:
        flags: Single-bit flags.
        request: Supplies the filters; only the active tier is searched.
        most: Maximum number of memories per flag.
    """
    values: dict[str, Any] = {"tenant": tenant_id, "flags": list(flags), "most": most}
    connection = driver_connection(tx)
    if not filter_conditions(request, values):  # nearly all pass: the newest are looked up one by one
        statement = _HOLDERS.format(allowed=allowed_one_sql("state.memory_id", request, values))
        return {flag: FlagHolders(*found) for flag, *found in connection.execute(statement, values, binary=True)}
    # A filter may pass few of many holders: its matches are read once and hashed. For a tenant without statistics the
    # planner would loop over all pairs.
    statement = _HOLDERS.format(allowed=f"state.memory_id {allowed_sql(request, values)}")
    connection.execute("SET LOCAL enable_nestloop = off")
    rows = connection.execute(statement, values, binary=True).fetchall()
    connection.execute("SET LOCAL enable_nestloop = on")
    return {flag: FlagHolders(*found) for flag, *found in rows}


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
