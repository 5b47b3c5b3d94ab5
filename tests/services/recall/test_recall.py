"""Recall: which memories a conversation brings up, in which order, and which never."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from app.clients.embedding.static_embedder import StaticEmbedder
from app.clients.llm.resilience import ProviderFailed, Reason
from app.domain.policy.policy import Forgetting, Policy
from app.domain.recall import gate, worth
from app.domain.recall.knowledge import QUESTION
from app.domain.recall.parameters import Recall
from app.domain.recall.request import Message, RecallRequest
from app.domain.search.request import SearchRequest
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.recall.recall import RecalledContext, recall_memories
from app.services.search import search
from app.services.uses import reviews
from tests.service import Service, Tenant
from tests.services.backdated import age

NUTS = "Orla is allergic to walnuts and almonds"
TEA = "Orla drinks mint tea in the evening"
DIARY: dict[str, dict[str, Any]] = {
    "nuts": {"text": NUTS, "subject": "orla", "occurred_at": "2026-03-02T09:00:00Z"},
    "tea": {"text": TEA, "subject": "orla", "tags": ["drinks"]},
    "car": {"text": "The car has to be at the garage on Monday", "thread": "today"},
    "boat": {"text": "We saw the boat race from the bridge"},
    "piano": {"text": "The piano is tuned every spring", "subject": "music"},
    "keys": {"text": "The spare keys are under the blue flower pot"},
}


@dataclass
class Mind:
    """A tenant with a few memories, named by short keys."""

    service: Service
    tenant: Tenant
    ids: dict[str, UUID] = field(default_factory=dict)

    def hear(self, *keys: str) -> None:
        """Store these entries of the diary without indexing or embedding them."""
        sent = self.service.send(self.tenant.tenant_id, *(DIARY[key] for key in keys))
        self.ids |= dict(zip(keys, sent, strict=True))
        drain.drain_streams()

    def recall(self, *messages: str, policy: Policy | None = None, **more: Any) -> RecalledContext:
        return recall_memories(self.tenant.tenant_id, RecallRequest(list(messages), **more), policy)

    def keys(self, *messages: str, policy: Policy | None = None, **more: Any) -> list[str]:
        """Return the keys of the recalled memories, best first."""
        names = {memory_id: key for key, memory_id in self.ids.items()}
        return [names[each.id] for each in self.recall(*messages, policy=policy, **more).memories]


@pytest.fixture
def empty(service: Service) -> Mind:
    return Mind(service, service.tenant())


@pytest.fixture
def mind(empty: Mind) -> Mind:
    empty.hear(*DIARY)
    empty.service.work()
    return empty


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (["Is Orla allergic to walnuts?"], ["nuts"]),
        (["Is Orla allergic to walnuts?", "I want to bake a cake for her."], ["nuts"]),
        (["Where are the spare keys?", "Is Orla allergic to walnuts?"], ["nuts", "keys"]),
        (["Is Orla allergic to walnuts?", "Where are the spare keys?"], ["keys", "nuts"]),
        (["What is the capital of Mongolia?"], []),
        (["Thanks, that's great!"], []),
        (["ok"], []),
        (["👍"], []),
        (["  "], []),
    ],
)
def test_what_the_conversation_is_about_comes_up_and_else_nothing_does(
    mind: Mind, messages: list[str], expected: list[str]
) -> None:
    assert mind.keys(*messages) == expected


NEWS = "Orla said something about walnuts."
"""Not a question, so that the usual bar applies."""


def test_relevance_is_above_the_bar_and_the_policy_moves_it(mind: Mind) -> None:
    [found] = mind.recall(NEWS).memories
    assert 0.1 < found.relevance <= 1
    assert (found.text, found.subject, found.tier, found.due_for_review) == (NUTS, "orla", "active", False)
    assert (found.highlight, found.explain) == (NUTS, None)
    assert found.strength == pytest.approx(1, abs=0.01)
    bar = Policy(recall=Recall(relevance_above=found.relevance + 1e-6))
    assert mind.keys(NEWS, policy=bar) == []
    everything = Policy(recall=Recall(relevance_above=0))
    assert len(mind.keys(NEWS, policy=everything)) == 5
    assert len(mind.keys(NEWS, policy=everything, limit=2)) == 2
    few = Policy(recall=Recall(relevance_above=0, most=1))
    assert [len(mind.keys(NEWS, policy=few, limit=limit)) for limit in (None, 4)] == [1, 4]


def test_a_question_about_somebody_known_has_a_bar_of_its_own(mind: Mind) -> None:
    question = "Is Orla allergic to walnuts?"
    [found] = mind.recall(question).memories
    usual = Policy(recall=Recall(relevance_above=1.0))
    assert mind.keys(question, policy=usual) == ["nuts"]
    assert mind.keys(NEWS, policy=usual) == []
    higher = Recall(
        relevance_above=1.0, relevance_above_for_questions=found.relevance + 1e-6, best_above_for_questions=1.0
    )
    assert mind.keys(question, policy=Policy(recall=higher)) == []
    lower = Policy(recall=Recall(relevance_above=0.0, relevance_above_for_questions=1.0))
    assert (
        len(mind.keys(question, policy=lower)) == 4
    )  # every candidate of the search: the bar for questions is never the higher one


def test_the_request_sets_the_bar_and_0_always_gives_the_best(mind: Mind) -> None:
    high = Policy(recall=Recall(relevance_above=1.0, most=2))
    assert mind.keys(NEWS, policy=high) == []
    [found] = mind.recall(NEWS).memories
    assert mind.keys(NEWS, policy=high, least=found.relevance - 1e-6) == ["nuts"]
    assert mind.keys(NEWS, least=found.relevance + 1e-6) == []
    assert mind.keys(NEWS, policy=high, least=0.0)[0] == "nuts"
    assert len(mind.keys(NEWS, policy=high, least=0.0)) == 2
    best = mind.recall("ok", least=0.0, limit=20).memories
    assert all(0 < each.relevance < 0.1 for each in best)


def test_explain_shows_the_features_that_relevance_comes_from(mind: Mind) -> None:
    [found] = mind.recall(NEWS, explain=True).memories
    assert found.explain is not None
    assert found.relevance == pytest.approx(found.explain["open"] * found.explain["worth"])
    assert found.explain["conversation"].keys() == gate.WEIGHTS.keys()
    assert found.explain["memory"].keys() == worth.WEIGHTS.keys()
    assert found.explain["conversation"]["name"] == 1
    assert found.explain["memory"]["near"] > 0


@pytest.mark.parametrize("others", [0, 1, 4])
def test_a_question_about_a_person_known_by_name_is_answered(empty: Mind, others: int) -> None:
    more = ["Ben plays the cello", "The bakery closes at five", "Ann has two sisters", "My rent goes up in June"]
    [tea, *_] = empty.service.send(empty.tenant.tenant_id, "Ann likes her tea green", *more[:others])
    empty.service.work()
    assert [each.id for each in empty.recall("what does Ann drink?").memories] == [tea]
    assert empty.recall("what does Zoe drink?").memories == []


def test_equal_memories_come_up_once(mind: Mind) -> None:
    mind.service.send(mind.tenant.tenant_id, NUTS, f" {NUTS.upper()}\n")
    mind.service.work()
    texts = [" ".join(each.text.lower().split()) for each in mind.recall(NEWS, least=0.0, limit=20).memories]
    assert texts.count(NUTS.lower()) == 1
    assert len(texts) == len(set(texts)) > 1


def test_what_the_assistant_said_is_worth_less(empty: Mind) -> None:
    said = {"user": "I can't have prawns, my throat swells", "assistant": "You can't have prawns, your throat swells"}
    for speaker, text in said.items():
        empty.service.send(empty.tenant.tenant_id, {"text": text, "speaker": speaker})
    empty.service.work()
    found = {each.speaker: each for each in empty.recall("We cook prawns tonight", least=0.0, explain=True).memories}
    features = {name: each.explain["memory"] for name, each in found.items() if each.explain}
    assert (features["user"]["user"], features["assistant"]["user"]) == (1, 0)
    assert features["assistant"]["bridge"] == features["user"]["bridge"] / 2 > 0
    assert found["user"].relevance > found["assistant"].relevance


def test_of_a_long_memory_the_matching_part_is_shown(empty: Mind) -> None:
    filler = "Nothing of note happened on that long and quiet day at the lake. " * 12
    text = f"{filler}Orla can't have walnuts. {filler}"
    empty.service.send(empty.tenant.tenant_id, {"text": text, "speaker": "user"})
    empty.service.work()
    brought = empty.recall("May Orla have walnuts?")
    [found] = brought.memories
    assert "walnuts" in found.highlight
    assert len(found.highlight) < 310
    assert found.text == text
    shown = brought.context.splitlines()[2]
    assert shown.endswith("Orla can't have walnuts. …")
    assert " user: Nothing of note" in shown
    assert len(shown) < 750


def test_what_is_due_for_review_comes_before_what_is_as_relevant_and_no_irrelevant_comes_up(mind: Mind) -> None:
    both = "Is Orla allergic to walnuts, does she drink mint tea in the evening?"
    first, second = mind.keys(both)
    age(mind.service, 2, mind.ids[second], mind.ids["car"])
    assert mind.keys(both, policy=Policy(recall=Recall(review_boost=10))) == [second, first]
    assert [each.due_for_review for each in mind.recall(both, policy=Policy()).memories].count(True) == 1
    assert mind.keys(both, policy=Policy(recall=Recall(review_boost=1))) == [first, second]
    reviews.record_review(mind.tenant.tenant_id, mind.ids[second], "passed")
    assert [each.due_for_review for each in mind.recall(both).memories] == [False, False]


def test_what_the_conversation_says_itself_does_not_come_up(mind: Mind) -> None:
    assert mind.keys(f"I know: {NUTS}!", "Is Orla allergic to walnuts?") == []
    assert mind.keys(NUTS, *["ok"] * 9, "Is Orla allergic to walnuts?") == []


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["car"]),
        ({"thread": "today"}, ["car"]),
        ({"thread": "tomorrow"}, []),
        ({"exclude_thread": "today"}, []),
        ({"exclude_thread": "tomorrow"}, ["car"]),
        ({"subject": "orla"}, []),
        ({"tags": ("drinks",)}, []),
    ],
)
def test_filters(mind: Mind, filters: dict[str, Any], expected: list[str]) -> None:
    assert mind.keys("When must the car be at the garage?", **filters) == expected


def test_a_long_thread_that_is_left_out_does_not_keep_the_others_from_coming_up(mind: Mind) -> None:
    """The conversation's own thread is about the same topic."""
    said = {"thread": "own", "speaker": "Orla"}
    own = [{"text": f"I am Orla and allergic to walnuts, I said {n} times", **said} for n in range(210)]
    mind.service.send(mind.tenant.tenant_id, *own)
    mind.service.work()
    policy = Policy(recall=Recall(relevance_above=0.0))  # words that are repeated so often carry little weight
    assert "nuts" in mind.keys("Is Orla allergic to walnuts?", policy=policy, exclude_thread="own")


