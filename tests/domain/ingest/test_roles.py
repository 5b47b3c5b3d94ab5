"""Roles of speakers."""

from __future__ import annotations

import pytest

from app.domain.ingest.roles import ROLES, Role, name_of, role_of


@pytest.mark.parametrize("role", ROLES)
def test_a_speaker_that_is_exactly_a_role_counts_as_that_role(role: Role) -> None:
    assert role_of(None, role) == role
    assert name_of(role) is None


@pytest.mark.parametrize("speaker", [None, "Ann", "User", "assistant 2"])
def test_any_other_speaker_has_no_role_and_keeps_the_name(speaker: str | None) -> None:
    assert role_of(None, speaker) is None
    assert name_of(speaker) == speaker


def test_a_given_role_wins_over_the_speaker() -> None:
    assert role_of("assistant", "user") == "assistant"
    assert role_of("tool", "weather") == "tool"
