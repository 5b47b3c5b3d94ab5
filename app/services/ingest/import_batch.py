"""Carry out a batch of an import: insert new memories by COPY and update known ones, or add links.

COPY and the import's position are one transaction. Memories whose external id is known, or that have vectors, links or
supersessions, are stored before it, like those of a request; their ids follow from the position, so that storing them
again after a crash has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from uuid import UUID

import numpy as np

from app import failpoints, metrics, queues
from app.clients.redis import stream_position
from app.domain.dynamics.state import take
from app.domain.dynamics.timeline import Era
from app.domain.imports.items import Fault, Item, Link, Memory
from app.domain.imports.strength import build_states, promoted_at
from app.domain.ingest.ids import (
    RANDOM_BYTES,
    first_seq,
    generate_base,
    last_seq,
    memory_uuids,
    parse_entry_id,
)
from app.domain.ingest.memory import MemoryIn, with_expiry
from app.domain.ingest.sources import Writer, lowest
from app.domain.privacy.late_arrivals import ArrivalErasures, matches_scope
from app.errors import Unavailable
from app.services.ingest import links_at_ingest, upsert_by_external_id
from app.services.strength import memory_strength
from app.store.consolidation import supersessions
from app.store.core import database
from app.store.core.binary_copy import Arrival
from app.store.erasure import requests
from app.store.ingest import import_copy, imports, loaded_rows
from app.store.ingest.import_copy import ExternalIdTaken, ImportedRows
from app.store.ingest.imports import Import
from app.store.memories import links as stored_links
from app.store.memories.links import LinkKey

REPEATED: Final = "is repeated later in the file, and the last record is used"
ERASED: Final = "an erasure covers it"
EXPIRED: Final = "expires_at has passed"
NO_LINK: Final = "a link names a memory that isn't stored"
TO_ITSELF: Final = "a link leads to its own memory"
FULL: Final = "a link exceeds the maximum number of links of a memory"
_TRIES: Final = 3

Skipped = list[tuple[int, str]]


def carry_out(tenant_id: UUID, found: Import, items: Sequence[Item]) -> dict[str, int]:
    """Carry out the records after an import's position, and store the new position.

    Returns:
        The number of records by outcome; a dry run counts what would be done. Empty if another worker has stored these
        records, or the import has ended.

    Raises:
        Unavailable: Other transactions keep storing memories with the same external ids.
    """
    skipped: Skipped = [(item.place, item.reason) for item in items if isinstance(item, Fault)]
    memories = _latest([item for item in items if isinstance(item, Memory)], found, skipped)
    links = [item for item in items if isinstance(item, Link)]
    if found.dry_run:
        return _count_only(tenant_id, found, len(items), memories, links, skipped)
    for _ in range(_TRIES):
        try:
            return _store(tenant_id, found, len(items), memories, links, list(skipped))
        except ExternalIdTaken:  # stored by a request at the same moment: now it is known, so it becomes an update
            continue
    raise Unavailable("the memories of this file are being stored by another request", retry_after_seconds=1)


def _latest(memories: Sequence[Memory], found: Import, skipped: Skipped) -> list[Memory]:
    """Return the last unexpired record of each external id; the other records are skipped."""
    now = found.requested_at.timestamp()
    latest: dict[str, Memory] = {}
    for item in memories:
        memory = with_expiry(item.given, now)
        if memory.expires_at is not None and memory.expires_at.timestamp() <= now:
            skipped.append((item.place, EXPIRED))
            continue
        name = memory.external_id or ""
        if name in latest:
            skipped.append((latest.pop(name).place, REPEATED))
        latest[name] = item._replace(given=memory)
    return list(latest.values())


def _count_only(
    tenant_id: UUID, found: Import, records: int, memories: list[Memory], links: list[Link], skipped: Skipped
) -> dict[str, int]:
    with database.tenant(tenant_id) as tx:
        known = imports.find_external(tx, tenant_id, [item.given.external_id or "" for item in memories])
        existing = sum(item.given.external_id in known for item in memories)
        counts = {"stored": len(memories) - existing, "updated": existing, "links": len(links)}
        return _record(tx, tenant_id, found, records, counts, skipped)


def _record(
    tx: database.Transaction, tenant_id: UUID, found: Import, records: int, counts: dict[str, int], skipped: Skipped
) -> dict[str, int]:
    """Store the outcome and the new position, unless another worker has; return the counts."""
    current = imports.lock(tx, tenant_id, found.import_id)
    if current is None or current.status != "running" or current.position != found.position:
        return {}
    named = {name: number for name, number in (counts | {"skipped": len(skipped)}).items() if number}
    imports.record_progress(tx, tenant_id, current, records=records, counts=named, skipped=sorted(skipped))
    return named


def _store(
    tenant_id: UUID, found: Import, records: int, memories: list[Memory], links: list[Link], skipped: Skipped
) -> dict[str, int]:
    if links:
        return _store_links(tenant_id, found, records, links, skipped)
    with database.tenant(tenant_id) as tx:
        known = imports.find_external(tx, tenant_id, [item.given.external_id or "" for item in memories])
        era = memory_strength.load_timeline(tx, tenant_id).at(found.requested_at.timestamp())
    known |= _list_named(memories)
    careful = [
        place for place, item in enumerate(memories) if item.given.external_id in known or _needs_care(item.given)
    ]
    chosen = set(careful)
    fresh = [item for place, item in enumerate(memories) if place not in chosen]
    position = stream_position.take_position(tenant_id)
    counts = _store_careful(tenant_id, found, position, memories, careful, era) if careful else Counter()
    failpoints.trigger("import.before_copy")
    with database.drain() as tx:
        requests.lock_shared(tx, tenant_id)
        fresh = _drop_erased(requests.coming(tx, tenant_id), position, fresh, skipped)
        current = imports.lock(tx, tenant_id, found.import_id)
        if current is None or current.status != "running" or current.position != found.position:
            return {}
        if fresh:
            rows = _build_rows(found, fresh, era, memory_uuids(_base(found, b"copy"), len(fresh)))
            if not import_copy.copy_memories(tx, tenant_id, rows, first_seq(position), _accepted(position)):
                return {}
            counts["stored"] += len(fresh)
        done = _record(tx, tenant_id, found, records, counts, skipped)
        failpoints.trigger("import.before_commit")
    if counts["stored"]:
        metrics.count("stored_memories", counts["stored"])
        queues.nudge(queues.INDEX)
        queues.nudge(queues.EMBED_MEMORIES)
    return done


def _needs_care(memory: MemoryIn) -> bool:
    """Return whether COPY can't store a memory: it has a vector or links, supersedes others, or is a delayed write."""
    return memory.embedding is not None or bool(memory.links) or bool(memory.supersedes) or memory.written is not None


