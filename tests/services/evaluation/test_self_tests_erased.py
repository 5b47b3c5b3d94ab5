"""Self-tests during an erasure: nothing is recorded about hidden memories, whichever starts first."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from app.domain.privacy.legal_hold import Scope
from app.services.erasure import requests as erasures_of
from app.services.erasure.requests import ErasureOptions
from app.services.evaluation import self_test_kinds, self_tests
from app.store.core import database
from app.store.erasure import hidden_memories, requests
from app.store.self_tests import SelfTestOutcome
from tests.services.due_deletions import worked
from tests.services.evaluation.test_self_tests import CELLO, ROOF, Mind, mind
from tests.variants import variants
from tests.waiting import PATIENCE_SECONDS, until

__all__ = ["mind"]

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def about(mind: Mind, memory_id: UUID) -> dict[str, int]:
    """Return the number of rows per table that self-tests left about a memory."""
    names = {
        "self_tests": "memory_id = %s OR other_id = %s",
        "memory_events": "kind = 'test' AND memory_id IN (%s, %s)",
    }
    names["reviews"] = "memory_id IN (%s, %s)"
    return {
        table: found
        for table, given in names.items()
        if (found := mind.service.one(f"SELECT count(*) FROM {table} WHERE {given}", memory_id, memory_id))  # noqa: S608
    }


def hide(tx: database.Transaction, mind: Mind, memory_id: UUID) -> None:
    """Take the erasure's first step: it makes self-tests wait, and hides the memory from them."""
    hidden_memories.hide(tx, mind.tenant_id, UUID(int=7), Scope(memory_ids=[memory_id]))


@pytest.mark.parametrize("place", ["drawing", "entering"])
def test_it_waits_for_what_hides_and_sees_it(mind: Mind, place: str) -> None:
    cello, roof = mind.remember(CELLO, ROOF)
    mind.link(cello, roof)
    state = self_tests.run_slice(mind.tenant_id, None, {}, 0).state if place == "entering" else {}
    with ThreadPoolExecutor(1) as pool:
        with database.tenant(mind.tenant_id) as tx:
            requests.lock_exclusive(tx, mind.tenant_id)
            goes_on = pool.submit(self_tests.run_slice, mind.tenant_id, None, state, 0)
            until(lambda: mind.service.one(WAITING), "the self-test waits for a lock")
            hide(tx, mind, roof)
        state = goes_on.result(PATIENCE_SECONDS).state
    for _ in range(5):
        step = self_tests.run_slice(mind.tenant_id, None, state, time.monotonic() + PATIENCE_SECONDS)
        if step.finished:
            break
    assert about(mind, roof) == {}
    assert mind.outcomes("application") == {cello: True}


ANSWERED = {
    f"{kind} {'passed' if passed else 'failed'}": (kind, passed)
    for kind in ("connection", "application", "coherence")
    for passed in (True, False)
}
USUALLY_ANSWERED = {"connection passed", "application failed", "coherence passed"}


@pytest.mark.parametrize("answered", variants(ANSWERED, USUALLY_ANSWERED))
def test_what_is_erased_while_it_is_asked_about_leaves_nothing(
    mind: Mind, monkeypatch: pytest.MonkeyPatch, answered: tuple[Any, bool]
) -> None:
    kind, passed = answered
    cello, roof = mind.remember(CELLO, ROOF)
    mind.link(cello, roof)
    monkeypatch.setattr("app.store.self_tests.draw_summaries", lambda *_: [cello, roof])

    def erased(*given: Any) -> list[SelfTestOutcome]:
        asked = ErasureOptions(Scope(memory_ids=[roof]), "gdpr", 0)
        erasure_id = erasures_of.request(mind.tenant_id, asked, "key").erasure_id
        worked(mind.service)
        assert erasures_of.get(mind.tenant_id, erasure_id).status == "verified"
        monkeypatch.setattr(self_test_kinds, "TESTS", rest)
        were.append(kind)
        return [SelfTestOutcome(one.memory_id, passed) for one in given[2]]

    were: list[str] = []
    rest = dict(self_test_kinds.TESTS)
    monkeypatch.setattr(self_test_kinds, "TESTS", rest | {kind: erased})
    mind.run()
    assert were == [kind], "a question was asked about it"
    assert about(mind, roof) == {}
