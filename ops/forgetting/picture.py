"""The curves as one SVG file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from markupsafe import escape

from app.dashboard.svg_charts import HEIGHT, WIDTH, ChartLine, ChartMark, draw_lines

COLOURS: Final = {
    "spec": "#0072b2",
    "mnemex": "#d55e00",
    "cmm": "#009e73",
    "memory_decay": "#cc79a7",
    "lru": "#8c564b",
    "ttl": "#e69f00",
    "random": "#9aa3ab",
    "salience": "#56b4e9",
    "keep_chance": "#4b2e83",
    "oracle": "#000000",
}
"""Colours that also differ for people who are colour-blind; other methods are grey."""
_DASHED: Final = ("lru", "ttl", "random", "oracle")
_TITLE, _LEGEND, _STEP = 24, 20, 106


def draw(document: Mapping[str, Any]) -> str:
    """Return a chart for each dataset and model of uses, below each other; points are what the policies leave."""
    parts, y = [], 0
    shown: dict[str, None] = {}
    for dataset in document["datasets"]:
        for usage, figures in dataset["usages"].items():
            title = f"{dataset['dataset']}, uses: {usage}: recall@10 relative to all memories, by share kept"
            parts.append(f'<text class="title" x="4" y="{y + 16}">{escape(title)}</text>')
            y += _TITLE
            chart = _chart(figures["methods"], title)
            parts.append(chart.replace("<svg ", f'<svg y="{y}" width="{WIDTH}" height="{HEIGHT}" ', 1))
            y += HEIGHT
            shown |= dict.fromkeys(figures["methods"])
    style = "text { font: 10px sans-serif; fill: #5f6b76 } .title { font-size: 12px } .grid { stroke: #dfe3e7 }\n"
    style += ".level { stroke: #5f6b76; stroke-dasharray: 4 4 } polyline { stroke-width: 1.6 }\n"
    across = WIDTH // _STEP
    for place, name in enumerate(shown):
        colour = COLOURS.get(name, "#777777")
        dashes = "; stroke-dasharray: 5 3" if name in _DASHED else ""
        style += f".line-{name} {{ stroke: {colour}{dashes} }} .mark-{name} {{ fill: {colour} }}\n"
        left, top = place % across * _STEP + 8, y + place // across * _LEGEND + 6
        parts.append(f'<rect x="{left}" y="{top}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{left + 15}" y="{top + 9}">{escape(name)}</text>')
    y += -(-len(shown) // across) * _LEGEND + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _chart(methods: Mapping[str, Mapping[str, Any]], title: str) -> str:
    lines = [
        ChartLine(name, [(0.0, 0.0), *((point["share"], point["relative"]) for point in method["curve"])], name)
        for name, method in methods.items()
    ]
    marks = [
        ChartMark(own["active"], f"{name} leaves {own['active']:.0%} active", name, own["relative"])
        for name, own in ((name, method.get("own")) for name, method in methods.items())
        if own
    ]
    high = max(y for line in lines for _, y in line.points)
    ticks = [(share / 4, f"{share / 4:.0%}") for share in range(5)]
    return str(draw_lines(lines, title, names=ticks, marks=marks, top=max(1.0, high)))
