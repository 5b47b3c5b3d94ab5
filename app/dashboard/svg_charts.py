"""Charts as SVG without scripts and inline styles, to comply with a strict Content-Security-Policy.

The style sheet sets colours by class, so charts follow the theme. Each chart has a text alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from app.domain.formatting import format_axis, format_number

WIDTH: Final = 640
HEIGHT: Final = 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 10, 10, 24
_LETTERS: Final = 11
"""Height of a line of text, in pixels."""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """Event on a line: position, label, colour class, and height if it is not on the line."""

    x: float
    label: str
    kind: str = "use"
    y: float | None = None


@dataclass(frozen=True, slots=True)
class ChartLine:
    """Line of a chart; `kind` selects colour and dashes."""

    name: str
    points: Sequence[tuple[float, float]]
    kind: str = "a"


@dataclass(frozen=True, slots=True)
class Level:
    """Threshold, drawn as a horizontal line."""

    name: str
    value: float


def draw_sparkline(values: Sequence[float], label: str, width: int = 120, height: int = 28) -> Markup:
    """Draw a sparkline without axes, scaled from 0 to its maximum."""
    top = max(values, default=0) or 1
    step = width / max(len(values) - 1, 1)
    points = " ".join(
        f"{place * step:.1f},{height - 2 - value / top * (height - 4):.1f}" for place, value in enumerate(values)
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{label}">'
        '<polyline class="line-a" fill="none" points="{points}"/></svg>'
    ).format(w=width, h=height, label=label, points=points)


def draw_bar(parts: Sequence[tuple[str, float, str]], label: str, height: int = 22) -> Markup:
    """Draw one horizontal bar, divided in proportion to the amounts.

    Args:
        parts: Name, amount and class of each part.
        label: Text alternative.
        height: Height in pixels.
    """
    whole = sum(amount for _, amount, _ in parts)
    drawn, x = [], 0.0
    for name, amount, kind in parts:
        width = amount / whole * WIDTH if whole else 0
        drawn.append(
            Markup(
                '<rect class="fill-{}" x="{:.2f}" y="0" width="{:.2f}" height="{}"><title>{}: {}</title></rect>'
            ).format(kind, x, width, height, name, format_number(amount))
        )
        x += width
    return Markup(
        '<svg class="bar" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        "{drawn}</svg>"
    ).format(w=WIDTH, h=height, label=label, drawn=Markup("").join(drawn))


def draw_columns(
    rows: Sequence[tuple[str, Sequence[tuple[str, float, str]]]], label: str, height: int = HEIGHT
) -> Markup:
    """Draw stacked columns.

    Args:
        rows: Label of each column and its parts from the bottom up, as name, amount and class.
        label: Text alternative.
        height: Height in pixels.
    """
    top = max((sum(amount for _, amount, _ in parts) for _, parts in rows), default=0) or 1
    inner = height - _TOP - _BOTTOM
    step = (WIDTH - _LEFT - _RIGHT) / max(len(rows), 1)
    drawn = [_axis(top, height)]
    for place, (name, parts) in enumerate(rows):
        x, y = _LEFT + place * step, float(height - _BOTTOM)
        for part, amount, kind in parts:
            tall = amount / top * inner
            y -= tall
            drawn.append(
                Markup(
                    '<rect class="fill-{}" x="{:.1f}" y="{:.2f}" width="{:.1f}" height="{:.2f}">'
                    "<title>{} {}: {}</title></rect>"
                ).format(kind, x + step * 0.1, y, step * 0.8, tall, name, part, format_number(amount))
            )
        if len(rows) <= 8 or place % (len(rows) // 6) == 0:
            drawn.append(_text(x + step / 2, height - 8, name, "middle"))
    return _svg(drawn, label, height)


def draw_lines(
    drawn: Sequence[ChartLine],
    label: str,
    *,
    names: Sequence[tuple[float, str]] = (),
    levels: Sequence[Level] = (),
    marks: Sequence[ChartMark] = (),
    now: float | None = None,
    top: float | None = None,
    height: int = HEIGHT,
) -> Markup:
    """Draw a line chart.

    Args:
        drawn: Lines.
        label: Text alternative.
        names: Labels below the x axis, with their positions.
        levels: Thresholds, labelled above the line, or below it if the space above is taken.
        marks: Events, drawn as points at the height of the first line.
        now: Position of the present on the x axis.
        top: Maximum of the y axis; the largest value if omitted.
        height: Height in pixels.
    """
    points = [point for line in drawn for point in line.points]
    if not points:
        return Markup('<p class="none">{}</p>').format("no data yet")
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    high = top if top is not None else max([y for _, y in points] + [level.value for level in levels]) or 1.0
    inner, wide, span = height - _TOP - _BOTTOM, WIDTH - _LEFT - _RIGHT, (last - first) or 1.0

    def across(x: float) -> float:
        return _LEFT + (min(max(x, first), last) - first) / span * wide

    def up(y: float) -> float:
        return height - _BOTTOM - min(max(y, 0.0), high) / high * inner

    made = [_axis(high, height)]
    named_at = 0.0
    for one in sorted(levels, key=lambda level: -level.value):
        y = up(one.value)
        above = y - 3
        named_at = above if above >= named_at + _LETTERS else y + _LETTERS - 1
        made.append(
            Markup('<line class="level" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(_LEFT, WIDTH - _RIGHT, y, y)
            + _text(WIDTH - _RIGHT - 2, named_at, one.name, "end")
        )
    if now is not None:
        made.append(
            Markup('<line class="now" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>').format(
                across(now), _TOP, height - _BOTTOM
            )
        )
    for line in drawn:
        alone = len(line.points) == 1  # a zero-length line is drawn as a dot
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in [*line.points, *line.points[: int(alone)]])
        made.append(
            Markup('<polyline class="line-{}{}" fill="none" points="{}"><title>{}</title></polyline>').format(
                line.kind, " alone" if alone else "", path, line.name
            )
        )
    made += [
        Markup('<circle class="mark-{}" cx="{:.1f}" cy="{:.1f}" r="4"><title>{}</title></circle>').format(
            mark.kind,
            across(mark.x),
            up(_height_at(drawn[0].points, mark.x) if mark.y is None else mark.y),
            mark.label,
        )
        for mark in marks
    ]
    ends = {first: "start", last: "end"} if last > first else {}
    made += [_text(across(x), height - 8, name, ends.get(x, "middle")) for x, name in names]
    return _svg(made, label, height)


def _height_at(points: Sequence[tuple[float, float]], x: float) -> float:
    return min(points, key=lambda point: abs(point[0] - x))[1]


def _axis(top: float, height: int) -> Markup:
    made = []
    for share in (0.0, 0.5, 1.0):
        y = height - _BOTTOM - share * (height - _TOP - _BOTTOM)
        made.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(_LEFT, WIDTH - _RIGHT, y, y)
        )
        made.append(_text(_LEFT - 6, y + 4, format_axis(top * share), "end"))
    return Markup("").join(made)


def _text(x: float, y: float, said: str, anchor: str) -> Markup:
    return Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, escape(said)
    )


def _svg(made: Sequence[Markup], label: str, height: int) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, label, Markup("").join(made)
    )
