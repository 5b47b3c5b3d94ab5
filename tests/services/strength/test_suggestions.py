"""Values that a profile derives from content during scoring: the caller's value wins, and history records them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.clients.llm.salience_scorer import Scorer
from app.domain.ingest.memory import MemoryPatch
from app.domain.policy.policy import Forgetting, Policy
from app.domain.salience import judge
from app.services.enrichment import score_by_model, score_by_rules, stage_runner
from app.services.ingest import drain
from app.services.memories import memories
from app.services.storage import lookup
from tests.service import Service, Tenant
from tests.services.rated import Rated, rated

__all__ = ["rated"]

DECISION = "We decided to sell the house."
SECRET = "The password of the router is hunter2."
PLAIN = "The bakery opens at seven."
SEMANTIC, PROCEDURAL = 1, 2

MNEMEX = Forgetting(profile="mnemex", by_content=True, by_category=True)
CMM = Forgetting(profile="cmm")
MEMORY_DECAY = Forgetting(profile="memory_decay")


class StrengthTenant:
    """A tenant under a policy, and the stored values of its memories."""

    def __init__(self, service: Service, forgetting: Forgetting) -> None:
        self.service = service
        self.tenant: Tenant = service.tenant(Policy(forgetting=forgetting))

    def send(self, *sent: str | dict[str, Any]) -> list[UUID]:
        ids = self.service.send(self.tenant.tenant_id, *sent)
        self.service.work()
        return ids

    def edit(self, memory_id: UUID, **changes: Any) -> None:
        memories.edit_memory(self.tenant.tenant_id, memory_id, MemoryPatch(**changes))
        self.service.work()

    def get(self, columns: str, *ids: UUID) -> list[Any]:
        """Return each memory's column, or a tuple of its columns, rounded."""
        found = {
            memory_id: tuple(round(value, 4) if isinstance(value, float) else value for value in values)
            for memory_id, *values in self.service.rows(f"SELECT memory_id, {columns} FROM memory_state")  # noqa: S608
        }
        return [values if len(values) > 1 else values[0] for values in map(found.__getitem__, ids)]

    def events(self, kind: str) -> list[tuple[float, float]]:
        """Return before and after of each event of this kind, in the order of entry."""
        return [
            (round(before, 4), round(after, 4))
            for before, after in self.service.rows(
                "SELECT before, after FROM memory_events WHERE kind = %s ORDER BY event_id", kind
            )
        ]


@pytest.mark.parametrize("forgetting", [Forgetting(), Forgetting(profile="mnemex")], ids=["spec", "mnemex"])
def test_by_default_content_sets_neither_multiplier_nor_pace(service: Service, forgetting: Forgetting) -> None:
    kept = StrengthTenant(service, forgetting)
    ids = kept.send(SECRET, {"text": DECISION, "categories": ["credentials", "decision"]})
    assert kept.get("multiplier, pace, suggested_multiplier", *ids) == [(1, 1, None)] * 2


def test_mnemex_weighs_content_and_paces_categories_where_it_is_asked_to(service: Service) -> None:
    kept = StrengthTenant(service, MNEMEX)
    ids = kept.send(SECRET, DECISION, PLAIN, {"text": PLAIN, "categories": ["ephemeral"]})
    assert kept.get("multiplier, pace", *ids) == [(2, 1), (1.5, 1), (1, 1), (1, 2)]
    assert lookup.get(kept.tenant.tenant_id, ids[0]).multiplier == 2  # type: ignore[union-attr]
    assert (kept.events("multiplier"), kept.events("pace")) == ([], []), "a first score isn't a change"


def test_the_callers_multiplier_wins(service: Service) -> None:
    kept = StrengthTenant(service, MNEMEX)
    lower, none = kept.send({"text": SECRET, "multiplier": 0.5}, {"text": SECRET, "multiplier": 0})
    assert kept.get("multiplier", lower, none) == [0.5, 0]
    kept.edit(lower, text=DECISION)
    assert kept.get("multiplier", lower) == [0.5]


def test_a_multiplier_that_the_caller_sets_later_stays(service: Service) -> None:
    kept = StrengthTenant(service, MNEMEX)
    one, back = kept.send(DECISION, DECISION)
    kept.edit(one, multiplier=0.7)
    kept.edit(back, multiplier=1)
    for memory_id in (one, back):
        kept.edit(memory_id, text=SECRET)
    assert kept.get("multiplier", one, back) == [0.7, 1]


def test_a_new_text_is_weighed_anew_and_that_is_told(service: Service) -> None:
    kept = StrengthTenant(service, MNEMEX)
    [memory_id] = kept.send(DECISION)
    for text in (PLAIN, SECRET):
        kept.edit(memory_id, text=text)
    assert kept.get("multiplier", memory_id) == [2]
    assert kept.events("multiplier") == [(1.5, 1), (1, 2)]


