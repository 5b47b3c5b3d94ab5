"""Memories backdated by some days: acceptance, uses and anchors."""

from __future__ import annotations

from uuid import UUID

from tests.service import Service


def age(service: Service, days: float, *memory_ids: UUID | str) -> None:
    """Backdate these memories' history and the first policy of their tenants."""
    ids = list(map(str, memory_ids))
    shift = "{0} = {0} - make_interval(secs => %s)".format
    seconds = days * 86_400
    service.rows(f"UPDATE memories SET {shift('created_at')} WHERE memory_id = ANY (%s::uuid[])", seconds, ids)  # noqa: S608
    moments = ("created_at", "accessed_at", "anchored_at")
    changes = ", ".join(map(shift, moments))
    values = [seconds] * len(moments)
    service.rows(f"UPDATE memory_state SET {changes} WHERE memory_id = ANY (%s::uuid[])", *values, ids)  # noqa: S608
    service.rows(
        f"UPDATE policies SET {shift('effective_at')} WHERE version = 1 AND tenant_id IN "  # noqa: S608
        "(SELECT tenant_id FROM memories WHERE memory_id = ANY (%s::uuid[]))",
        seconds,
        ids,
    )
