"""Save forecasts, forgetting curves and simulations as SVG files with the charts of the dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.core.errors import CommandFailure

SUFFIX: Final = ".svg"
TIERS: Final = {"active": "#0072b2", "archived": "#56b4e9", "cold": "#b7bec5", "deleted": "#d55e00"}
"""Tiers from strongest to weakest, with colour-blind-safe colours."""
LINES: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
COLUMNS_MAX: Final = 120

_TITLE_HEIGHT, _LEGEND_HEIGHT, _LEGEND_STEP = 26, 22, 160
_STYLE: Final = """text { font: 10px sans-serif; fill: #5f6b76 } .title { font-size: 13px }
.grid { stroke: #dfe3e7 } .level { stroke: #5f6b76; stroke-dasharray: 4 4 } polyline { stroke-width: 1.8 }
"""


def _checked(path: Path | None) -> Path | None:
    """Validate the plot's path before any work starts."""
    if path is None:
        return None
    if path.suffix.lower() != SUFFIX:
        raise typer.BadParameter(f"unsupported plot format {path.name}: use a file name that ends in {SUFFIX}")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"no such folder: {path.absolute().parent}")
    return path


Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", callback=_checked, dir_okay=False, metavar="FILE", help=f"Write a plot to this {SUFFIX} file."
    ),
]


def tiers(path: Path, forecasts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Plot memories per tier by day as stacked columns, with one titled chart per forecast."""
    from app.dashboard.svg_charts import draw_columns

    charts = {}
    for title, days in forecasts.items():
        shown = days[:: -(-len(days) // COLUMNS_MAX)]
        charts[title] = draw_columns(
            [(day["date"], [(tier, day[tier], tier) for tier in TIERS]) for day in shown], title
        )
    _save(path, charts, {tier: (tier, colour) for tier, colour in TIERS.items()})


def curves(
    path: Path,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str,
    thresholds: Mapping[str, float],
) -> None:
    """Plot strength by days since creation, with one line per profile and the tier thresholds."""
    from app.dashboard.svg_charts import Level

    levels = [Level(f"{name} below {threshold:g}", threshold) for name, threshold in thresholds.items()]
    points = {name: list(zip(days, strengths, strict=True)) for name, (days, strengths) in lines.items()}
    _lines(path, f"strength by days since creation: {title}", points, levels=levels, top=1.0)


def year(path: Path, sizes: Mapping[str, Sequence[int]], found: Mapping[str, float]) -> None:
    """Plot the active-set size over a simulated year per profile; labels show the share found on the last day."""
    points = {f"{name}: {found[name]:.0%} found": list(enumerate(counts)) for name, counts in sizes.items()}
    _lines(path, "active memories by day, and share of important ones found", points)


def _lines(path: Path, title: str, points: Mapping[str, Sequence[tuple[float, float]]], **options: Any) -> None:
    from app.dashboard.svg_charts import ChartLine, draw_lines

    drawn = [ChartLine(name, line, str(number)) for number, (name, line) in enumerate(points.items())]
    last = max(x for line in points.values() for x, _ in line)
    chart = draw_lines(drawn, title, names=[(last * share, f"{last * share:g}") for share in (0, 0.5, 1)], **options)
    colours = {
        str(number): (line.name, colour) for number, (line, colour) in enumerate(zip(drawn, LINES, strict=False))
    }
    _save(path, {title: chart}, colours)


def _save(path: Path, charts: Mapping[str, str], colours: Mapping[str, tuple[str, str]]) -> None:
    """Save charts below each other, with a legend.

    Args:
        path: The file.
        charts: SVG charts by title.
        colours: Name and colour of each class of lines and areas.

    Raises:
        CommandFailure: The file can't be written.
    """
    from markupsafe import escape

    from app.dashboard.svg_charts import HEIGHT, WIDTH

    drawn, y = [], 0
    for title, chart in charts.items():
        drawn.append(f'<text class="title" x="4" y="{y + 16}">{escape(title)}</text>')
        y += _TITLE_HEIGHT
        drawn.append(str(chart).replace("<svg ", f'<svg y="{y}" width="{WIDTH}" height="{HEIGHT}" ', 1))
        y += HEIGHT
    style = _STYLE
    across = WIDTH // _LEGEND_STEP
    for place, (kind, (name, colour)) in enumerate(colours.items()):
        style += f".line-{kind} {{ stroke: {colour} }} .fill-{kind} {{ fill: {colour} }}\n"
        left, top = place % across * _LEGEND_STEP + 8, y + place // across * _LEGEND_HEIGHT + 6
        drawn.append(f'<rect class="fill-{kind}" x="{left}" y="{top}" width="10" height="10"/>')
        drawn.append(f'<text x="{left + 16}" y="{top + 9}">{escape(name)}</text>')
    y += -(-len(colours) // across) * _LEGEND_HEIGHT + 4
    try:
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}">'
            f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(drawn)}</svg>\n',
            encoding="utf-8",
        )
    except OSError as error:
        raise CommandFailure(f"{path} can't be written: {error.strerror or error}") from None