def test_what_is_said_already_takes_no_place_from_what_is_not(mind: Mind) -> None:
    said = [f"Orla is allergic to walnuts, she said it {n} times" for n in range(50)]
    mind.service.send(mind.tenant.tenant_id, *said)
    mind.service.work()
    assert mind.keys(*said, "Is Orla allergic to walnuts?", least=0.0)[0] == "nuts"


def test_the_context_and_its_ids_are_what_fits_the_budget(mind: Mind) -> None:
    both = "Is Orla allergic to walnuts, does she drink mint tea in the evening?"
    full = mind.recall(both)
    assert f"[{mind.ids['nuts']}] 2026-03-02 {NUTS}" in full.context.splitlines()
    assert set(full.ids) == {mind.ids["nuts"], mind.ids["tea"]}
    less = mind.recall(both, token_budget=full.tokens - 1)
    assert less.tokens < full.tokens
    assert less.ids == full.ids[:1]
    assert [memory.id for memory in less.memories] == full.ids
    nothing = mind.recall(both, token_budget=5)
    assert (nothing.context, nothing.ids, nothing.tokens) == ("", [], 0)


def test_an_empty_tenant_has_nothing_in_mind(empty: Mind) -> None:
    thresholds = {"recall.relevance_above": 0.12}  # nobody of that name is known, so that the usual threshold applies
    assert empty.recall("Is Orla allergic to walnuts?") == RecalledContext([], "", [], 0, thresholds)


