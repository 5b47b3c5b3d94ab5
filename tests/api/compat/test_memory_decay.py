"""`/memory-decay` (seed 003, section "HTTP"): a session of its calls, ticks beside real time, holds, keys."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.services.privacy import legal_holds
from app.services.tenants import tenants
from app.services.ticks import decay_ticks
from tests.api.caller import Api
from tests.service import Service

AT = "/memory-decay"
FACT, EPISODE = 0.02, 0.035


def store(api: Api, text: str, **fields: Any) -> str:
    answer = api.post(f"{AT}/store", json={"text": text} | fields)
    assert answer.status_code == 200, answer.text
    memory_id: str = answer.json()["id"]
    return memory_id


def memory(api: Api, memory_id: str) -> dict[str, Any]:
    answer = api.get(f"{AT}/admin/memories/{memory_id}")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def test_a_session_of_a_plugin(theirs: Api) -> None:
    assert theirs.get(f"{AT}/health").json() == {"status": "ok", "current_tick": 0}
    assert theirs.get(f"{AT}/stats").json()["num_memories"] == 0
    dark = store(theirs, "The user prefers dark mode", importance=0.9, category="preference", speaker="ann")
    answer = theirs.post(
        f"{AT}/store-batch",
        json=[
            {"text": "Chose SQLite over Postgres for simplicity", "importance": 0.8, "category": "decision"},
            {"text": "Finished the migration of the parser", "mtype": "episode", "associations": [dark]},
        ],
    )
    assert (answer.status_code, answer.json()["count"], answer.json()["tick"]) == (200, 2, 0)
    sqlite, parser = answer.json()["ids"]
    assert theirs.post(f"{AT}/tick", json={"count": 10}).json() == {"current_tick": 10}
    [best, *_] = theirs.post(f"{AT}/search", json={"query": "Does the user prefer dark mode?", "top_k": 2}).json()["results"]
    faded = math.exp(-10 * FACT / (1 + 0.5 * 0.9))
    assert best.pop("score") > ticked_threshold()
    assert best == {
        "id": dark,
        "text": "The user prefers dark mode",
        "storage_score": round(faded, 4),
        "retrieval_score": round(faded, 4),
        "category": "preference",
        "mtype": "fact",
        "created_tick": 0,
        "speaker": "ann",
    }
    used = memory(theirs, dark)
    assert (used["retrieval_score"], used["storage_score"]) == (round(faded + 0.1, 4), round(faded + 0.025, 4))
    assert (used["stability"], used["retrieval_count"], used["importance"]) == (0.2, 1, 0.9)
    later = store(theirs, "The parser is released")
    assert memory(theirs, later)["created_tick"] == 10
    listed = theirs.get(f"{AT}/admin/memories", params={"per_page": 3}).json()
    assert (listed["total"], [each["id"] for each in listed["memories"]]) == (4, [later, parser, sqlite])
    listed = theirs.get(f"{AT}/admin/memories", params={"per_page": 3, "page": 2}).json()
    assert [each["id"] for each in listed["memories"]] == [dark]
    for name, value, found in (("mtype", "episode", parser), ("category", "decision", sqlite)):
        listed = theirs.get(f"{AT}/admin/memories", params={name: value}).json()
        assert ([each["id"] for each in listed["memories"]], listed["total"]) == ([found], 1), name
    history = theirs.get(f"{AT}/admin/memories/{sqlite}/history", params={"start_tick": 3, "end_tick": 7}).json()
    expected = [round(math.exp(-tick * FACT / 1.4), 4) for tick in range(3, 8)]
    assert [(point["tick"], point["storage_score"]) for point in history["history"]] == list(zip(range(3, 8), expected, strict=True))
    summary = theirs.get(f"{AT}/admin/history/summary").json()
    assert (summary["total_memories"], summary["at_risk_count"], summary["current_tick"]) == (4, 0, 10)
    assert [(each["category"], each["count"]) for each in summary["categories"]] == [
        ("decision", 1),
        ("episode", 1),
        ("fact", 1),
        ("preference", 1),
    ]
    assert [each["tick"] for each in summary["timeline"]] == list(range(1, 11))
    assert theirs.delete(f"{AT}/forget/{parser}").json() == {"deleted": parser}
    assert theirs.delete(f"{AT}/forget/{parser}").status_code == 404
    assert theirs.get(f"{AT}/stats").json()["num_memories"] == 3
    assert theirs.post(f"{AT}/reset").json() == {"status": "ok", "cleared": 3}
    assert theirs.get(f"{AT}/stats").json()["num_memories"] == 0
    assert theirs.post(f"{AT}/search", json={"query": "dark mode"}).json() == {"results": []}
    assert theirs.get(f"{AT}/health").json()["current_tick"] == 0


def ticked_threshold() -> float:
    from app.services.ticks.ticked_memories import RECALLED_ABOVE

    return RECALLED_ABOVE
