"""Charts drawn as SVG."""

from __future__ import annotations

import re
from itertools import pairwise

from app.dashboard import svg_charts
from app.dashboard.svg_charts import ChartLine, Level


def test_a_line_of_one_point_is_a_dot() -> None:
    drawn = svg_charts.draw_lines([ChartLine("passed", [(1.0, 50.0)])], "one run", top=100.0)
    assert re.search(r'<polyline class="line-a alone" fill="none" points="(\S+) \1">', drawn)
    assert "alone" not in svg_charts.draw_lines([ChartLine("passed", [(1.0, 50.0), (2.0, 60.0)])], "two runs")


def test_names_of_levels_stand_apart_and_inside() -> None:
    levels = [Level("deleted", 0.1), Level("archived", 0.3), Level("cold", 0.15), Level("top", 1.0)]
    drawn = svg_charts.draw_lines([ChartLine("strength", [(0.0, 1.0), (1.0, 0.0)])], "it fades", levels=levels, top=1.0)
    found = {name: float(y) for y, name in re.findall(r'y="([\d.]+)" text-anchor="end">([a-z]+)<', drawn)}
    heights = [found[name] for name in ("top", "archived", "cold", "deleted")]
    assert heights[0] >= 11
    assert all(lower - upper >= 11 for upper, lower in pairwise(heights))
