"""Determine the minimum relevance of the memories that a recall returns."""

from __future__ import annotations

from app.domain.recall.conversation_features import ConversationFeatures
from app.domain.recall.parameters import Recall


def relevance_threshold(
    least: float | None, rules: Recall, form: ConversationFeatures, *, has_single_message: bool
) -> float:
    """Return the relevance, 0 to 1, that a memory must exceed; some questions have a lower threshold.

    In a conversation of several messages the lower threshold applies to questions about a person by name. For a single
    message it also applies to questions about the user that don't ask for world knowledge.

    Args:
        least: Threshold set by the request, which replaces the thresholds of the policy.
    """
    if least is not None:
        return least
    if form.asks_about_person or (has_single_message and form.asks_about_self and not form.worldly):
        return min(rules.relevance_above, rules.relevance_above_for_questions)
    return rules.relevance_above
