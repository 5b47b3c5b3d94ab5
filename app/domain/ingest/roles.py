"""Roles of speakers in a conversation with an assistant."""

from __future__ import annotations

from typing import Final, Literal, get_args

Role = Literal["user", "assistant", "system", "tool"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
USUAL: Final[tuple[Role | None, ...]] = ("user", "assistant", None)
"""Roles that searches and recalls cover by default; None stands for memories without a role."""


def infer_role(role: Role | None, speaker: str | None) -> Role | None:
    """Return the role of a memory's speaker, or None if it is unknown.

    A memory without a role whose speaker is exactly the name of a role has that role.
    """
    if role is not None:
        return role
    return next((known for known in ROLES if known == speaker), None)


def speaker_name(speaker: str | None) -> str | None:
    """Return the speaker's name, or None if the speaker is missing or only the name of a role.

    The name of a role isn't part of the statement, so role names are neither indexed nor embedded.
    """
    return None if speaker in ROLES else speaker
