"""Group memories by similarity of meaning, with small bonuses for shared time, thread and entities (seed 004 §3.2).

A graph connects each new memory with its nearest neighbours, if they are near enough. The graph's connected components
are split by average linkage, so that a chain of near pairs doesn't become one group. Memories of different subjects are
never compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.domain.consolidation.group_types import Group
from app.domain.consolidation.parameters import Consolidation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LINKED_MAX: Final = 1000
"""Maximum size of a component for average linkage, whose time and memory use grow quadratically."""
FALLING: Final = (0.25, 0.2, 0.15, 0.12, 0.1, 0.07, 0.05)
"""Distance limits tried in turn to split components that are larger than `LINKED_MAX`."""
HDBSCAN_MAX: Final = 5000
"""Maximum number of memories for HDBSCAN, which takes half a minute for twice as many."""
_BLOCK_CELLS: Final = 2_000_000
"""Number of distances calculated at a time."""
_HOUR_SECONDS: Final = 3600.0

Places = NDArray[np.intp]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ComparedMemories:
    """Memories to compare, in any order; every sequence and array has n entries.

    Attributes:
        ids: Unique ids.
        subjects: Subject of each memory; memories without one are only compared with each other.
        threads: Conversation of each memory, if any.
        entities: Entities that each memory names.
        said_at: Seconds since 1970, shape (n,).
        vectors: Vectors of one embedding space, each with norm 1 or 0, shape (n, dimensions).
        is_new: True to search for this memory's neighbours; other memories are only candidates. Shape (n,).
    """

    ids: Sequence[UUID]
    subjects: Sequence[str | None]
    threads: Sequence[str | None]
    entities: Sequence[Sequence[str]]
    said_at: NDArray[np.float64]
    vectors: Floats
    is_new: NDArray[np.bool_]


def applied_method(rules: Consolidation, memories: int) -> Literal["linkage", "hdbscan"]:
    """Return the configured method, or linkage if there are too many memories for HDBSCAN."""
    return rules.method if memories <= HDBSCAN_MAX else "linkage"


def cosine_above(rules: Consolidation) -> float:
    """Return the cosine that a pair must exceed even if it gets every bonus."""
    return 1 - rules.distance_below - rules.near_in_time - rules.same_thread - rules.shared_entities


def group_memories(memories: ComparedMemories, rules: Consolidation) -> list[Group]:
    """Return disjoint groups of two or more memories, each with at least one new memory, ordered by first id.

    The result doesn't depend on the order of the memories.
    """
    order = np.array(sorted(range(len(memories.ids)), key=memories.ids.__getitem__), np.intp)
    method = applied_method(rules, len(memories.ids))
    groups = []
    for places in _by_label([memories.subjects[place] for place in order]):
        if len(places) > 1:
            part = _build_part(memories, order[places])
            groups += [
                _build_group(part, members) for members in _groups(part, rules, method) if part.is_new[members].any()
            ]
    return sorted(groups, key=lambda group: group.ids[0])


class _Part(NamedTuple):
    """Memories of one subject in id order.

    Attributes:
        threads: A number per thread; a memory without a thread has a unique negative number.
        named: Memory-by-entity matrix; None if no entity is shared.
        names: Number of entities that each memory names.
    """

    ids: list[UUID]
    hours: NDArray[np.float64]
    threads: NDArray[np.int64]
    named: csr_array[Any] | None
    names: Floats
    vectors: Floats
    is_new: NDArray[np.bool_]


class _Edges(NamedTuple):
    """Pairs of memories, by index, that are near enough, with their distances; shape (n,) each."""

    one: Places
    other: Places
    distance: Floats

    def only(self, which: NDArray[np.bool_]) -> _Edges:
        return _Edges(self.one[which], self.other[which], self.distance[which])


def _build_part(memories: ComparedMemories, places: Places) -> _Part:
    numbers: dict[str, int] = {}
    threads = [
        -1 - n if (thread := memories.threads[place]) is None else numbers.setdefault(thread, len(numbers))
        for n, place in enumerate(places)
    ]
    entities = [set(memories.entities[place]) for place in places]
    return _Part(
        [memories.ids[place] for place in places],
        memories.said_at[places] / _HOUR_SECONDS,
        np.array(threads, np.int64),
        _incidence(entities),
        np.array([len(each) for each in entities], np.float32),
        np.ascontiguousarray(memories.vectors[places], np.float32),
        memories.is_new[places],
    )


def _incidence(entities: Sequence[set[str]]) -> csr_array[Any] | None:
    """Return the memory-by-entity matrix of shared entities, or None if no entity is shared."""
    counts = Counter(chain.from_iterable(entities))
    numbers = {name: n for n, name in enumerate(sorted(name for name, count in counts.items() if count > 1))}
    if not numbers:
        return None
    from scipy.sparse import csr_array  # noqa: PLC0415 - large, and used only by consolidation

    columns = [[numbers[name] for name in each if name in numbers] for each in entities]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in columns])])
    flat = np.fromiter(chain.from_iterable(columns), np.int64)
    return csr_array((np.ones(len(flat), np.float32), flat, starts), shape=(len(entities), len(numbers)))


def _distances(part: _Part, rows: Places, columns: Places | slice, rules: Consolidation) -> Floats:
    """Return distances, 0 or more: 1 - cosine, minus the bonuses for time, thread and entities."""
    distances: Floats = part.vectors[rows] @ part.vectors[columns].T
    np.subtract(1, distances, out=distances)
    if rules.near_in_time:
        apart = np.abs(part.hours[rows, None] - part.hours[None, columns])
        distances -= rules.near_in_time * np.maximum(1 - apart / rules.near_in_time_hours, 0).astype(np.float32)
    if rules.same_thread:
        distances -= np.float32(rules.same_thread) * (part.threads[rows, None] == part.threads[None, columns])
    if rules.shared_entities and part.named is not None:
        shared = (part.named[rows] @ part.named[columns].T).toarray()
        fewer = np.minimum(part.names[rows, None], part.names[None, columns])
        distances -= np.float32(rules.shared_entities) * (shared > rules.shared_entities_above * fewer)
    return np.maximum(distances, 0, out=distances)


def _groups(part: _Part, rules: Consolidation, method: Literal["linkage", "hdbscan"]) -> Iterator[Places]:
    """Yield the indices of each group's members."""
    edges = _edges(part, rules)
    levels = [rules.distance_below, *(level for level in FALLING if level < rules.distance_below)]
    if method == "hdbscan":
        for members in _components(len(part.ids), edges):
            yield from _dense(part, members, rules)
    else:
        for members in _pieces(len(part.ids), edges, levels):
            yield from _linked(part, members, rules)