def _list_named(memories: Sequence[Memory]) -> set[str]:
    """Return the names that these memories link to or supersede; COPY doesn't resolve links waiting for such a name."""
    targets = {link.to for item in memories for link in item.given.links}
    return targets | {name for item in memories for name in item.given.superseded}


def _drop_erased(open_erasures: ArrivalErasures, position: str, fresh: list[Memory], skipped: Skipped) -> list[Memory]:
    """Return the memories that no open erasure covers; add the others to `skipped`.

    Raises:
        ExternalIdTaken: An erasure set its watermark after the batch took its position; the next try takes another one.
    """
    accepted_ms = parse_entry_id(position)[0]
    if open_erasures.last_cut_ms >= accepted_ms or any(
        last_seq(cut) >= first_seq(position) for cut in open_erasures.cuts.values()
    ):
        raise ExternalIdTaken
    if not open_erasures.scopes:
        return fresh
    kept = []
    for item in fresh:
        if any(matches_scope(scope, item.given, accepted_ms) for scope in open_erasures.scopes.values()):
            skipped.append((item.place, ERASED))
        else:
            kept.append(item)
    return kept


def _base(found: Import, salt: bytes) -> bytes:
    """Return the base of the ids of a batch's memories, which is the same in every attempt."""
    seed = found.import_id.bytes + found.position.to_bytes(8, "big") + salt
    return generate_base(int(found.requested_at.timestamp() * 1000), blake2b(seed, digest_size=RANDOM_BYTES).digest())


def _accepted(position: str) -> float:
    return parse_entry_id(position)[0] / 1000


def _build_rows(found: Import, items: Sequence[Memory], era: Era, memory_ids: Sequence[str]) -> ImportedRows:
    memories, given = [item.given for item in items], [item.state for item in items]
    from_occurred = era.policy.decay_from == "occurred"
    state = build_states(memories, given, era.dynamics, found.requested_at.timestamp(), from_occurred=from_occurred)
    ids = [UUID(memory_id).bytes for memory_id in memory_ids]
    return ImportedRows(ids, memories, state, promoted_at(given), era.version, _writer(found))


