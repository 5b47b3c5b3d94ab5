"""Rule-based salience: how much a memory matters, judged by its words, its form and what was said before.

`judge` gives the four criteria of seed 004 §1.3 without any model; source `heuristic`. A text's claims about its own
importance, and its orders to whoever scores it, raise nothing.
"""

from app.domain.salience.criteria import Criteria, Evidence, Judgement, salience
from app.domain.salience.judging import judge

__all__ = ["Criteria", "Evidence", "Judgement", "judge", "salience"]
