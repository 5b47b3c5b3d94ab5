"""SQL that selects the turns around memories in their threads. Summaries and deleted memories aren't turns."""

from __future__ import annotations

_TURNS = """SELECT {columns} FROM memories
       WHERE tenant_id = :tenant AND thread = {thread} AND made_by = 'caller' AND deleted_at IS NULL AND {which}"""


def neighbours_sql(limit: str, *, counted: str = "true", returned: str = "true") -> str:
    """Return a statement that lists the turns around the memories `:ids`, in id order.

    Args:
        limit: Number of turns on each side.
        counted: SQL condition on the turns that count towards the limit.
        returned: SQL condition on the turns that are returned.
    """
    before, after = (
        _TURNS.format(columns="memory_id", thread="centre.thread", which=f"seq {side} centre.seq AND {counted}")
        + f" ORDER BY seq {order} LIMIT {limit}"
        for side, order in (("<", "DESC"), (">", "ASC"))
    )
    return f"""
SELECT DISTINCT turn.memory_id
FROM memories AS centre CROSS JOIN LATERAL (({before}) UNION ALL ({after})) AS turn
WHERE centre.tenant_id = :tenant AND centre.made_by = 'caller' AND centre.memory_id = ANY (CAST(:ids AS uuid[]))
  AND {returned}
ORDER BY turn.memory_id
"""  # noqa: S608 - built from constants


def span_sql(columns: str, *, before: str, after: str, counted: str = "true") -> str:
    """Return a subquery for a thread's turns from `span.first_seq` to `span.last_seq` and the turns around this span.

    Args:
        columns: Columns to be selected.
        before: Number of turns before the span.
        after: Number of turns after the span.
        counted: SQL condition on the turns.
    """
    parts = (
        ("seq < span.first_seq", f"ORDER BY seq DESC LIMIT {before}"),
        ("seq BETWEEN span.first_seq AND span.last_seq", ""),
        ("seq > span.last_seq", f"ORDER BY seq LIMIT {after}"),
    )
    return " UNION ALL ".join(
        f"({_TURNS.format(columns=columns, thread='span.thread', which=f'{which} AND {counted}')} {order})"
        for which, order in parts
    )