def _edges(part: _Part, rules: Consolidation) -> _Edges:
    """Return the edges from each new memory to its nearest neighbours; ties for the last place are included."""
    new_rows = np.flatnonzero(part.is_new)
    size, most = max(_BLOCK_CELLS // len(part.ids), 1), rules.neighbours
    below = np.float32(rules.distance_below)
    blocks = [_Edges(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32))]
    for start in range(0, len(new_rows), size):
        rows = new_rows[start : start + size]
        distances = _distances(part, rows, slice(None), rules)
        distances[np.arange(len(rows)), rows] = np.inf
        near = distances < below
        for row in np.flatnonzero(near.sum(axis=1) > most):
            near[row] &= distances[row] <= np.partition(distances[row], most - 1)[most - 1]
        one, other = np.nonzero(near)
        blocks.append(_Edges(rows[one], other, distances[one, other]))
    return _Edges(*(np.concatenate(column) for column in zip(*blocks, strict=True)))


def _components(count: int, edges: _Edges) -> Iterator[Places]:
    """Yield the connected components of two or more memories, in ascending order."""
    if not len(edges.one):
        return
    from scipy.sparse import coo_array  # noqa: PLC0415 - as above
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    graph = coo_array((np.ones(len(edges.one), np.int8), (edges.one, edges.other)), shape=(count, count))
    _, labels = connected_components(graph.tocsr(), directed=False)
    connected = np.union1d(edges.one, edges.other)
    order = connected[np.argsort(labels[connected], kind="stable")]
    yield from np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _pieces(count: int, edges: _Edges, levels: Sequence[float]) -> Iterator[Places]:
    """Yield components, splitting large ones at ever smaller distances, and finally by age (runs of ascending ids)."""
    level, *further = levels
    edges = edges.only(edges.distance < np.float32(level))
    for members in _components(count, edges):
        if len(members) <= LINKED_MAX:
            yield members
        elif further:
            yield from _pieces(count, edges.only(np.isin(edges.one, members)), further)
        else:
            yield from (members[start : start + LINKED_MAX] for start in range(0, len(members), LINKED_MAX))


def _linked(part: _Part, members: Places, rules: Consolidation) -> Iterator[Places]:
    """Yield clusters by average linkage, merged while the mean distance between them is below the limit."""
    if len(members) <= 2:
        yield from [members] if len(members) > 1 else []
        return
    from scipy.cluster.hierarchy import fcluster, linkage  # noqa: PLC0415 - as above
    from scipy.spatial.distance import squareform  # noqa: PLC0415

    condensed = squareform(_distances(part, members, members, rules).astype(np.float64), checks=False)
    below = np.nextafter(rules.distance_below, 0)
    labels = fcluster(linkage(condensed, "average"), below, criterion="distance")
    yield from (members[places] for places in _by_label(labels.tolist()) if len(places) > 1)


def _dense(part: _Part, members: Places, rules: Consolidation) -> Iterator[Places]:
    """Yield clusters by HDBSCAN, each split by average linkage, because HDBSCAN doesn't split chains.

    Three or fewer memories are clustered by average linkage alone.
    """
    if len(members) <= 3:
        yield from _linked(part, members, rules)
        return
    from sklearn.cluster import HDBSCAN  # noqa: PLC0415 - as above

    distances = _distances(part, members, members, rules).astype(np.float64)
    distances = np.maximum(distances, distances.T)  # rounding may make the last bits differ
    np.fill_diagonal(distances, 0)
    model = HDBSCAN(min_cluster_size=2, metric="precomputed", allow_single_cluster=True, copy=False)
    labels = model.fit_predict(distances)
    for places in _by_label(labels.tolist()):
        if labels[places[0]] >= 0:
            yield from _linked(part, members[places], rules)


def _by_label(labels: Sequence[str | int | None]) -> list[Places]:
    """Return the indices of each label, ordered by first occurrence."""
    places_by_label: dict[str | int | None, list[int]] = {}
    for place, label in enumerate(labels):
        places_by_label.setdefault(label, []).append(place)
    return [np.array(places, np.intp) for places in places_by_label.values()]


def _build_group(part: _Part, members: Places) -> Group:
    vectors = part.vectors[members].astype(np.float64)
    count = len(members)
    squares = float(np.square(vectors).sum())
    cosine = (float(np.square(vectors.sum(axis=0)).sum()) - squares) / (count * (count - 1))
    return Group([part.ids[place] for place in members], min(max(cosine, -1.0), 1.0))
