"""A dialogue lives through its year in the real service, and is then asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from app.domain.recall.request import RecallRequest
from app.services.recall import recall
from ops.forgetting import picture, report
from ops.forgetting.asking import AskedTenant, ask_tenant
from ops.forgetting.life import Life, Plan
from ops.forgetting.run import Measure, measure
from ops.recall.dataset import Conversation, Memory, Question
from tests.service import Service

PLAN = Plan(days=120, night_days=14, seed=3)
FIRST = datetime(2025, 3, 3, 9, tzinfo=UTC)
SAID = (
    ("kitchen", 0, "user", "I am allergic to peanuts, even a trace of them is dangerous for me."),
    ("kitchen", 0, "assistant", "Noted. Peanuts are common in satay and in some curries."),
    ("kitchen", 0, "user", "ok thanks"),
    ("garden", 2, "user", "It is raining here again."),
    ("garden", 2, "assistant", "Then the beans need no water today."),
    ("dinner", 9, "user", "Which curry can I cook tonight, given my allergy to peanuts?"),
    ("dinner", 9, "assistant", "A lentil curry with coconut milk."),
    ("move", 12, "user", "We moved to Ghent last month, into a house by the canal."),
)
QUESTIONS = (
    Question("q1", "direct", "What am I allergic to?", ("0",)),
    Question("q2", "direct", "Which city did we move to?", ("7",)),
    Question("q3", "direct", "What did you suggest I cook with lentils?", ("6",)),
    Question("q4", "adversarial", "Which boat do I sail?", ("3",)),
)
TALK = Conversation(
    "kitchen talk",
    tuple(
        Memory(str(place), session, FIRST + timedelta(days=day), text, role=role)  # type: ignore[arg-type]
        for place, (session, day, role, text) in enumerate(SAID)
    ),
    QUESTIONS,
)


@pytest.fixture
def quick(service: Service) -> Service:
    service.configure(master_key="a key of tests, as long as it must be")
    return service


def live(talk: Conversation, name: str, usage: Any, *, nights: bool = True, profile: str = "spec") -> Life:
    life = Life(talk, PLAN.profile(profile), PLAN, name)
    life.live(usage, nights=nights)
    return life


@pytest.mark.slow
def test_turns_are_accepted_at_their_own_times_and_forgotten_by_the_profile(quick: Service) -> None:
    life = live(TALK, "a", "none")
    rows = quick.rows(
        "SELECT created_at, occurred_at, thread, role FROM memories WHERE text ~ 'allergic|Ghent' ORDER BY 1"
    )
    first, last = FIRST, FIRST + timedelta(days=12, seconds=7)
    assert rows == [(first, first, "kitchen", "user"), (last, last, "move", "user")]
    assert life.end == datetime(2025, 3, 15, 12, tzinfo=UTC) + timedelta(days=120)
    assert life.worth.protected[[0, 7]].all(), "an allergy and a home matter"
    assert not life.worth.protected[[2, 3]].any(), "thanks and the weather don't"
    assert life.worth.active[[0, 7]].all()
    assert not life.worth.active[[2, 3]].any()
    assert life.worth.strength[2] > 0, "the strength of a deleted memory is what it would be"
    assert not quick.rows("SELECT FROM memories WHERE text = 'ok thanks'")
    assert life.count_active() == life.worth.active.sum()
    assert not quick.rows("SELECT FROM memory_events WHERE kind = 'use'")


@pytest.mark.slow
def test_later_turns_use_memories_of_other_threads_whatever_is_asked_in_the_end(
    quick: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[RecallRequest] = []

    def watched(tenant_id: Any, request: RecallRequest, policy: Any = None) -> Any:
        requests.append(request)
        return original(tenant_id, request, policy)

    original = recall.recall_memories
    monkeypatch.setattr(recall, "recall_memories", watched)
    life = live(TALK, "a", "later")
    spoken = {text for *_, text in SAID}
    assert [request.exclude_thread for request in requests] == ["garden", "dinner", "move"], "the first has no past"
    for request in requests:
        assert {message.text for message in request.messages if not isinstance(message, str)} <= spoken
    [(used, moment)] = quick.rows("SELECT DISTINCT memory_id, at FROM memory_events WHERE kind = 'use'")
    assert life.places[used] == 0
    assert moment == life.moments[5], "the question about dinner recalls the allergy"
    assert life.worth.used[0] == life.moments[5].timestamp()
    unasked = live(msgspec.structs.replace(TALK, questions=()), "b", "later")
    assert (unasked.worth.used == life.worth.used).all()
    assert (unasked.worth.strength == life.worth.strength).all()
    unused = live(TALK, "c", "none")
    assert life.worth.strength[0] > unused.worth.strength[0]


@pytest.mark.slow
def test_searches_over_a_part_rank_like_a_tenant_that_stores_only_this_part(quick: Service) -> None:
    life = live(TALK, "a", "none", nights=False)
    asked = AskedTenant(life, QUESTIONS[:3])
    whole = asked.recall(np.ones(len(SAID), bool))
    assert whole.tolist() == ask_tenant(life, QUESTIONS[:3], asked.evidence).tolist() == [1, 1, 1]
    kept = np.ones(len(SAID), bool)
    kept[[0, 1]] = False
    part = Life(TALK, PLAN.profile("spec"), PLAN, "b")
    part.store_all(kept)
    assert asked.recall(kept).tolist() == ask_tenant(part, QUESTIONS[:3], asked.evidence).tolist() == [0, 1, 1]
    assert asked.recall(np.zeros(len(SAID), bool)).tolist() == [0, 0, 0]


@pytest.mark.long
def test_a_measurement_has_every_method_and_is_the_same_again(quick: Service) -> None:
    wanted = Measure(PLAN, ["spec", "mnemex"], ["none", "later"], ["adversarial"], checks=1)
    documents = []
    for _ in range(2):
        said: list[str] = []
        measured = measure([TALK], wanted, lambda what, _share, said=said: said.append(what))  # type: ignore[misc]
        documents.append(report.describe("tiny", "lines", measured, seed=3))
        assert any("mnemex" in what for what in said)
    first, second = documents
    assert first == second
    for figures in first["usages"].values():
        assert figures["questions"] == 3, "the adversarial question is left out"
        assert list(figures["methods"]) == [
            *("spec", "mnemex", "lru", "ttl", "random", "salience", "keep_chance", "oracle")
        ]
        for name, method in figures["methods"].items():
            assert method["curve"][-1]["relative"] == 1, "everything is kept"
            assert ("own" in method) == (name in ("spec", "mnemex"))
            if "own" in method:
                assert method["own"]["found"] == pytest.approx(method["own"]["relative"] * figures["keep_all"])
                assert method["own"]["evidence_kept"] >= method["own"]["by_curve"] * figures["keep_all"] - 1e-9
            for point, best in zip(method["curve"], figures["methods"]["oracle"]["curve"], strict=True):
                assert point["evidence_kept"] <= best["evidence_kept"] + 1e-12
    assert first["usages"]["none"]["check"]["points"] == 1
    assert "check" not in first["usages"]["later"]
    drawn = picture.draw({"datasets": [first]})
    assert drawn.count("<polyline") == 2 * 8
    assert drawn.count("<circle") == 2 * 2
