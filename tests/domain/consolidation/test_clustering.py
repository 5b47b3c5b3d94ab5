"""Grouping of memories, independent of their order and number."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.domain.consolidation import clustering
from app.domain.consolidation.clustering import ComparedMemories, group_memories
from app.domain.consolidation.group_types import Group
from app.domain.consolidation.nearest_neighbours import Nearest
from app.domain.consolidation.parameters import Consolidation
from tests.examples import draw

PLAIN = Consolidation(near_in_time=0, same_thread=0, shared_entities=0)
HOUR = 3600.0


def memories(vectors: NDArray[np.floating], **columns: object) -> ComparedMemories:
    """Return new memories with ids from 1 on, said a day apart."""
    count = len(vectors)
    plain = ComparedMemories(
        [UUID(int=n + 1) for n in range(count)],
        [None] * count,
        [None] * count,
        [()] * count,
        np.arange(count, dtype=np.float64) * 24 * HOUR,
        np.asarray(vectors, np.float32),
        np.ones(count, np.bool_),
    )
    return replace(plain, **columns)  # type: ignore[arg-type]


def angled(*degrees: float) -> NDArray[np.floating]:
    """Return unit vectors in a plane."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def at_cosine(cosine: float) -> NDArray[np.floating]:
    return angled(0, float(np.degrees(np.arccos(cosine))))


def ids(groups: list[Group]) -> list[list[int]]:
    return [[memory_id.int for memory_id in made.ids] for made in groups]


def around(centres: int, count: int, spread: float, seed: int, dimensions: int = 32) -> NDArray[np.floating]:
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(centres, dimensions))
    vectors = middles[rng.integers(0, centres, count)] + spread * rng.normal(size=(count, dimensions))
    unit: NDArray[np.floating] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


@st.composite
def crowds(draw: st.DrawFn) -> ComparedMemories:
    count = draw(st.integers(0, 40))
    vectors = around(
        draw(st.integers(1, 8)), count, draw(st.sampled_from([0.0, 0.2, 0.5])), draw(st.integers(0, 999)), 8
    )
    columns = {
        "subjects": st.sampled_from([None, "anna", "bela"]),
        "threads": st.sampled_from([None, "t", "u"]),
        "entities": st.lists(st.sampled_from("xyz"), max_size=3),
        "said_at": st.floats(0, 5 * HOUR),
        "is_new": st.booleans(),
    }
    drawn: dict[str, Any] = {
        name: draw(st.lists(each, min_size=count, max_size=count)) for name, each in columns.items()
    }
    drawn["said_at"], drawn["is_new"] = np.array(drawn["said_at"], float), np.array(drawn["is_new"], bool)
    return memories(vectors, **drawn)


