"""Features that raise or lower the chance that a memory should be kept, and the reasons shown for it."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from app.domain.data_files import read_table
from app.domain.salience import ScoringEvidence, judge
from app.domain.salience.criteria import Turn
from app.domain.salience.keep_chance import FEATURES, REASONS
from app.domain.salience.keep_features import CONTEXT, LABELS, TEXT
from app.domain.salience.rules import explain_keep_chance, measure_features
from app.domain.tiers.keep_calibration import CHANCES_VERSION
from app.domain.tiers.protection import KEEP_ABOVE

PARALLEL = Path(__file__).with_name("parallel.toml")
CHANCES = {2: "0803576d7e5c9597"}
"""Digest of the chances of the translated statements, by their version."""
HOSTILE = Path(__file__).with_name("hostile.jsonl")
QUESTION = Turn("Which day suits you for the boiler, and who lets the plumber in?", role="assistant")


def chance(text: str, *before: Turn, **known: Any) -> float:
    return judge([ScoringEvidence(text, **{"role": "user", "before": before} | known)])[0].keep_chance


@pytest.mark.parametrize(
    ("kept", "passing"),
    [
        (
            "We moved the surgery to 14 May at St Anne's, so Ines minds the shop that week.",
            "thanks, that's great, have a nice evening",
        ),
        ("I'm allergic to penicillin, only Dr Okafor knows.", "What's the difference between a virus and a bacterium?"),
        ("From now on, send me short answers without emoji.", "good morning"),
    ],
)
def test_what_somebody_should_know_in_a_year_has_a_higher_chance(kept: str, passing: str) -> None:
    assert chance(kept) > chance(passing) + 0.2


def test_an_agreed_plan_of_the_assistant_has_a_higher_chance_than_general_advice() -> None:
    before = Turn("I can't dig after the operation. What do I do with the plot until June?")
    plan = (
        "Agreed. I suggest this plan: from 3 March to 12 April cover the beds with cardboard, on 14 April Winston "
        "brings the beans, and from 2 June you water twice a week for 20 minutes."
    )
    advice = "It often helps to consider various options. You should typically avoid heavy work and ask a professional."
    assert chance(plan, before, role="assistant") > chance(advice, before, role="assistant") + 0.1


def test_the_turn_before_counts() -> None:
    answer = "Tuesday, and Ines has a key."
    remark = Turn("The boiler is old.", role="assistant")
    assert chance(answer, QUESTION) > chance(answer, remark)


def test_an_entity_that_was_named_before_is_less_new() -> None:
    features = measure_features(
        [
            ScoringEvidence("We met Ines in Porto on 3 May.", before=(Turn("Did you meet Ines in Porto on 3 May?"),)),
            ScoringEvidence("We met Ines in Porto on 3 May."),
        ]
    )
    new, shared = (features[:, FEATURES.index(name)] for name in ("new_specifics", "shared_specifics"))
    assert new[0] == 0 < new[1]
    assert shared[1] == 0 < shared[0]


def test_a_chance_depends_on_the_memory_and_two_turns_before_alone() -> None:
    turns = (QUESTION, Turn("The boiler is cold again."), Turn("We painted the hall green."))
    batch = [
        ScoringEvidence("Tuesday, and Ines has a key.", role="user", before=turns[:2]),
        ScoringEvidence(QUESTION.text, role="assistant", before=turns[1:]),
        ScoringEvidence("Tuesday, and Ines has a key.", role="user", before=turns),
        ScoringEvidence("", before=(Turn(""),)),
    ]
    together = [judgement.keep_chance for judgement in judge(batch)]
    assert [judge([one])[0].keep_chance for one in batch] == pytest.approx(together)
    assert together[0] == together[2]
    assert all(0 < each < 1 for each in together)
    assert judge([]) == []


def test_a_chance_is_the_same_whenever_the_memory_is_scored() -> None:
    text = "The second reading of the boiler was 54 degrees."
    assert chance(text, nearest=0.98, rarity=0.1) == chance(text)


def test_orders_and_claims_of_importance_raise_no_chance() -> None:
    hostile = [json.loads(line) for line in HOSTILE.read_text(encoding="utf-8").splitlines()]
    texts, twins = (judge([ScoringEvidence(item[name], role="user") for item in hostile]) for name in ("text", "twin"))
    shifts = [text.keep_chance - twin.keep_chance for text, twin in zip(texts, twins, strict=True)]
    assert fmean(shifts) <= 0.05


def test_three_features_explain_a_chance_the_strongest_first() -> None:
    reasons = explain_keep_chance(ScoringEvidence("thanks, good night", role="user", before=(QUESTION,)))
    assert len({reason.feature for reason in reasons}) == REASONS
    sizes = [abs(reason.points) for reason in reasons]
    assert sizes == sorted(sizes, reverse=True)
    assert any(reason.points < 0 for reason in reasons)


def test_every_weight_belongs_to_a_feature_with_a_label() -> None:
    weights = read_table("app.domain.salience", "keep_weights.toml")["weights"]
    assert weights.keys() <= set(FEATURES)
    assert {*TEXT, *CONTEXT} <= LABELS.keys()
    assert np.isfinite(list(weights.values())).all()


def test_other_chances_have_another_version() -> None:
    statements = tomllib.loads(PARALLEL.read_text(encoding="utf-8"))["statement"]
    rated = judge([ScoringEvidence(text, role="user") for each in statements for text in each.values()])
    rounded = [round(each.keep_chance, 2) for each in rated]
    digest = hashlib.sha256(json.dumps(rounded).encode()).hexdigest()[:16]
    assert {CHANCES_VERSION: digest} == CHANCES, "increment CHANCES_VERSION, so that stored chances are computed again"


@pytest.mark.parametrize("language", ["de", "fr", "es", "it", "pt", "zh", "ja", "ko"])
def test_translated_statements_have_chances_in_the_range_of_english(language: str) -> None:
    statements = tomllib.loads(PARALLEL.read_text(encoding="utf-8"))["statement"]
    chances = [chance(each[language]) for each in statements]
    half = len(chances) // 2
    matters, passing = chances[:half], chances[half:]
    assert sum(each > KEEP_ABOVE for each in matters) >= half - 1
    assert fmean(matters) > fmean(passing) + 0.2
    english = fmean(chance(each["en"]) for each in statements[:half])
    assert fmean(matters) == pytest.approx(english, abs=0.25)


def test_a_name_in_another_script_does_not_change_the_language_of_a_text() -> None:
    features = measure_features(
        [ScoringEvidence("I met Ms 田中 in Tokyo on 3 May."), ScoringEvidence("東京で田中さんに会いました。")]
    )
    assert features[:, FEATURES.index("joined_script")].tolist() == [0, 1]


def test_letters_count_as_words_where_spaces_do_not_separate_them() -> None:
    short, long = (
        measure_features([ScoringEvidence(text)])[0, FEATURES.index("brief")]
        for text in ("谢谢", "我妹妹六月十四日在波尔图结婚我答应了在婚礼上致辞。")
    )
    assert short > 0.9
    assert long < 0.2