def test_words_suffice_where_nothing_is_embedded_and_a_pending_memory_is_none_yet(empty: Mind) -> None:
    empty.hear("nuts", "car", "keys")
    assert empty.keys("Is Orla allergic to walnuts?") == []
    stage_runner.run_index_stage()
    assert empty.keys("Is Orla allergic to walnuts?") == ["nuts"]


def test_words_suffice_where_the_embedder_is_away_and_none_of_them_is_logged(
    mind: Mind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise ProviderFailed(Reason.UNREACHABLE)

    monkeypatch.setattr(StaticEmbedder, "embed_query", away)
    with capture_logs() as noted:
        assert mind.keys("Is Orla allergic to walnuts?") == ["nuts"]
    assert [entry["event"] for entry in noted] == ["query_without_vector"]
    assert "walnuts" not in str(noted)


def test_the_deleted_and_those_of_others_never_come_up(mind: Mind) -> None:
    other = Mind(mind.service, mind.service.tenant())
    assert other.keys("Is Orla allergic to walnuts?") == []
    mind.service.rows("UPDATE memories SET deleted_at = now() WHERE memory_id = %s", mind.ids["nuts"])
    assert mind.keys("Is Orla allergic to walnuts?") == []


@pytest.mark.parametrize("profile", ["mnemex", "cmm", "memory_decay"])
def test_any_model_of_forgetting_may_be_behind_it(service: Service, profile: str) -> None:
    mind = Mind(service, service.tenant(Policy(forgetting=Forgetting(profile=profile))))
    mind.hear(*DIARY)
    service.work()
    assert mind.keys("Is Orla allergic to walnuts?") == ["nuts"]


# --- Few memories ---


@pytest.mark.parametrize("others", [[], ["keys"], ["car", "boat", "piano"]], ids=len)
def test_a_new_tenant_recalls_from_its_first_memory_on(service: Service, others: list[str]) -> None:
    mind = Mind(service, service.tenant())
    mind.hear("tea", *others)
    service.work()
    assert mind.keys("Which tea does Orla drink?") == ["tea"]
    assert mind.keys("hi, how are you today?") == []
    assert mind.keys("Please write a haiku about winter.") == []


def test_a_question_about_oneself_recalls_at_least_the_best_memory(service: Service) -> None:
    mind = Mind(service, service.tenant())
    facts = ["I work as a nurse.", "My car is a blue Fiat.", "The piano is tuned every spring."]
    mind.ids = dict(zip(("job", "car", "piano"), service.send(mind.tenant.tenant_id, *facts), strict=True))
    service.work()
    high = Recall(relevance_above=0.9, relevance_above_for_questions=0.9)
    assert mind.keys("What is my job?", policy=Policy(recall=high)) == ["job"]
    none = high.model_copy(update={"best_above_for_questions": 0.9})
    assert mind.keys("What is my job?", policy=Policy(recall=none)) == []
    assert mind.keys("What is my job?", policy=Policy(recall=high), least=0.9) == []
    assert mind.keys("The piano is fine.", "What is my job?", policy=Policy(recall=high)) == ["job"]
    assert mind.keys("Hello.", "And what is my job?", policy=Policy(recall=high)) == [], "continues another message"
    assert mind.keys("What is the capital of Mongolia?", policy=Policy(recall=high)) == []


def test_a_reworded_question_about_oneself_gets_the_first_result_of_the_search(service: Service) -> None:
    """Store facts of which another one is closer to the question by the features of recall than the answer is."""
    mind = Mind(service, service.tenant())
    facts = {
        "diet": "I'm vegetarian, and I can't eat shellfish because of an allergy.",
        "tea": "My favourite tea is rooibos with honey, no milk.",
        "work": "I work as a landscape architect in Utrecht.",
        "dog": "Our dog Bruno is scared of fireworks.",
        "run": "I usually run on Tuesdays and Thursdays before work.",
        "car": "I drive an old blue Volvo that my father gave me.",
        "phone": "I hate phone calls, please always send me an email instead.",
        "wine": "I get migraines from red wine.",
    }
    mind.ids = dict(zip(facts, service.send(mind.tenant.tenant_id, *facts.values()), strict=True))
    service.work()
    question = "Which hot drink do I like?"
    first = search.search(mind.tenant.tenant_id, SearchRequest(question, reinforce=False))[0]
    assert first.id == mind.ids["tea"]
    relevance = {each.id: each.relevance for each in mind.recall(question, least=0.0, limit=8).memories}
    order = sorted(facts, key=lambda key: -relevance.get(mind.ids[key], 0.0))
    assert order[0] != "tea", "otherwise this test shows nothing"
    lowest, best = relevance[mind.ids["tea"]], relevance[mind.ids[order[0]]]
    between = Recall(relevance_above_for_questions=(lowest + best) / 2, best_above_for_questions=lowest / 2)
    assert set(mind.keys(question, policy=Policy(recall=between))) >= {"tea", order[0]}
    above_all = between.model_copy(update={"relevance_above_for_questions": 0.9, "relevance_above": 0.9})
    assert mind.keys(question, policy=Policy(recall=above_all)) == ["tea"], "the search's order decides"
    explained = mind.recall(question, policy=Policy(recall=between), explain=True)
    passed = {each.id: each.explain["threshold"] for each in explained.memories if each.explain}
    assert passed[mind.ids["tea"]] == {"name": "recall.best_above_for_questions", "above": lowest / 2}
    for_questions = {"name": "recall.relevance_above_for_questions", "above": (lowest + best) / 2}
    assert passed[mind.ids[order[0]]] == for_questions
    assert explained.thresholds == {each["name"]: each["above"] for each in (for_questions, passed[mind.ids["tea"]])}
    unlikely = between.model_copy(update={"best_above_for_questions": lowest * 2})
    assert "tea" not in mind.keys(question, policy=Policy(recall=unlikely))
    before = [Message("Hello!", role="user"), Message("Hello, how can I help?", role="assistant")]
    asked = RecallRequest([*before, Message(question, role="user")])
    found = [each.id for each in recall_memories(mind.tenant.tenant_id, asked, Policy(recall=between)).memories]
    assert found
    assert mind.ids["tea"] not in found, "in a conversation, a memory above the threshold is enough"


def test_a_change_of_topic_costs_no_memory_and_a_reference_uses_what_was_said_before(mind: Mind) -> None:
    def ask(*said: str) -> list[str]:
        before: list[str | Message] = [
            Message(text, role=role) for text, role in zip(said, ["user", "assistant"] * 5, strict=False)
        ]
        found = recall_memories(mind.tenant.tenant_id, RecallRequest(before)).memories
        names = {memory_id: key for key, memory_id in mind.ids.items()}
        return [names[each.id] for each in found]

    car = "Which garage has the car on Monday?"
    assert ask(car, "The one at the corner.", "Where are the spare keys?") == mind.keys("Where are the spare keys?")
    assert ask(car, "The one at the corner.", "Thanks, that's great!") == []
    assert ask("We bake a cake for Orla.", "With walnuts?", "Can she eat it?") == ["nuts"]
    assert mind.keys("Can she eat it?") == []


def test_questions_and_greetings_stay_out_of_a_recall_but_a_request_may_have_them(service: Service) -> None:
    mind = Mind(service, service.tenant())
    texts = ["What should I cook tonight?", "Is the soup ok for my nut allergy?", "hi there!", "I cook without meat."]
    mind.ids = dict(
        zip(("asked", "presupposed", "hi", "fact"), service.send(mind.tenant.tenant_id, *texts), strict=True)
    )
    service.work()
    found = mind.keys("What could I cook this evening?")
    assert found[0] == "fact"
    assert not {"asked", "hi"} & set(found)
    assert "asked" in mind.keys("What could I cook this evening?", least=0.0)
    [greeting] = [
        each
        for each in mind.recall("hi there, my friend", least=0.0, explain=True).memories
        if each.text == "hi there!"
    ]
    assert greeting.explain is not None
    assert greeting.explain["knowledge"] == pytest.approx(QUESTION)


def test_in_another_language_questions_count_as_any_memory(service: Service) -> None:
    mind = Mind(service, service.tenant(Policy(language="german")))
    mind.ids = {"asked": service.send(mind.tenant.tenant_id, "what is in my soup, and is there what I like?")[0]}
    service.work()
    [found] = mind.recall("soup", least=0.0, explain=True).memories
    assert found.explain is not None
    assert found.explain["knowledge"] == 1.0
