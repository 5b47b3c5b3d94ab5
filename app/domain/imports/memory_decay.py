"""Read the SQLite database of memory-decay, whose times are ticks."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO, Final

from app.domain.dynamics.state import STRENGTH_MIN
from app.domain.imports.containers import columns, open_database
from app.domain.imports.items import Fault, GivenState, Item, Link, Reading
from app.domain.imports.records import build_memory, fit_labels, is_finite, name_id

_SOURCE: Final = "memory-decay"
_KINDS: Final = {"fact": "semantic", "episode": "episodic"}
_SCORES: Final = ("storage_score", "retrieval_score", "stability_score")


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield memories and associations; the current tick is now, and a tick lasts `tick_seconds`.

    Raises:
        FileRefused: The file isn't such a database.
    """
    with open_database(source, ("memories", "associations", "metadata")) as database:
        stored = dict(database.execute("SELECT key, value FROM metadata").fetchall())
        rows = database.execute("SELECT * FROM memories ORDER BY id")
        latest = max(
            (row[0] or 0 for row in database.execute("SELECT max(last_activated_tick) FROM memories")), default=0
        )
        current = max(_tick(stored.get("current_tick")), _tick(latest))
        place = 0
        for place, row in enumerate(rows, start=1):
            yield _read_memory(place, row, current, reading)
        has_weight = "weight" in columns(database, "associations")
        statement = f"SELECT source_id, target_id, {'weight' if has_weight else '1.0'} FROM associations"  # noqa: S608
        for number, (source_id, target_id, weight) in enumerate(database.execute(statement), start=place + 1):
            if is_finite(weight):
                names = (name_id(_SOURCE, source_id), name_id(_SOURCE, target_id))
                yield Link(number, *names, "associated", min(max(float(weight), 0.0), 1.0))
            else:
                yield Fault(number, "weight must be a number")


def _tick(value: object) -> int:
    try:
        return max(int(float(str(value))), 0)
    except (ValueError, OverflowError):
        return 0


def _read_memory(place: int, row: sqlite3.Row, current: int, reading: Reading) -> Item:
    known = set(row.keys())
    values = {name: row[name] for name in known}
    text = values.get("content")
    if not isinstance(text, str) or any("\udc80" <= character <= "\udcff" for character in text):
        return Fault(place, "the record isn't UTF-8")
    storage, retrieval, stability = (values.get(name) for name in _SCORES)
    if not is_finite(storage, retrieval, stability):
        return Fault(place, "a score is missing or no number")
    created_tick = min(_tick(values.get("created_tick")), current)
    used_tick = min(max(created_tick, _tick(values.get("last_activated_tick"))), current)
    tick = reading.options.tick_seconds
    created_at = reading.now - (current - created_tick) * tick
    state = GivenState(
        created_at,
        reading.now - (current - used_tick) * tick,
        _tick(values.get("retrieval_count")),
        model="memory_decay",
        level=math.log(min(max(float(storage or 0), STRENGTH_MIN), 1.0)),
        retrieval=min(max(float(retrieval or 0), 0.0), 1.0),
        stability=max(float(stability or 0), 0.0),
    )
    importance = values.get("importance")
    fields = {
        "text": text,
        "subject": values.get("user_id") or None,
        "speaker": values.get("speaker") or None,
        "kind": _KINDS.get(str(values.get("mtype"))),
        "salience": min(max(float(importance), 0.0), 1.0) if is_finite(importance) else None,  # type: ignore[arg-type]
        "tags": fit_labels([values.get("category")]),
        "occurred_at": datetime.fromtimestamp(created_at, UTC),
        "external_id": name_id(_SOURCE, values.get("id")),
    }
    return build_memory(place, fields, reading, state)
