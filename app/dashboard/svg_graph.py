"""Draw the lineage graph of a memory as SVG: linked boxes in columns, from sources to results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from markupsafe import Markup

_WIDE, _TALL, _GAP_X, _GAP_Y, _EDGE = 168, 44, 56, 12, 4
ROWS_MAX: Final = 8
"""Maximum boxes in a column; the list next to the graph has all."""


@dataclass(frozen=True, slots=True)
class Box:
    """Memory in the graph: page address, two lines of text, and column (0 is the current memory's column)."""

    memory_id: UUID
    place: str
    first: str
    second: str
    column: int


@dataclass(frozen=True, slots=True)
class Edge:
    """Arrow between two boxes; loose ones are drawn dashed."""

    from_id: UUID
    to_id: UUID
    label: str
    is_loose: bool = False


def assign_columns(here: UUID, edges: Sequence[tuple[UUID, UUID]]) -> dict[UUID, int]:
    """Assign a column to each memory, so that every edge points to the right."""
    found, waiting = {here: 0}, [here]
    while waiting:
        one = waiting.pop(0)
        for source, target in edges:
            if source == one and target not in found:
                found[target] = found[one] + 1
                waiting.append(target)
            elif target == one and source not in found:
                found[source] = found[one] - 1
                waiting.append(source)
    return found


def draw_graph(here: UUID, boxes: Sequence[Box], edges: Sequence[Edge]) -> Markup:
    """Draw the graph. It is hidden from screen readers and the keyboard, because a list has the same links."""
    stacks: dict[int, list[Box]] = defaultdict(list)
    for box in sorted(boxes, key=lambda box: box.memory_id != here):
        if len(stacks[box.column]) < ROWS_MAX:
            stacks[box.column].append(box)
    first = min(stacks)
    tallest = max(map(len, stacks.values()))
    height = tallest * (_TALL + _GAP_Y) - _GAP_Y + 2 * _EDGE
    width = len(stacks) * (_WIDE + _GAP_X) - _GAP_X + 2 * _EDGE
    at: dict[UUID, tuple[float, float]] = {}
    for column, stack in stacks.items():
        top = (height - len(stack) * (_TALL + _GAP_Y) + _GAP_Y) / 2
        for row, box in enumerate(stack):
            at[box.memory_id] = (_EDGE + (column - first) * (_WIDE + _GAP_X), top + row * (_TALL + _GAP_Y))
    made = [_edge(edge, at) for edge in edges if edge.from_id in at and edge.to_id in at]
    made += [_box(box, at[box.memory_id], is_here=box.memory_id == here) for stack in stacks.values() for box in stack]
    return Markup('<svg class="graph" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true">{}</svg>').format(
        width, round(height), width, round(height), Markup("").join(made)
    )


def _edge(edge: Edge, at: Mapping[UUID, tuple[float, float]]) -> Markup:
    (x1, y1), (x2, y2) = at[edge.from_id], at[edge.to_id]
    (begin, end) = (x1 + _WIDE, x2) if x2 > x1 else (x1, x2 + _WIDE) if x2 < x1 else (x1 + _WIDE / 2, x2 + _WIDE / 2)
    return Markup('<path class="edge{}" fill="none" d="M{:.0f} {:.0f} L{:.0f} {:.0f}"><title>{}</title></path>').format(
        " loose" if edge.is_loose else "", begin, y1 + _TALL / 2, end, y2 + _TALL / 2, edge.label
    )


def _box(box: Box, corner: tuple[float, float], *, is_here: bool) -> Markup:
    x, y = corner
    drawn = Markup(
        '<rect class="node{}" x="{:.0f}" y="{:.0f}" width="{}" height="{}" rx="6"/>'
        '<text class="said{}" x="{:.0f}" y="{:.0f}">{}</text><text class="said small{}" x="{:.0f}" y="{:.0f}">{}</text>'
    ).format(
        *(" here" if is_here else "", x, y, _WIDE, _TALL),
        *(" on" if is_here else "", x + 8, y + 18, box.first),
        *(" on" if is_here else "", x + 8, y + 34, box.second),
    )
    return drawn if is_here else Markup('<a href="{}" tabindex="-1">{}</a>').format(box.place, drawn)


def draw_meter(share: float) -> Markup:
    """Draw a bar for a share from 0 to 1."""
    return Markup(
        '<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="back" width="100" height="8"/><rect class="fill-active" width="{:.1f}" height="8"/></svg>'
    ).format(min(max(share, 0.0), 1.0) * 100)
