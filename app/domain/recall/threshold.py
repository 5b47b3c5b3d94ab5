"""Determine the minimum relevance of the memories that a recall returns."""

from __future__ import annotations

from typing import Final, NamedTuple

from app.domain.recall.conversation_features import ConversationFeatures
from app.domain.recall.parameters import Recall

SHARE_OF_BEST: Final = 0.45
"""Least share of the best memory's relevance that the other memories must have."""
RISE: Final = 3.75
"""Ratio of the required share to the policy's threshold, unless the share reaches `SHARE_OF_BEST`.

Below a threshold of 0.12 the share shrinks in proportion, so that a threshold of 0 admits all memories.
"""
USUAL: Final = "recall.relevance_above"
"""Name of the threshold for messages that aren't questions about a person.

Only this threshold is raised if the best memory is very relevant.
"""


class Threshold(NamedTuple):
    """A relevance that a memory must exceed.

    Attributes:
        name: `least` if the request sets it, otherwise the field of the policy.
        above: The relevance, 0 to 1.
    """

    name: str
    above: float


def relevance_threshold(
    least: float | None, rules: Recall, form: ConversationFeatures, *, has_single_message: bool
) -> Threshold:
    """Return the relevance that a memory must exceed; some questions have a lower threshold.

    If relevance is computed from several messages, the lower threshold applies only if the question names a person. For
    a single message it also applies to questions about the user that don't ask for world knowledge.

    Args:
        has_single_message: True if relevance is computed from one message.
        least: Threshold set by the request, which replaces the thresholds of the policy.
    """
    if least is not None:
        return Threshold("least", least)
    if form.asks_about_person or _asks_about_user(form, has_single_message=has_single_message):
        for_questions = rules.relevance_above_for_questions
        if for_questions < rules.relevance_above:
            return Threshold("recall.relevance_above_for_questions", for_questions)
    return Threshold(USUAL, rules.relevance_above)


def best_threshold(
    least: float | None, rules: Recall, form: ConversationFeatures, *, has_single_message: bool
) -> Threshold | None:
    """Return the lower threshold of the search's first result, or None if it has none.

    The first result is recalled although it is below the usual threshold, if its relevance exceeds this one.
    A question about the user usually has an answer among the memories, which is usually the first result.
    """
    if least is None and not form.asks_about_person and _asks_about_user(form, has_single_message=has_single_message):
        return Threshold("recall.best_above_for_questions", rules.best_above_for_questions)
    return None


def raise_threshold(threshold: float, best: float) -> float:
    """Return the usual threshold, raised if the best memory is so relevant that the others hardly add to it.

    Args:
        best: Relevance of the best memory, 0 to 1.
    """
    return max(threshold, min(SHARE_OF_BEST, RISE * threshold) * best)


def _asks_about_user(form: ConversationFeatures, *, has_single_message: bool) -> bool:
    return has_single_message and form.asks_about_self and not form.worldly
