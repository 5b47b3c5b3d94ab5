"""`python -m ops.simulation`: how salience and keep chance rank the statements of a hard year."""

from __future__ import annotations

import numpy as np
import pytest

from app.domain.salience.criteria import ScoringEvidence, Turn
from app.domain.salience.rules import judge
from app.domain.simulation.year import SimulatedFact, SimulatedStatement, Year
from ops.simulation import __main__ as command

SAID = (
    SimulatedStatement(1.2, "Ann", "Any limits?", role="assistant"),
    SimulatedStatement(1.2, "Ann", "The gasket row is 14, I need it on Monday", 0, "user"),
    SimulatedStatement(1.5, "Bo", "hola", role="user", language="es"),
    SimulatedStatement(1.6, "Ann", "ok", role="user"),
    SimulatedStatement(2.1, "Ann", "ok", role="user"),
)
YEAR = Year(0, 28, SAID, (SimulatedFact("constraint", "Ann", (1,), ("Which row?",), np.inf),), ())


def test_each_distinct_statement_is_judged_once_with_the_turns_before_it_on_its_day() -> None:
    judged = command.judge_year(YEAR)
    assert [each.statement for each in judged] == list(SAID[:4])
    assert [each.area for each in judged] == [None, "constraint", None, None]
    before = (Turn(SAID[0].text, None, "assistant"),)
    [expected] = judge([ScoringEvidence(SAID[1].text, "Ann", role="user", before=before)])
    assert (judged[1].salience, judged[1].keep_chance) == (expected.salience, expected.keep_chance)
    [alone] = judge([ScoringEvidence(SAID[1].text, "Ann", role="user")])
    assert expected.keep_chance != alone.keep_chance


def test_groups_are_all_the_roles_and_the_languages() -> None:
    groups = dict(command.list_groups(command.judge_year(YEAR)))
    assert {name: len(group) for name, group in groups.items()} == {
        "all": 4,
        "user": 3,
        "assistant": 1,
        "en": 3,
        "es": 1,
    }
    high, low = command.split_scores(groups["en"], "keep_chance")
    assert (high.size, low.size) == (1, 2)


def test_the_share_that_a_threshold_for_what_matters_lets_through() -> None:
    high, low = np.arange(20.0), np.array([0.0, 0.5, 1.0, 7.0])
    assert command.share_kept_with(high, low, 0.95) == 0.5, "the threshold is 1"
    assert command.share_kept_with(high, low, 1) == 1


def test_the_figures_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "1", "--memories", "100"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("area under the ROC curve") == 2
    assert "10 matter" in shown
    assert "shares above a threshold" in shown
