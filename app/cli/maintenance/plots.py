"""Plot forecasts, forgetting curves and simulations as PNG or SVG with the optional matplotlib."""

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
"""Tiers from strongest to weakest, with colour-blind-safe colours."""
LINES: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

_GREY = "#5f6b76"


def _checked(path: Path | None) -> Path | None:
    """Validate the plot's path before any work starts."""
    if path is None:
        return None
    if path.suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(f"unsupported plot format {path.name}: use {' or '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"no such folder: {path.absolute().parent}")
    return path


Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        callback=_checked,
        dir_okay=False,
        metavar="FILE",
        help=r"Write a plot to this .png or .svg file; needs `pip install 'ebbing\[plot]'`.",
    ),
]


def figure(panels: int) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with panels side by side that share the y axis.

    Raises:
        Failure: Matplotlib isn't installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        message = "--plot needs matplotlib: install it with `pip install 'ebbing[plot]'`, or omit --plot"
        raise Failure(message) from None
    # No pyplot: it needs a display and retains every figure.
    made = Figure(figsize=(6.4 + 4.6 * (panels - 1), 4.4), dpi=150, layout="constrained")
    panes = list(made.subplots(1, panels, sharey=True, squeeze=False)[0])
    for pane in panes:
        pane.spines[["top", "right"]].set_visible(False)
        pane.tick_params(colors=_GREY, labelsize=9)
        pane.margins(x=0)
    return made, panes


def save(made: Figure, path: Path) -> None:
    """Save a figure in the format given by the file's suffix.

    Raises:
        Failure: The file can't be written.
    """
    from matplotlib import rc_context

    try:
        with rc_context({"svg.fonttype": "none"}):  # text stays selectable instead of becoming paths
            made.savefig(path, format=path.suffix.lower()[1:])
    except OSError as error:
        raise Failure(f"{path} can't be written: {error.strerror or error}") from None


def tiers(path: Path, forecasts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Plot memories per tier by day as stacked areas, with one titled panel per forecast."""
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
    """Plot strength by days since creation, with one line per profile and the tier thresholds."""
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
    """Plot the active-set size over a simulated year per profile; labels show the share found on the last day."""
    made, [pane] = figure(1)
    for (name, counts), colour in zip(sizes.items(), LINES, strict=False):
        pane.plot(range(len(counts)), counts, label=f"{name}: {found[name]:.0%} found", color=colour, linewidth=1.8)
    pane.set_ylim(bottom=0)
    pane.set_title("active memories, and share of important ones found", fontsize=11, loc="left")
    pane.set_xlabel("day", color=_GREY)
    pane.set_ylabel("memories", color=_GREY)
    made.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    save(made, path)
