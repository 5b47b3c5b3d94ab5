"""Score a memory's salience by rules: from its words, its form and its novelty.

`judge` returns the four criteria of seed 004 §1.3 without a model; source `heuristic`. Statements in a text about its
own importance, and instructions to the scorer, never raise the score.
"""

from app.domain.salience.criteria import Criteria, Judgement, ScoringEvidence, salience
from app.domain.salience.rules import judge

__all__ = ["Criteria", "Judgement", "ScoringEvidence", "judge", "salience"]
