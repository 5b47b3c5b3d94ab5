"""`ebbing curve`: plot the forgetting curve of a memory under each profile; needs no running service."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.output import AsJson, examples, print_json, print_table
from app.cli.core.set_option import parse_assignments
from app.cli.maintenance.plots import Plot

if TYPE_CHECKING:
    from app.domain.dynamics.protocol import Dynamics
    from app.domain.strength.curve_points import StrengthCurve

router = typer.Typer()

ALL: Final = "all"
BARS: Final = "▁▂▃▄▅▆▇█"
SPARKS: Final = 40
"""Width of a curve in the terminal, in characters."""
COLUMNS: Final = 6
"""Maximum number of days shown as numbers."""
PLOTTED: Final = 400
SHOWN_DAYS: Final = (1, 3, 7, 14, 30, 60, 90, 180, 365, 730, 1_825, 3_650)
KINDS: Final = ("episodic", "semantic", "procedural", "emotional", "system")


@router.command(
    epilog=examples(
        "ebbing curve",
        "ebbing curve --profile mnemex --set half_life_days=7 --set curve=exponential --days 30",
        "ebbing curve --profile spec --profile cmm --salience 0.9 --kind semantic --touch-at 10 --touch-at 25",
        "ebbing curve --plot curves.svg",
    )
)
def curve(
    *,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", metavar="NAME", help="Forgetting profile, or `all`. Repeatable."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Profile parameter. With several profiles, prefix it: mnemex.beta=0.4."
        ),
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=3_650, help="Number of days to show.")] = 60,
    salience: Annotated[float, typer.Option("--salience", min=0, max=1, help="Salience of the memory.")] = 0.5,
    uses: Annotated[int, typer.Option("--uses", min=0, max=1_000, help="Number of uses at creation.")] = 0,
    kind: Annotated[str, typer.Option("--kind", help=f"Kind of the memory: {', '.join(KINDS)}.")] = KINDS[0],
    touch_at: Annotated[
        list[float] | None,
        typer.Option("--touch-at", metavar="DAY", min=0, help="Day on which the memory is used. Repeatable."),
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Show how the strength of a memory decays under forgetting profiles."""
    if kind not in KINDS:
        raise typer.BadParameter(f"unknown kind {kind!r}: use one of {', '.join(KINDS)}")
    import numpy as np

    from app.domain.strength.curve_points import CurveMemory, compute_curve
    from app.domain.tiers.decay_tier import TierThresholds

    models = _models(profile or [ALL], given or [])
    memory = CurveMemory(salience, KINDS.index(kind), uses, tuple(touch_at or ()))
    at = sorted({*np.linspace(0, days, PLOTTED).tolist(), *(float(day) for day in SHOWN_DAYS if day <= days)})
    thresholds = TierThresholds().by_tier
    curves = {name: compute_curve(model, memory, at, list(thresholds.values())) for name, model in models.items()}
    if plot is not None:
        from app.cli.maintenance import plots

        lines = {name: (found.days.tolist(), found.strengths.tolist()) for name, found in curves.items()}
        plots.curves(plot, lines, title=f"{kind}, salience {salience:g}, {uses} uses", thresholds=thresholds)
    if as_json:
        print_json({"curves": [_as_json(name, models[name], found) for name, found in curves.items()]})
        return
    _print(curves, days, thresholds)
    if plot is not None:
        typer.echo(f"plot written: {plot}", err=True)


def _models(names: list[str], given: list[str]) -> dict[str, Dynamics]:
    """Return the profiles by name, with their parameters applied.

    Raises:
        BadParameter: Unknown profile or parameter, or invalid value.
    """
    from pydantic import ValidationError

    from app.domain.dynamics.profiles import PROFILES, profile

    wanted = list(PROFILES) if ALL in names else list(dict.fromkeys(names))
    parameters: dict[str, dict[str, Any]] = {}
    for word in given:
        of, dot, rest = word.partition(".")
        if not (dot and of in PROFILES):
            if len(wanted) > 1:
                parameter = of.partition("=")[0]
                has = next((name for name in wanted if hasattr(PROFILES[name].parameters, parameter)), wanted[0])
                raise typer.BadParameter(f"ambiguous parameter {word!r}: write {has}.{word}, or select one --profile")
            of, rest = wanted[0], word
        if of not in wanted:
            raise typer.BadParameter(f"{word!r} belongs to a profile that isn't selected: add --profile {of}")
        parse_assignments([rest], parameters.setdefault(of, {}))
    models = {}
    for name in wanted:
        try:
            models[name] = profile(name, parameters.get(name))
        except ValidationError as error:
            wrong = error.errors()[0]
            raise typer.BadParameter(f"{name}.{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return models


def _print(curves: dict[str, StrengthCurve], days: int, thresholds: dict[str, float]) -> None:
    print_table(["profile", f"0 to {days:,} days"], [(name, _spark(found, days)) for name, found in curves.items()])
    typer.echo()
    shown = _spread([day for day in SHOWN_DAYS if day <= days], COLUMNS)
    heads = [*(f"day {day:,}" for day in shown), *(f"days to {below:g}" for below in thresholds.values())]
    rows = [
        [
            name,
            *(f"{found.at(day):.3f}" for day in shown),
            *(_day(found.below_days[below]) for below in thresholds.values()),
        ]
        for name, found in curves.items()
    ]
    print_table(["strength", *heads], rows, right=heads)


def _spread(days: list[int], most: int) -> list[int]:
    """Return at most this many of the days, evenly spread, with the first and the last."""
    if len(days) <= most:
        return days
    return [days[round(place * (len(days) - 1) / (most - 1))] for place in range(most)]


def _spark(found: StrengthCurve, days: int) -> str:
    strengths = (found.at(days * place / (SPARKS - 1)) for place in range(SPARKS))
    return "".join(BARS[min(int(strength * len(BARS)), len(BARS) - 1)] for strength in strengths)


def _day(day: float) -> str:
    return "never" if math.isinf(day) else f"{day:,.1f}"


def _as_json(name: str, model: Dynamics, found: StrengthCurve) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "profile": name,
        "parameters": asdict(model.parameters),
        "days": [round(day, 4) for day in found.days.tolist()],
        "strengths": [round(strength, 6) for strength in found.strengths.tolist()],
        "below_days": {
            f"{below:g}": None if math.isinf(day) else round(day, 4) for below, day in found.below_days.items()
        },
    }
