"""Consolidation of random memories: protected ones stay, subjects never mix, a second run is idle, undo is exact."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.domain.consolidation.parameters import Consolidation
from app.domain.privacy.legal_hold import Scope
from app.services.consolidation import merge_undo
from app.services.memories import recount
from app.services.privacy import legal_holds
from app.services.strength import memory_strength
from app.store.core import database
from app.store.strength import states
from tests.service import Service
from tests.services import archived_memories
from tests.services.mergeable import Alike

COLOURS = ("red", "blue", "old", "new", "green", "small")
TOPICS = (
    "the {} boat lies in the harbour and waits for rain",
    "a {} cat sleeps on the roof of the kitchen",
    "we ate {} soup with bread for lunch",
)
SUBJECTS = (None, "ann", "bob")
MEMORIES = 60
RULES = Consolidation()


class Drawn:
    """A tenant with random memories; `kept` holds those that must stay."""

    def __init__(self, service: Service, seed: int) -> None:
        self.alike = Alike(service)
        self.ids: list[UUID] = []
        self.kept: set[UUID] = set()
        chance = random.Random(seed)
        for subject in SUBJECTS:
            for days in (RULES.keep_days - 2, RULES.keep_days + 5, RULES.summarise_after_days + 20):
                for kept in ("", "tag", "kind", "used", "held", "important"):
                    count = chance.choice((0, 1, 2)) if kept else chance.randint(0, MEMORIES // 9)
                    texts = [chance.choice(TOPICS).format(chance.choice(COLOURS)) for _ in range(count)]
                    if texts:
                        self._remember(texts, kept, days, subject, chance)

    def _remember(self, texts: list[str], kept: str, days: float, subject: str | None, chance: random.Random) -> None:
        labels: dict[str, dict[str, Any]] = {"tag": {"tags": ["decision"]}, "kind": {"kind": "procedural"}}
        more = labels.get(kept, {})
        thread = chance.choice((None, "talk"))
        ids = self.alike.remember(*texts, days=days, subject=subject, thread=thread, **more)
        if kept == "used":
            self.alike.service.rows("UPDATE memory_state SET access_count = 60 WHERE memory_id = ANY (%s)", ids)
        if kept == "held":
            legal_holds.place_hold(self.alike.tenant_id, Scope(memory_ids=ids), "case", "me")
        if kept == "important":
            raised = "UPDATE memory_state SET salience = 1, access_count = 49 WHERE memory_id = ANY (%s)"
            self.alike.service.rows(raised, ids)
        self.ids += ids
        if kept not in {"", "important"} or days < RULES.keep_days:
            self.kept |= set(ids)

    def important(self) -> set[UUID]:
        """Return the memories that are too important to be merged."""
        with database.tenant(self.alike.tenant_id) as tx:
            now = database.now(tx).timestamp()
            times = memory_strength.load_timeline(tx, self.alike.tenant_id)
            held = memory_strength.advance_to_era(states.read(tx, self.alike.tenant_id, self.ids), times, now)
        importance = memory_strength.evaluate_strength(times.at(now), held.state, now).importance
        return {held.ids[place] for place in np.flatnonzero(importance > RULES.keep_importance_above)}


@pytest.fixture(params=[0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def drawn(request: pytest.FixtureRequest, service: Service) -> Drawn:
    return Drawn(service, request.param)


@pytest.mark.slow
def test_what_must_stay_stays_nothing_crosses_and_twice_is_once(drawn: Drawn) -> None:
    alike, important = drawn.alike, drawn.important()
    assert important
    done = alike.run()
    assert done["summaries"], "the run has made summaries to check"
    tiers = dict(zip(drawn.ids, alike.tiers(drawn.ids), strict=True))
    assert {memory_id for memory_id in drawn.kept | important if tiers[memory_id] != "active"} == set()
    crossing = alike.service.rows(
        "SELECT merge_id FROM lineage JOIN memories USING (tenant_id, memory_id) "
        "GROUP BY merge_id HAVING count(DISTINCT coalesce(subject, '')) > 1"
    )
    assert crossing == []
    days = alike.service.rows(
        "SELECT subject, memories.created_at::date FROM memories JOIN memory_state USING (tenant_id, memory_id) "
        "WHERE made_by = 'caller' GROUP BY 1, 2 HAVING count(*) FILTER (WHERE tier = 'active') = 0"
    )
    assert days == [], "one memory per day and subject stays"
    every = [*drawn.ids, *alike.summaries()]
    before = alike.whole(every), alike.merges()
    alike.again()
    assert not {"summaries", "linked", "merged", "waiting"} & alike.run().keys()
    assert (alike.whole(every), alike.merges()) == before
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()


@pytest.mark.slow
def test_undone_all_is_as_it_was(drawn: Drawn) -> None:
    alike = drawn.alike
    for (hold_id,) in alike.service.rows("SELECT hold_id FROM holds"):
        legal_holds.release_hold(alike.tenant_id, hold_id, "me")
    before = alike.whole(drawn.ids)
    alike.run()
    assert alike.whole(drawn.ids) != before
    for (merge_id,) in alike.service.rows("SELECT merge_id FROM merges WHERE status = 'done' ORDER BY merge_id"):
        merge_undo.undo_merge(alike.tenant_id, merge_id, "me")
    alike.settle()
    archived_memories.swept(alike.tenant_id)
    assert alike.whole(drawn.ids) == before
    assert not alike.summaries()
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()
