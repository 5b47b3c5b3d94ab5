"""Roles of speakers in a conversation with an assistant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

Role = Literal["user", "assistant", "system", "tool"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
USUAL: Final[tuple[Role | None, ...]] = ("user", "assistant", None)
"""Roles that searches and recalls cover by default; None stands for memories without a role."""

MessageRole = Literal["user", "assistant", "system", "tool", "developer", "function", "human", "ai", "bot", "model"]
"""Roles of chat messages, in the names that chat applications use."""
_MEANT: Final[Mapping[str, Role]] = {
    **{role: role for role in ROLES},
    "developer": "system",
    "function": "tool",
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
}


def read_message_role(name: str | None) -> Role | None:
    """Return the role for the name that a chat application uses, or None if the name is missing or unknown."""
    return None if name is None else _MEANT.get(name)


def infer_role(role: Role | None, speaker: str | None) -> Role | None:
    """Return the role of a memory's speaker, or None if it is unknown.

    If a memory has no role and its speaker is exactly the name of a role, it has that role.
    """
    if role is not None:
        return role
    return next((known for known in ROLES if known == speaker), None)


def speaker_name(speaker: str | None) -> str | None:
    """Return the speaker's name, or None if the speaker is missing or only the name of a role.

    The name of a role isn't part of the statement, so role names are neither indexed nor embedded.
    """
    return None if speaker in ROLES else speaker
