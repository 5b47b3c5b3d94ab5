"""Dump a tenant as JSON lines: its policies, holds, and its memories with state, history, links, merges and reviews.

The lines are read page by page, each in a transaction of its own. Strengths are those at the time of the dump: states
are advanced to the policy in force. Texts in cold storage are decrypted. Memories in quarantine are only counted, in
the last line. `app.domain.imports.dump_tables.PLACES` says for each table whether its
rows are dumped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np

from app.domain.dynamics.timeline import Timeline
from app.domain.imports.dump import AVERAGES, CONNECTING, FORMAT, MERGES, STANDING
from app.domain.privacy.export import in_record
from app.services.security import audit, encryption_keys
from app.services.strength import memory_strength
from app.services.tiers import cold_restore
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.privacy import dump_rows
from app.store.privacy.dump_rows import DumpedRows
from app.store.strength import states
from app.store.tiers import cold_segments

ROWS: Final = 500
_ANCHOR: Final = ("anchored_at", "level", "retrieval", "stability")


def stream_dump(tenant_id: UUID, actor: str) -> Iterator[bytes]:
    """Write an audit entry with the number of memories, and return the lines of the dump in pieces.

    Args:
        actor: Id of the caller's key, for the audit log.
    """
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        era = memory_strength.load_timeline(tx, tenant_id).at(now.timestamp())
        versions = dump_rows.list_policies(tx, tenant_id)
        settings = dump_rows.read_settings(tx, tenant_id)
        audit.append(tx, tenant_id, "tenant_dumped", actor, items=dump_rows.count_memories(tx, tenant_id))
    policies = [
        {
            "version": number,
            "body": msgspec.Raw(body.encode()),
            "effective_at": since,
            "is_current": number == era.version,
        }
        | ({"author": author} if author else {})
        for number, since, body, author in versions
    ]
    policy = msgspec.Raw(era.policy.dump_stored().encode())
    header = {"format": FORMAT, "tenant_id": tenant_id, "dumped_at": now, "policy": policy, "policies": policies}
    header["settings"] = settings
    return _lines(tenant_id, header, now.timestamp())


def _lines(tenant_id: UUID, header: dict[str, Any], now: float) -> Iterator[bytes]:
    yield msgspec.json.encode(header) + b"\n"
    for table in (*STANDING, AVERAGES):
        with database.tenant(tenant_id) as tx:
            standing = dump_rows.list_standing(tx, tenant_id, table)
        yield _rows(table, standing)
    memories, damaged = 0, 0
    for page, times in _pages(tenant_id):
        lines, unreadable = _encode(tenant_id, page, times, now)
        memories, damaged = memories + len(lines), damaged + unreadable
        yield b"".join(lines)
    for table in CONNECTING:
        for page, _ in _pages(tenant_id):
            with database.tenant(tenant_id) as tx:
                rows = dump_rows.list_connecting(tx, tenant_id, table, [memory.memory_id for memory in page])
            yield _rows(table, rows)
    yield from _merges(tenant_id)
    with database.tenant(tenant_id) as tx:
        quarantined = dump_rows.count_quarantined(tx, tenant_id)
    end = {"memories": memories, "damaged": damaged, "quarantined": quarantined}
    yield msgspec.json.encode({"end": end}) + b"\n"


def _rows(table: str, rows: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode({"table": table, "row": row}) + b"\n" for row in rows)


def _merges(tenant_id: UUID) -> Iterator[bytes]:
    after = NIL
    while True:
        with database.tenant(tenant_id) as tx:
            page = dump_rows.list_merges(tx, tenant_id, after, ROWS)
        if not page:
            return
        yield _rows(MERGES, [row for _, row in page])
        after = page[-1][0]


def _pages(tenant_id: UUID) -> Iterator[tuple[list[DumpedRows], Timeline]]:
    after = NIL
    while True:
        with database.tenant(tenant_id) as tx:
            page = dump_rows.list_memories(tx, tenant_id, after, ROWS)
            times = memory_strength.load_timeline(tx, tenant_id)
        if not page:
            return
        yield page, times
        after = page[-1].memory_id


def _encode(tenant_id: UUID, page: list[DumpedRows], times: Timeline, now: float) -> tuple[list[bytes], int]:
    """Return the lines of memories, and the number of memories whose text can't be read."""
    cold = [memory.memory_id for memory in page if memory.tier == "cold"]
    with database.tenant(tenant_id) as tx:
        stored = states.read(tx, tenant_id, [memory.memory_id for memory in page])
        places = cold_segments.list_locations(tx, tenant_id, cold)
        opened = encryption_keys.open_record_keys(tx, tenant_id, [place.entry.key_id for place in places.values()])
    bodies, damaged = cold_restore.fetch_contents(tenant_id, places, opened)
    latest = max([now, *stored.state.anchored_at.tolist()])
    anchors = memory_strength.advance_to_era(stored, times, latest).state if stored.ids else stored.state
    rows = {memory_id: row for row, memory_id in enumerate(stored.ids)}
    lines = []
    for memory in page:
        if memory.memory_id in damaged or memory.memory_id not in rows:
            continue
        row = rows[memory.memory_id]
        anchor = {name: float(np.asarray(getattr(anchors, name))[row]) for name in _ANCHOR}
        fields = memory.memory | (in_record(bodies[memory.memory_id]) if memory.memory_id in bodies else {})
        line: dict[str, Any] = {
            "memory": fields,
            "state": memory.state | anchor,
            "score": memory.score,
            "events": memory.events,
        }
        more = {"vector": memory.vector, "sources": memory.sources}
        lines.append(msgspec.json.encode(line | {name: value for name, value in more.items() if value}) + b"\n")
    return lines, len(damaged)