def _writer(found: Import) -> Writer:
    """Return the key that started the import, with the memories' source: `import` or, if lower, the key's source."""
    return Writer(found.requested_by, lowest(("import", found.key_source)))


def _store_careful(
    tenant_id: UUID, found: Import, position: str, memories: Sequence[Memory], careful: Sequence[int], era: Era
) -> Counter[str]:
    """Store memories as if requests had sent them, and give inserted ones the strength state that the file contains.

    A retry after a crash may find more memories of the batch stored than the first attempt did. So that ids don't
    depend on this, each new memory is an arrival of its own, whose id follows from its place. Returns the number of
    memories by outcome.

    Args:
        memories: All memories of the batch.
        careful: Places of those to store here, in order.
    """
    items = [memories[place] for place in careful]
    bases = [_base(found, b"upsert" + place.to_bytes(4, "big")) for place in careful]
    ids = [memory_uuids(base, 1, place)[0] for base, place in zip(bases, careful, strict=True)]
    with database.tenant(tenant_id) as tx:
        stored = loaded_rows.find_names(tx, tenant_id, [item.given.external_id or "" for item in items])
    accepted_ms, writer = parse_entry_id(position)[0], _writer(found)
    arrivals = [
        Arrival(position, base, accepted_ms, [item.given], writer=writer, first=place)
        for base, place, item in zip(bases, careful, items, strict=True)
        if item.given.external_id not in stored
    ]
    if known := [item.given for item in items if item.given.external_id in stored]:
        names = chr(0).join(memory.external_id or "" for memory in known)
        arrivals.append(Arrival(position, _base(found, names.encode()), accepted_ms, known, writer=writer))
    changed = upsert_by_external_id.upsert_memories(tenant_id, arrivals)
    failpoints.trigger("import.after_upsert")
    rows = _build_rows(found, items, era, ids)
    with database.tenant(tenant_id) as tx:
        inserted = imports.list_inserted(tx, tenant_id, [UUID(bytes=memory_id) for memory_id in rows.ids])
        places = [
            place
            for place, item in enumerate(items)
            if item.state is not None and UUID(bytes=rows.ids[place]) in inserted
        ]
        if places:
            import_copy.write_states(tx, tenant_id, _only(rows, places))
    updated = max(changed - len(inserted), 0)
    unchanged = max(len(items) - len(inserted) - updated, 0)
    return Counter({"stored": len(inserted), "updated": updated, "unchanged": unchanged})


def _only(rows: ImportedRows, places: Sequence[int]) -> ImportedRows:
    chosen = np.array(places, np.intp)
    return ImportedRows(
        [rows.ids[place] for place in places],
        [rows.memories[place] for place in places],
        take(rows.state, chosen),
        rows.promoted_at[chosen],
        rows.policy_version,
        rows.writer,
    )


def _store_links(
    tenant_id: UUID, found: Import, records: int, links: Sequence[Link], skipped: Skipped
) -> dict[str, int]:
    """Add or update links whose two memories are stored; adding them twice has no effect."""
    with database.tenant(tenant_id) as tx:
        current = imports.lock(tx, tenant_id, found.import_id)
        if current is None or current.status != "running" or current.position != found.position:
            return {}
        resolved = supersessions.resolve_names(
            tx, tenant_id, {name for link in links for name in (link.source, link.target)}
        )
        ends = {name: end.memory_id for name, end in resolved.items()}
        locked = stored_links.lock_targets(tx, tenant_id, set(ends.values()), [])
        weights: dict[LinkKey, float] = {}
        places: dict[LinkKey, int] = {}
        for link in links:
            source, target = ends.get(link.source), ends.get(link.target)
            if source is None or target is None or not {source, target} <= locked:
                skipped.append((link.place, NO_LINK))
            elif source == target:
                skipped.append((link.place, TO_ITSELF))
            else:
                key = LinkKey(source, target, link.kind)
                weights[key], places[key] = link.weight, link.place
        full = links_at_ingest.upsert_within_limit(tx, tenant_id, weights)
        skipped += [(places[key], FULL) for key in full]
        return _record(tx, tenant_id, found, records, {"links": len(weights) - len(full)}, skipped)
