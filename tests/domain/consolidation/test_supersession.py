"""Which memories may supersede which: never across subjects, and never themselves through a cycle."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.domain.consolidation.supersession import SupersessionEnd, SupersessionPair, judge_pairs

FIRST = datetime(2026, 3, 7, tzinfo=UTC)
IDS = [UUID(int=number) for number in range(1, 8)]
ENDS = {memory_id: SupersessionEnd(memory_id, None, FIRST + timedelta(days=day)) for day, memory_id in enumerate(IDS)}


def test_whatever_is_said_nothing_supersedes_itself() -> None:
    for seed in range(50):
        check_for_cycles(seed)


def check_for_cycles(seed: int) -> None:
    chance = random.Random(seed)
    pairs = [SupersessionPair(*chance.choices(IDS, k=2)) for _ in range(30)]
    known, new = pairs[:3], pairs[3:]
    above = {each.pair for each in judge_pairs(known, ENDS, ()) if each.reason is None}
    judged = judge_pairs(new, ENDS, above)
    assert [each.pair for each in judged] == [pair for pair in dict.fromkeys(new) if len(set(pair)) == 2], seed
    held = above | {each.pair for each in judged if each.reason is None}
    left = set(IDS)
    while free := {
        one for one in left if not any(pair.superseded_id == one and pair.memory_id in left for pair in held)
    }:
        left -= free
    assert left == set(), f"the relations of seed {seed} contain a cycle"
    assert {each.reason for each in judged} <= {None, "cycle"}, seed


def test_the_older_one_is_current_until_both_are_there() -> None:
    [forth] = judge_pairs([SupersessionPair(IDS[3], IDS[1])], ENDS, ())
    [back] = judge_pairs([SupersessionPair(IDS[1], IDS[3])], ENDS, ())
    assert forth.since == back.since == ENDS[IDS[3]].created_at


@pytest.mark.parametrize(
    ("one", "other", "reason"), [("ann", "ann", None), ("ann", "bo", "subject"), ("ann", None, "subject")]
)
def test_both_are_about_the_same(one: str, other: str | None, reason: str | None) -> None:
    ends = {IDS[0]: SupersessionEnd(IDS[0], one, FIRST), IDS[1]: SupersessionEnd(IDS[1], other, FIRST)}
    [judged] = judge_pairs([SupersessionPair(IDS[0], IDS[1])], ends, ())
    assert judged.reason == reason
