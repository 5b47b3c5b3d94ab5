"""`ebbing simulate`: a year of memories in a minute or so, and what is left of it."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.assignments import assigned
from app.cli.core.output import AsJson, examples, print_json, print_table, progress
from app.cli.demo.demo import temporary_home
from app.cli.maintenance.plots import Plot
from app.cli.service.run import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.services.evaluation.simulation import Outcome, Simulation

router = typer.Typer()

ALL: Final = "all"
MEMORIES: Final = 3000
SHORT_MEMORIES, SHORT_DAYS = 300, 60
MONTH_MEMORIES, MONTH_DAYS = 60, 28
_PREFIX: Final = "ebbing-simulate-"
COLUMNS: Final = {
    "active_set": "active",
    "kept": "kept",
    "active": "still active",
    "wrongly_deleted": "deleted",
    "found": "found",
    "found_in_reach": "of reach",
    "found_in_all_tiers": "all tiers",
    "unimportant_active": "chatter",
    "outdated_first": "outdated",
}
LEGEND: Final = """\
active: size of the active set. Of what matters: kept in any tier, still active, deleted; found among ten results by
questions in other words, also as a share of those that are found where nothing is forgotten (of reach), and with
archived ones (all tiers). chatter: share of it that is still active. outdated: changed facts whose old state comes
first."""


@router.command(
    epilog=examples(
        "ebbing simulate --short",
        "ebbing simulate --profile mnemex --seed 7",
        "ebbing simulate --profile all --plot year.svg",
        "ebbing simulate --set reinforcement.by_search=false --set protection.salience_above=0.3",
    )
)
def simulate(
    *,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", metavar="NAME", help="A model of forgetting, or all; several may be given."),
    ] = None,
    days: Annotated[int | None, typer.Option("--days", min=28, max=3650, help="Length of the year; else 365.")] = None,
    memories: Annotated[
        int | None, typer.Option("--memories", min=50, max=20_000, help=f"What is said in it; else {MEMORIES:,}.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another one makes another year.")] = 1,
    short: Annotated[
        bool, typer.Option("--short", help=f"{SHORT_DAYS} days and {SHORT_MEMORIES} memories: some seconds.")
    ] = False,
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="A field of the policy; several.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the database, to be looked at or run on.")] = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Let a made-up year pass, and show what is kept, found and forgotten, beside simpler ways of forgetting.

    The service's own code stores, searches and forgets, in a temporary database of its own: what matters among the
    chatter, only the report knows. Each profile is compared with keeping all, and with a fixed time to live, the least
    recently used and linear decay, which keep as many memories active.
    """
    from pydantic import ValidationError

    from app.domain.dynamics.profiles import PROFILES

    names = list(PROFILES) if ALL in (profile or []) else list(dict.fromkeys(profile or ["spec"]))
    if unknown := [name for name in names if name not in PROFILES]:
        raise typer.BadParameter(f"{unknown[0]!r} isn't a profile: use one of {', '.join(PROFILES)}, or {ALL}")
    if plot is not None:
        from app.cli.maintenance.plots import figure

        figure(1)  # fails at once where it can't
    from app.domain.simulation.year import DAYS, generate
    from app.supervisor import lock_home
    from app.supervisor.alone import alone

    year = generate(memories or (SHORT_MEMORIES if short else MEMORIES), days or (SHORT_DAYS if short else DAYS), seed)
    outcomes: list[Outcome] = []
    with temporary_home(keep=keep, prefix=_PREFIX) as home, lock_home(home) as locked, alone(locked):
        from app.services.evaluation.simulation import Simulation

        with _said(names, quiet=as_json) as say:
            try:
                simulation = Simulation(year, say, assigned(given or []))
            except ValidationError as error:
                wrong = error.errors()[0]
                raise typer.BadParameter(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
            outcomes.append(simulation.keep_all)
            for name in names:
                outcomes += simulation.outcomes(name)
        if keep:
            _show_kept(simulation, names, shlex.quote(str(locked)))
    if plot is not None:
        from app.cli.maintenance import plots

        own = [one for one in outcomes if one.sizes]
        plots.year(
            plot,
            {one.name: one.sizes for one in own},
            {one.name: one.measures.found_in_reach for one in own},
        )
    if as_json:
        shape = {"seed": year.seed, "days": year.days, "memories": len(year.said), "facts": len(year.current)}
        print_json({**shape, "questions": len(year.questions), "outcomes": [shown(one) for one in outcomes]})
        return
    show_table(outcomes)
    show(f"\n{len(year.current)} things that matter, {len(year.questions)} questions. {LEGEND}", err=True)
    if plot is not None:
        show(f"drawn: {plot}", err=True)


def month(*, quiet: bool) -> list[Outcome]:
    """What a month of few memories leaves by default, beside keeping all and simpler ways; some seconds.

    Args:
        quiet: No progress bar.
    """
    from app.domain.simulation.year import generate
    from app.supervisor import lock_home
    from app.supervisor.alone import alone

    year = generate(MONTH_MEMORIES, MONTH_DAYS)
    with temporary_home(keep=False, prefix=_PREFIX) as home, lock_home(home) as locked, alone(locked):
        from app.services.evaluation.simulation import Simulation

        with _said(["spec"], quiet=quiet) as say:
            simulation = Simulation(year, say)
            return [simulation.keep_all, *simulation.outcomes("spec")]


def show_table(outcomes: Sequence[Outcome], measured: Sequence[str] = tuple(COLUMNS)) -> None:
    """Print outcomes, a row each; those that simpler ways have at the size of another one, below it.

    Args:
        outcomes: In their order.
        measured: Names of their measures.
    """
    heads = [*(COLUMNS[name] for name in measured), "s"]
    print_table(["", *heads], [_row(one, measured) for one in outcomes], right=heads)


@contextmanager
def _said(names: list[str], *, quiet: bool) -> Iterator[Any]:
    with progress("a year passes", float(len(names)), quiet=quiet) as step:

        def say(what: str, share: float) -> None:
            step(done=names.index(what) + share, note=what)

        yield say


def _show_kept(simulation: Simulation, names: list[str], home: str) -> None:
    from app.services.tenants import tenants

    show(f"Kept: ebbing run --home {home}, and in it by profile the keys", err=True)
    for name in names:
        show(f"  {name}: {tenants.issue_key(simulation.tenants[name], 'simulation')}", err=True)


def shown(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON."""
    measured: Mapping[str, Any] = asdict(outcome.measures)
    rounded = {name: round(value, 4) for name, value in measured.items()}
    return {"name": outcome.name, "size_of": outcome.size_of, **rounded, "seconds": round(outcome.seconds, 1)}


def _row(outcome: Outcome, names: Sequence[str]) -> list[str]:
    measured = asdict(outcome.measures)
    cells = [f"{measured[name]:,}" if name == "active_set" else f"{measured[name]:.1%}" for name in names]
    label = outcome.name if outcome.size_of is None else f"  {outcome.name}"
    return [label, *cells, f"{outcome.seconds:,.1f}"]
