"""Find the messages that ask for memories now, and decide whether earlier messages are needed to understand them.

If all messages counted alike, the earlier topics of a conversation would determine the recalled memories, because most
words belong to these topics.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.recall.conversation_features import ConversationFeatures
from app.domain.recall.english import english
from app.domain.recall.request import WindowMessage


def find_focus(turns: Sequence[WindowMessage]) -> Sequence[WindowMessage]:
    """Return what people have said since the assistant's last message; if that is nothing, all messages.

    Args:
        turns: The messages in the window, newest first.
    """
    since = next((place for place, turn in enumerate(turns) if not turn.by_user), len(turns))
    return turns[:since] or turns


def needs_context(focus: Sequence[WindowMessage], form: ConversationFeatures) -> bool:
    """Return true if messages refer to something said before them and may be about the speaker's life.

    Args:
        form: Features of these messages.
    """
    if form.phatic or form.worldly or form.general:
        return False
    return any(english().refers_back.search(turn.said) for turn in focus)


def stands_alone(message: WindowMessage, form: ConversationFeatures) -> bool:
    """Return true if a message asks about its speaker or a person named in the memories, without referring back.

    Args:
        form: Features of the messages of which `message` is the newest.
    """
    return form.asks_about_self and english().refers_back.search(message.said) is None
