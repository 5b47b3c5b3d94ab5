"""`python -m ops.salience`: reading labelled conversations, fitting without what is predicted, and the figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.domain.salience.keep_chance import FEATURES
from ops.recall.readers.choice import choose
from ops.salience import __main__ as command
from ops.salience import examples, figures, fitting
from ops.salience.examples import BETWEEN, NO, YES, Group
from ops.salience.fitting import Fit
from ops.salience.terse_copies import write_tersely

SAID = [
    ("user", "I moved to Porto on 3 May and my doctor is Ines Okafor.", 3),
    ("assistant", "Noted, your doctor is Ines Okafor.", 1),
    ("user", "What is the capital of Peru?", 0),
    ("assistant", "The capital of Peru is Lima.", 0),
]


def group(name: str, dataset: str = "a", *, turned: bool = False) -> Group:
    """Return eight memories whose first feature tells which matter, or the opposite if turned."""
    labels = np.array([YES, NO] * 4, dtype=np.int8)
    sign = -1.0 if turned else 1.0
    features = np.column_stack([sign * labels, np.arange(8.0)])
    return Group(dataset, name, ("user",) * 8, labels, features, features[:, 0])


def chat(folder: Path) -> Path:
    memories = [
        {
            "id": f"m{n}",
            "thread": "t",
            "role": role,
            "time": f"2026-01-05T08:0{n}:00Z",
            "text": text,
            "matters": matters,
        }
        for n, (role, text, matters) in enumerate(SAID)
    ]
    talk = {"persona": "x", "language": "en", "memories": memories, "questions": [], "recalls": []}
    (folder / "one.json").write_text(json.dumps(talk))
    return folder


def test_a_chat_is_labelled_by_its_author_and_read_with_the_turns_before(tmp_path: Path) -> None:
    [(read, copies)] = examples.read_conversations(chat(tmp_path))
    assert (copies.form, copies.labels.tolist()) == ("terse", [YES, BETWEEN, NO, NO])
    assert read.labels.tolist() == [YES, BETWEEN, NO, NO]
    assert read.roles == ("user", "assistant", "user", "assistant")
    assert read.features.shape[0] == read.salience.size == 4


def test_turns_before_are_the_nearest_two_of_the_thread(tmp_path: Path) -> None:
    conversation = next(iter(choose(chat(tmp_path)).read(tmp_path)))
    evidence = examples.list_evidence(conversation.memories)
    assert [[turn.text for turn in each.before] for each in evidence] == [
        [],
        [SAID[0][1]],
        [SAID[1][1], SAID[0][1]],
        [SAID[2][1], SAID[1][1]],
    ]


def test_labelled_texts_are_read_by_half() -> None:
    halves = [examples.read_labelled(half).plain for half in ("dev", "check")]
    assert sum(half.labels.size for half in halves) == len(examples.LABELLED.read_text().splitlines())
    assert all({YES, NO, BETWEEN} == set(half.labels.tolist()) for half in halves)


def test_a_group_is_predicted_by_weights_that_have_not_seen_it() -> None:
    groups = [group("one"), group("two"), group("three", turned=True)]
    seen = fitting.fit_weights(groups[2:]).odds(groups[2].features)
    unseen = fitting.predict_left_out(groups, lambda each: each.name)[2]
    assert figures.area([groups[2]], [seen]).value == 1
    assert figures.area([groups[2]], [unseen]).value == 0


def test_each_dataset_counts_alike_however_large() -> None:
    one, many = group("one", "a"), [group(f"{n}", "b", turned=True) for n in range(9)]
    fit = fitting.fit_weights([one, *many])
    assert fit.weights[0] == pytest.approx(0, abs=1e-6)
    assert fitting.fit_weights(many).weights[0] < -1


def test_chances_have_the_share_of_what_matters_on_average() -> None:
    rare = group("rare")
    rare = rare.select(np.array([True, *[False, True] * 3, True]) | (rare.labels == NO))
    odds = [np.where(rare.labels == YES, 0.2, -0.1) + np.linspace(-1, 1, rare.labels.size)]
    intercept, slope = fitting.calibrate([rare], odds)
    chances = 1 / (1 + np.exp(-(intercept + slope * odds[0])))
    assert chances.mean() == pytest.approx((rare.labels == YES).mean(), abs=1e-4)


def test_areas_intervals_and_reliability() -> None:
    one = group("one")
    scores = [np.array([0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.2, 0.4])]
    value, low, high, positives = figures.area([one], scores)
    assert value == pytest.approx(13.5 / 16)
    assert low < value <= high
    assert positives == 4
    assert np.isnan(figures.area([one], scores, "assistant").value)
    bins = figures.reliability([one], scores)
    assert sum(count for *_, count in bins) == 8
    assert (bins[0][1], bins[-1][1]) == (0, 1)


def test_the_command_shows_figures_and_writes_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "keep_weights.toml"
    monkeypatch.setattr(command, "WEIGHTS", weights)
    monkeypatch.setattr(figures, "DRAWS", 40)
    folder = tmp_path / "chats"
    folder.mkdir()
    assert command.main([str(chat(folder))]) == 0
    assert not weights.exists()
    assert command.main([str(folder), "--write"]) == 0
    assert weights.read_text().startswith("# Written by")
    assert "conversation left out" in capsys.readouterr().out


def test_terse_copies_omit_function_words_and_repeat_themselves() -> None:
    text = "I have moved to Porto, and the doctor is Ines Okafor."
    first, second = (write_tersely(text, np.random.default_rng(3)) for _ in range(2))
    assert first == second
    assert first is not None
    assert not {"i", "have", "to", "and", "the", "is"} & set(first.lower().split())
    assert len(first.split()) == 5
    assert write_tersely("I am", np.random.default_rng(3)) is None
    assert write_tersely("word " * 61, np.random.default_rng(3)) is None


def test_other_languages_get_the_odds_of_english() -> None:
    parallel = examples.read_parallel()
    plain = Fit(-1.0, np.zeros(len(FEATURES)), np.zeros(len(FEATURES)))
    plain.weights[[FEATURES.index(name) for name in ("figures", "figure_rate", "own", "brief")]] = (1, 1, 1, -2)
    fitted = fitting.fit_languages(plain, parallel)
    english = fitted.odds(parallel["en"])
    assert english == pytest.approx(plain.odds(parallel["en"]))
    for name in ("de", "zh", "ko"):
        before, after = (abs(fit.odds(parallel[name]).mean() - english.mean()) for fit in (plain, fitted))
        assert after < before + 0.1
    pooled = [np.mean([fit.odds(parallel[name]).std() for name in parallel if name != "en"]) for fit in (plain, fitted)]
    assert abs(pooled[1] - english.std()) <= abs(pooled[0] - english.std()) + 1e-9