@draw(20)
@given(crowds(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_groups_share_nobody_cross_no_subject_and_know_no_order(
    crowd: ComparedMemories, neighbours: int, random: object
) -> None:
    rules = Consolidation(neighbours=neighbours)
    found = group_memories(crowd, rules)
    grouped = [memory_id for made in found for memory_id in made.ids]
    assert len(grouped) == len(set(grouped))
    subjects = dict(zip(crowd.ids, crowd.subjects, strict=True))
    new = {memory_id for memory_id, is_new in zip(crowd.ids, crowd.is_new, strict=True) if is_new}
    for made in found:
        assert made.ids == sorted(made.ids)
        assert len(made.ids) > 1
        assert len({subjects[memory_id] for memory_id in made.ids}) == 1
        assert new & set(made.ids)
        assert -1 <= made.cohesion <= 1
    order = list(range(len(crowd.ids)))
    random.shuffle(order)  # type: ignore[attr-defined]
    lists: dict[str, Any] = {
        name: [getattr(crowd, name)[n] for n in order] for name in ("ids", "subjects", "threads", "entities")
    }
    arrays: dict[str, Any] = {name: getattr(crowd, name)[order] for name in ("said_at", "vectors", "is_new")}
    assert group_memories(ComparedMemories(**lists, **arrays), rules) == found


@pytest.mark.parametrize(
    ("columns", "cosine_above"),
    [
        ({}, 0.7),
        ({"said_at": np.array([0, HOUR / 2])}, 0.65),
        ({"said_at": np.array([0, HOUR])}, 0.7),
        ({"threads": ["t", "t"]}, 0.65),
        ({"threads": ["t", "u"]}, 0.7),
        ({"entities": [["x", "y", "z"], ["x", "y"]]}, 0.65),
        ({"entities": [["x", "y"], ["y", "z"]]}, 0.7),  # exactly a half isn't above a half
        ({"said_at": np.zeros(2), "threads": ["t", "t"], "entities": [["x"], ["x"]]}, 0.5),
    ],
)
def test_moment_thread_and_entities_make_memories_nearer(columns: dict[str, object], cosine_above: float) -> None:
    assert ids(group_memories(memories(at_cosine(cosine_above + 0.005), **columns), Consolidation())) == [[1, 2]]
    assert group_memories(memories(at_cosine(cosine_above - 0.005), **columns), Consolidation()) == []


def test_cohesion_is_the_mean_cosine_whatever_made_them_nearer() -> None:
    crowd = memories(angled(0, 10, 20), said_at=np.zeros(3), threads=["t"] * 3)
    [made] = group_memories(crowd, Consolidation())
    cosines = [float(one @ other) for one, other in combinations(angled(0, 10, 20), 2)]
    assert made.cohesion == pytest.approx(np.mean(cosines), abs=1e-6)


@pytest.mark.parametrize("method", ["linkage", "hdbscan"])
def test_a_chain_of_near_pairs_is_not_one_group(method: str) -> None:
    chain = memories(angled(*range(0, 180, 15)))  # 15 degrees are near, 180 are opposite
    found = group_memories(chain, replace(PLAIN, method=method))  # type: ignore[arg-type]
    assert all(made.cohesion > 0.7 for made in found)
    assert method == "hdbscan" or len(found) > 1


def test_no_subject_is_a_group_of_its_own_and_the_same_vector_elsewhere_is_not_near() -> None:
    crowd = memories(angled(0, 0, 0, 0, 0), subjects=[None, "anna", None, "anna", "bela"])
    assert ids(group_memories(crowd, PLAIN)) == [[1, 3], [2, 4]]


def test_what_is_old_comes_only_beside_what_is_new() -> None:
    crowd = memories(angled(0, 1, 90, 91), is_new=np.array([True, False, False, False]))
    assert ids(group_memories(crowd, PLAIN)) == [[1, 2]]


def test_taken_apart_beforehand_gives_nearly_what_linkage_of_all_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = memories(around(40, 600, 0.55, seed=3))
    rules = replace(PLAIN, distance_below=0.4)
    whole = group_memories(crowd, rules)
    monkeypatch.setattr(clustering, "LINKED_MAX", 100)
    apart = group_memories(crowd, rules)
    pairs = [{pair for made in found for pair in combinations(made.ids, 2)} for found in (whole, apart)]
    assert len(pairs[0]) > 500
    assert len(pairs[0] & pairs[1]) / len(pairs[0] | pairs[1]) > 0.9


def test_very_many_alike_come_in_groups_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "LINKED_MAX", 20)
    found = group_memories(memories(np.repeat(angled(0), 50, axis=0)), PLAIN)
    assert ids(found) == [[*range(1, 21)], [*range(21, 41)], [*range(41, 51)]]


def test_hdbscan_finds_what_is_dense_and_is_not_asked_about_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = memories(around(6, 60, 0.1, seed=5))
    rules = replace(PLAIN, method="hdbscan")
    linked = [set(made.ids) for made in group_memories(crowd, PLAIN)]
    dense = group_memories(crowd, rules)
    assert len(dense) >= len(linked) == 6
    assert all(any(whole.issuperset(made.ids) for whole in linked) for made in dense)
    monkeypatch.setattr(clustering, "HDBSCAN_MAX", 59)
    assert clustering.applied_method(rules, 60) == "linkage"
    assert group_memories(crowd, rules) == group_memories(crowd, PLAIN)


@given(st.integers(0, 999), st.integers(1, 7), st.integers(1, 30))
def test_the_nearest_are_those_of_one_comparison_whatever_the_pieces(seed: int, most: int, size: int) -> None:
    vectors, there = around(3, 5, 0.5, seed, 8).astype(np.float32), around(3, 60, 0.5, seed + 1, 8).astype(np.float32)
    names = np.array([bytes([n + 1]) * 16 for n in range(60)], "S16")
    nearest = Nearest(vectors, most, 0.5)
    for start in range(0, 60, size):
        nearest.compare(np.arange(5), names[start : start + size], there[start : start + size])
    cosines = there @ vectors.T
    wanted = {
        names[place]
        for row in range(5)
        for place in np.argsort(-cosines[:, row], kind="stable")[:most]
        if cosines[place, row] > 0.5
    }
    assert set(nearest.matched_ids()) == wanted
