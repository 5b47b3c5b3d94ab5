"""Values that each profile derives from content: the tables of seeds 000, 002 and 003."""

from __future__ import annotations

import pytest

from app.domain.ingest.memory import Kind
from app.domain.policy.policy import Forgetting
from app.domain.strength.profile_hints import RatedContent, SuggestedValues, content_rule

DECISION = "We decided to sell the house."


def suggested(memory: RatedContent, profile: str, **switches: bool) -> SuggestedValues:
    found = content_rule(Forgetting(profile=profile, **switches))
    assert found is not None
    return found(memory)


@pytest.mark.parametrize(
    "forgetting", [Forgetting(), Forgetting(profile="mnemex"), Forgetting(profile="a plugin", by_content=True)]
)
def test_by_default_content_changes_nothing_nor_ever_under_a_profile_without_such_a_rule(
    forgetting: Forgetting,
) -> None:
    assert content_rule(forgetting) is None


@pytest.mark.parametrize(
    ("text", "multiplier"),
    [("The password is x.", 2.0), (DECISION, 1.5), ("I prefer tea.", 1.3), ("It rained.", 1.0)],
)
def test_mnemex_weighs_by_topic(text: str, multiplier: float) -> None:
    assert suggested(RatedContent(text, ["credentials"]), "mnemex", by_content=True) == SuggestedValues(
        multiplier=multiplier
    )


@pytest.mark.parametrize(
    ("categories", "pace"),
    [(["credentials"], 0.5), (["work", "ephemeral"], 2.0), (["ephemeral", "credentials"], 1.0), ([], 1.0)],
)
def test_mnemex_paces_by_category(categories: list[str], pace: float) -> None:
    assert suggested(RatedContent(DECISION, categories), "mnemex", by_category=True) == SuggestedValues(pace=pace)


def test_mnemex_does_both_where_both_are_asked_for() -> None:
    found = suggested(RatedContent(DECISION, ["ephemeral"]), "mnemex", by_content=True, by_category=True)
    assert found == SuggestedValues(multiplier=1.5, pace=2.0)


@pytest.mark.parametrize(
    ("text", "nearest", "salience"),
    [
        ("Actually, it was Tuesday.", 0.9, 1.0),
        ("Always lock the door.", 0.9, 1.0),
        ("The bus is red.", 0.2, 0.75),
        ("The bus is red.", 0.9, 0.5),
        ("The bus is red.", None, 0.5),
        ("thanks", 0.2, 0.25),
    ],
)
def test_cmm_takes_half_of_the_class_for_salience(text: str, nearest: float | None, salience: float) -> None:
    assert suggested(RatedContent(text, nearest=nearest), "cmm") == SuggestedValues(salience=salience)


@pytest.mark.parametrize(
    ("categories", "kind", "salience"),
    [
        (["preference"], "semantic", 0.9),
        (["decision"], "semantic", 0.85),
        (["fact"], "semantic", 0.8),
        (["episode"], "episodic", 0.45),
        (["episode", "decision"], "semantic", 0.85),
        (["work"], None, None),
        ([], None, None),
    ],
)
def test_memory_decay_goes_by_category(categories: list[str], kind: Kind | None, salience: float | None) -> None:
    assert suggested(RatedContent("x", categories), "memory_decay") == SuggestedValues(kind=kind, salience=salience)