def test_what_uses_have_raised_stays(service: Service) -> None:
    kept = StrengthTenant(service, MNEMEX)
    [memory_id] = kept.send(DECISION)
    service.rows("UPDATE memory_state SET multiplier = 1.6")
    kept.edit(memory_id, text=PLAIN)
    assert kept.get("multiplier", memory_id) == [1.6]


def test_new_categories_set_the_pace_anew_and_that_is_told(service: Service) -> None:
    kept = StrengthTenant(service, MNEMEX)
    [memory_id] = kept.send(PLAIN)
    paces = []
    for categories in (["credentials"], ["ephemeral"], []):
        kept.edit(memory_id, categories=categories)
        paces += kept.get("pace", memory_id)
    assert paces == [0.5, 2, 1]
    assert kept.events("pace") == [(1, 0.5), (0.5, 2), (2, 1)]


def test_a_memory_whose_salience_is_the_callers_is_weighed_and_paced_all_the_same(service: Service) -> None:
    kept = StrengthTenant(service, MNEMEX)
    [memory_id] = kept.send({"text": DECISION, "salience": 0.25, "categories": ["ephemeral"]})
    assert kept.get("multiplier, pace, salience, salience_source", memory_id) == [(1.5, 2, 0.25, "caller")]
    assert service.one("SELECT count(*) FROM scores") == 0


@pytest.mark.parametrize("first", [{}, {"multiplier": 1.3}], ids=["suggested", "the caller's"])
def test_a_keyed_memory_that_is_sent_again_without_a_multiplier_keeps_it(
    service: Service, first: dict[str, Any]
) -> None:
    kept = StrengthTenant(service, MNEMEX)
    sent = {"text": DECISION, "external_id": "k"}
    [memory_id] = kept.send(sent | first)
    before = kept.get("multiplier", memory_id)
    kept.send(sent, sent | {"tags": ["x"]})
    assert kept.get("multiplier", memory_id) == before == [first.get("multiplier", 1.5)]
    kept.send(sent | {"multiplier": 0.25}, sent)
    assert kept.get("multiplier", memory_id) == [0.25], "set and then omitted within one batch"


def test_where_it_is_switched_off_again_things_stay_as_they_are(service: Service) -> None:
    kept = StrengthTenant(service, MNEMEX)
    [memory_id] = kept.send({"text": DECISION, "categories": ["ephemeral"]})
    service.rows("UPDATE policies SET body = %s", Policy().model_dump_json())
    kept.edit(memory_id, text=PLAIN, categories=[])
    assert kept.get("multiplier, pace", memory_id) == [(1.5, 2)]


