"""`ebbing threads`: the table of threads, and the memories of one in order."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

THREAD: dict[str, Any] = {
    "thread": "support",
    "memories": 1234,
    "first_at": "2026-11-20T18:00:00Z",
    "last_at": "2026-11-21T09:12:44Z",
    "subjects": ["ann", "bo"],
    "subject_count": 5,
}
TURN: dict[str, Any] = {
    "turn": 7,
    "occurred_at": None,
    "created_at": "2026-11-20T18:00:00Z",
    "speaker": None,
    "role": "user",
    "text": "Mint tea\x1b[31m",
}


def test_threads_are_a_table(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/threads"] = Reply(200, {"threads": [THREAD], "next_cursor": None})
    shown = cli("threads", "--subject", "ann").out
    assert shown.split()[:5] == ["thread", "memories", "first", "last", "subjects"]
    for part in ("support", "1,234", "2026-11-20 18:00 UTC", "2026-11-21 09:12 UTC", "ann, bo and 3 more"):
        assert part in shown, part
    assert api.asked[0].path == "/v1/threads?limit=100&subject=ann"
    assert json.loads(cli("threads", "--json").out) == {"threads": [THREAD]}


def test_turns_of_a_thread_are_listed_in_order(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/memories"] = Reply(200, {"memories": [TURN], "next_cursor": None})
    shown = cli("threads", "support").out
    assert shown.splitlines()[-1].split() == ["7", "2026-11-20", "18:00", "UTC", "user", "Mint", "tea", "[31m"]
    assert api.asked[0].path == "/v1/memories?limit=100&thread=support&order=thread"
    cli("threads", "support", "--source", "user", "--source", "agent")
    assert api.asked[1].path == "/v1/memories?limit=100&thread=support&order=thread&sources=user&sources=agent"
    refused = cli("threads", "--source", "user")
    assert (refused.code, len(api.asked)) == (2, 2)
    assert "give THREAD" in refused.err
