"""Roles of speakers."""

from __future__ import annotations

import pytest

from app.domain.ingest.roles import ROLES, Role, infer_role, speaker_name


@pytest.mark.parametrize("role", ROLES)
def test_a_speaker_that_is_exactly_a_role_counts_as_that_role(role: Role) -> None:
    assert infer_role(None, role) == role
    assert speaker_name(role) is None


@pytest.mark.parametrize("speaker", [None, "Ann", "User", "assistant 2"])
def test_any_other_speaker_has_no_role_and_keeps_the_name(speaker: str | None) -> None:
    assert infer_role(None, speaker) is None
    assert speaker_name(speaker) == speaker


def test_a_given_role_wins_over_the_speaker() -> None:
    assert infer_role("assistant", "user") == "assistant"
    assert infer_role("tool", "weather") == "tool"