def test_a_text_that_changes_meanwhile_is_not_weighed_by_the_old_one(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = StrengthTenant(service, MNEMEX)
    [memory_id] = service.send(kept.tenant.tenant_id, SECRET)
    drain.drain_streams()

    def judge_late(batch: Any) -> Any:
        memories.edit_memory(kept.tenant.tenant_id, memory_id, MemoryPatch(text=PLAIN))
        return judge(batch)

    monkeypatch.setattr(score_by_rules, "judge", judge_late)
    score_by_rules.score_memories(kept.tenant.tenant_id, [memory_id])
    assert kept.get("multiplier", memory_id) == [1]


def test_cmm_takes_its_classes_for_salience(service: Service) -> None:
    kept = StrengthTenant(service, CMM)
    order, hello, first = kept.send("Always lock the door.", "thanks", PLAIN)
    [again, new] = kept.send(PLAIN, "Quantum chromodynamics describes gluons.")
    assert kept.get("salience", order, hello, again, new) == [1, 0.25, 0.5, 0.75]
    assert set(kept.get("salience_source", order, first)) == {"heuristic"}
    found = lookup.get(kept.tenant.tenant_id, hello)
    assert sum(found.criteria.values()) / 40 < 0.2, "the criteria are those of the rules"  # type: ignore[union-attr]


def test_under_cmm_the_callers_salience_wins_and_an_edit_is_classed_anew(service: Service) -> None:
    kept = StrengthTenant(service, CMM)
    mine, edited = kept.send({"text": "thanks", "salience": 0.875}, "thanks")
    kept.edit(edited, text="Always lock the door.")
    assert kept.get("salience, salience_source", mine, edited) == [(0.875, "caller"), (1, "heuristic")]
    assert kept.events("salience") == [(0.25, 1)]
    kept.edit(mine, salience=None)
    assert kept.get("salience, salience_source", mine) == [(0.25, "heuristic")]


def test_scored_twice_nothing_more_happens(service: Service) -> None:
    kept = StrengthTenant(service, CMM)
    [memory_id] = kept.send("thanks")
    before = service.one("SELECT memory_state::text FROM memory_state")
    score_by_rules.score_memories(kept.tenant.tenant_id, [memory_id])
    assert service.one("SELECT memory_state::text FROM memory_state") == before
    assert service.one("SELECT count(*) FROM memory_events") == 0


def test_memory_decay_takes_kind_and_salience_from_the_category(service: Service) -> None:
    kept = StrengthTenant(service, MEMORY_DECAY)
    text = "I feel so sad and I cried all night."
    chosen, own, mine, plain = kept.send(
        {"text": text, "categories": ["decision"]},
        {"text": text, "categories": ["decision"], "kind": "procedural"},
        {"text": text, "categories": ["fact"], "salience": 0.125},
        text,
    )
    assert kept.get("kind, salience, salience_source", chosen, own, mine) == [
        (SEMANTIC, 0.85, "heuristic"),
        (PROCEDURAL, 0.85, "heuristic"),
        (SEMANTIC, 0.125, "caller"),
    ]
    [(kind, salience)] = kept.get("kind, salience", plain)
    assert (kind, salience) not in {(SEMANTIC, 0.85), (SEMANTIC, 0.8)}, "without a category the rules decide"
    kept.edit(chosen, categories=["episode"])
    assert kept.get("kind, salience", chosen) == [(0, 0.45)]
    assert (kept.events("kind")[-1], kept.events("salience")) == ((SEMANTIC, 0), [(0.85, 0.45)])


def under(rated: Rated, forgetting: Forgetting) -> StrengthTenant:
    """Return a new tenant under this policy, rated by the same provider."""
    kept = StrengthTenant(rated.service, forgetting)
    rated.tenant = kept.tenant
    return kept


def test_a_models_rating_wins_over_the_class(rated: Rated) -> None:
    kept = under(rated, CMM)
    [memory_id] = kept.send("thanks")
    assert score_by_model.rate_memories() == 1
    [(salience, source)] = kept.get("salience, salience_source", memory_id)
    assert source == "llm"
    assert salience != 0.25
    score_by_rules.score_memories(kept.tenant.tenant_id, [memory_id])
    assert kept.get("salience, salience_source", memory_id) == [(salience, "llm")]


def test_after_a_rating_weight_and_kind_stay_and_the_pace_follows_what_it_found(rated: Rated) -> None:
    kept = under(rated, MNEMEX)
    found, own = kept.send(
        f"{DECISION} The token of the door is 1234, a secret password.",
        {"text": f"{DECISION} The password is x.", "categories": ["ephemeral"]},
    )
    assert kept.get("multiplier, pace", found, own) == [(2, 1), (2, 2)]
    assert score_by_model.rate_memories() == 2
    inferred = rated.stored(found).inferred
    assert inferred is not None
    assert "credentials" in inferred["categories"]
    assert kept.get("multiplier, pace", found, own) == [(2, 0.5), (2, 2)]
    assert (kept.events("multiplier"), kept.events("pace")) == ([], [(1, 0.5)])
    kept.edit(found, kind="semantic")
    assert kept.get("multiplier, pace", found) == [(2, 0.5)], "the model's findings about this text are retained"


def test_a_rating_gives_no_other_kind_than_the_callers_category(rated: Rated) -> None:
    kept = under(rated, MEMORY_DECAY)
    [memory_id] = kept.send({"text": DECISION, "categories": ["decision"]})
    assert score_by_model.rate_memories() == 1
    [(kind, salience, source)] = kept.get("kind, salience, salience_source", memory_id)
    assert (kind, source) == (SEMANTIC, "llm")
    assert salience != 0.85
    assert rated.stored(memory_id).inferred["kind"] == "episodic"  # type: ignore[index]
    stage_runner.run_score_stage()
    assert kept.get("kind", memory_id) == [SEMANTIC]


def test_categories_that_the_caller_gives_while_a_model_rates_decide(
    rated: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = under(rated, MNEMEX)
    [memory_id] = kept.send(f"{DECISION} The secret password is x.")
    gather = Scorer.gather

    def gather_late(scorer: Scorer, asked: Any, **more: Any) -> Any:
        kept.edit(memory_id, categories=["ephemeral"])
        return gather(scorer, asked, **more)

    monkeypatch.setattr(Scorer, "gather", gather_late)
    assert score_by_model.rate_memories() == 1
    assert kept.get("pace", memory_id) == [2]


def test_a_text_that_is_new_when_its_rating_comes_keeps_its_class(
    rated: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = under(rated, CMM)
    [memory_id] = kept.send(PLAIN, "thanks")[1:]
    gather = Scorer.gather

    class NextTurn(BaseException):
        """The turn that would rate the new text."""

    def gather_late(scorer: Scorer, asked: Any, **more: Any) -> Any:
        if not any("thanks" in each.text for each in asked):
            raise NextTurn
        kept.edit(memory_id, text="Quantum chromodynamics describes gluons.")
        return gather(scorer, asked, **more)

    monkeypatch.setattr(Scorer, "gather", gather_late)
    with pytest.raises(NextTurn):
        score_by_model.rate_memories()
    assert kept.get("salience, salience_source", memory_id) == [(0.75, "heuristic")]
