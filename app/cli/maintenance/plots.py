"""Pictures of forecasts and of forgetting curves: PNG or SVG, by matplotlib where it is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.failures import Failure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".png", ".svg")
TIERS: Final = {"active": "#0072b2", "archived": "#56b4e9", "cold": "#b7bec5", "deleted": "#d55e00"}
"""Tiers from the strongest, with colours that the colour-blind can tell apart."""
LINES: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

_GREY = "#5f6b76"


def _checked(path: Path | None) -> Path | None:
    """Refuse what can't be drawn, before any work is done for it."""
    if path is None:
        return None
    if path.suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(f"{path.name} ends in neither {' nor '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.absolute().parent}")
    return path


Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        callback=_checked,
        dir_okay=False,
        metavar="FILE",
        help=r"Draw it, as .png or .svg; needs `pip install 'ebbing\[plot]'`.",
    ),
]


def figure(panels: int) -> tuple[Figure, list[Axes]]:
    """An empty picture with so many panels side by side, on one scale.

    Raises:
        Failure: There is no matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        message = "a plot needs matplotlib: install it with `pip install 'ebbing[plot]'`, or leave --plot out"
        raise Failure(message) from None
    # No pyplot: it would look for a display, and keep every picture.
    made = Figure(figsize=(6.4 + 4.6 * (panels - 1), 4.4), dpi=150, layout="constrained")
    panes = list(made.subplots(1, panels, sharey=True, squeeze=False)[0])
    for pane in panes:
        pane.spines[["top", "right"]].set_visible(False)
        pane.tick_params(colors=_GREY, labelsize=9)
        pane.margins(x=0)
    return made, panes


def save(made: Figure, path: Path) -> None:
    """Write the picture in the form that the file's name asks for.

    Raises:
        Failure: It can't be written.
    """
    from matplotlib import rc_context

    try:
        with rc_context({"svg.fonttype": "none"}):  # text stays text
            made.savefig(path, format=path.suffix.lower()[1:])
    except OSError as error:
        raise Failure(f"{path} can't be written: {error.strerror or error}") from None


def tiers(path: Path, forecasts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Tiers over the days as stacked areas, a panel for each forecast by its title."""
    made, panes = figure(len(forecasts))
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for pane, (title, days) in zip(panes, forecasts.items(), strict=True):
        when = [float(date2num(date.fromisoformat(day["date"]))) for day in days]
        series = [[day[tier] for day in days] for tier in TIERS]
        pane.stackplot(when, *series, labels=list(TIERS), colors=list(TIERS.values()), step="post")
        pane.set_title(title, fontsize=11, loc="left")
        pane.set_ylim(bottom=0)
        locator = AutoDateLocator(maxticks=7)
        pane.xaxis.set_major_locator(locator)
        pane.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        pane.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        pane.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panes[0].set_ylabel("memories", color=_GREY)
    handles, labels = panes[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=len(TIERS), frameon=False, fontsize=9)
    save(made, path)


def curves(
    path: Path,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str,
    thresholds: Mapping[str, float],
) -> None:
    """Strength by days since creation, a line for each name, and the tiers' thresholds."""
    made, [pane] = figure(1)
    for (name, (days, strengths)), colour in zip(lines.items(), LINES, strict=False):
        pane.plot(days, strengths, label=name, color=colour, linewidth=1.8)
    for name, threshold in thresholds.items():
        pane.axhline(threshold, color=_GREY, linewidth=0.7, linestyle=(0, (4, 4)))
        pane.annotate(
            f"{name} below {threshold:g}",
            (1, threshold),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            fontsize=7.5,
            color=_GREY,
        )
    pane.set_ylim(0, 1.02)
    pane.set_title(title, fontsize=11, loc="left")
    pane.set_xlabel("days since creation", color=_GREY)
    pane.set_ylabel("strength", color=_GREY)
    made.legend(loc="outside lower center", ncols=len(lines), frameon=False, fontsize=9)
    save(made, path)


def year(path: Path, sizes: Mapping[str, Sequence[int]], found: Mapping[str, float]) -> None:
    """Size of the active set over a simulated year, a line for each profile, and what was found on its last day."""
    made, [pane] = figure(1)
    for (name, counts), colour in zip(sizes.items(), LINES, strict=False):
        pane.plot(range(len(counts)), counts, label=f"{name}: {found[name]:.0%} found", color=colour, linewidth=1.8)
    pane.set_ylim(bottom=0)
    pane.set_title("active memories, and what is found of what matters", fontsize=11, loc="left")
    pane.set_xlabel("day", color=_GREY)
    pane.set_ylabel("memories", color=_GREY)
    made.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    save(made, path)
