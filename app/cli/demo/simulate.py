"""`ebbing simulate`: run a synthetic year of memories in about a minute and measure what is retained."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from app.cli.core.output import AsJson, examples, print_json, print_table, progress
from app.cli.core.set_option import parse_assignments
from app.cli.core.waiting import waiting_for
from app.cli.maintenance.plots import Plot
from app.cli.service.run import show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.domain.simulation.year import Year
    from app.services.evaluation.simulation import Simulation, SimulationOutcome

router = typer.Typer()

ALL: Final = "all"
YearName = Literal["old", "hard"]
MEMORIES: Final = 3000
SHORT_MEMORIES, SHORT_DAYS = 300, 60
MONTH_MEMORIES, MONTH_DAYS = 60, 28
_PREFIX: Final = "ebbing-simulate-"
COLUMNS: Final = {
    "active_set": "active",
    "kept": "retained",
    "active": "still active",
    "wrongly_deleted": "deleted",
    "found": "found",
    "found_in_reach": "of reach",
    "found_in_all_tiers": "all tiers",
    "unimportant_active": "chatter",
    "outdated_first": "outdated",
}
LEGEND: Final = """\
active: size of the active set. Shares of important memories: retained (in any tier), still active, deleted, found (in
the top ten for a paraphrased question). of reach: found, as a share of the questions that are answered when nothing is
forgotten; all tiers: the same share if a second search looks in all tiers. chatter: share of unimportant memories still
active. outdated: share of changed facts whose old version ranks first."""
PILLARS: Final = ("retrieval", "forgetting", "plausibility", "sum")
PILLARS_LEGEND: Final = """\
retrieval: mean of recall and mean reciprocal rank over all questions. forgetting: share of unimportant memories no
longer active. plausibility: rank correlation between a memory's strength and how often it is found. sum: 40 % of
retrieval, 35 % of forgetting and 25 % of plausibility (0 where a method has no strength)."""


@router.command(
    epilog=examples(
        "ebbing simulate --short",
        "ebbing simulate --profile mnemex --seed 7",
        "ebbing simulate --profile all --plot year.svg",
        "ebbing simulate --year hard --seed 7",
        "ebbing simulate --set reinforcement.by_search=false --set protection.keep_chance_above=0.2",
    )
)
def simulate(
    *,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile", metavar="NAME", help="Forgetting profile to simulate, or `all`. Repeatable. Default: spec."
        ),
    ] = None,
    year_name: Annotated[
        YearName,
        typer.Option(
            "--year",
            help="Conversations to simulate: `old` (54 topics, single statements), or `hard` (dialogues with an "
            "assistant about more than 300 topics in eleven languages; some statements are terse or mistyped).",
        ),
    ] = "old",
    days: Annotated[int | None, typer.Option("--days", min=28, max=3650, help="Simulated days. Default: 365.")] = None,
    memories: Annotated[
        int | None, typer.Option("--memories", min=50, max=20_000, help=f"Number of memories. Default: {MEMORIES:,}.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed of the synthetic data.")] = 1,
    short: Annotated[
        bool,
        typer.Option("--short", help=f"Simulate {SHORT_DAYS} days and {SHORT_MEMORIES} memories, in a few seconds."),
    ] = False,
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Policy field to set. Repeatable.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the temporary database, for inspection or `ebbing run`.")
    ] = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a year of use and compare forgetting profiles: memories retained and deleted, and search results.

    The simulation runs the production code in a temporary database. The service doesn't know which memories
    are labelled as important; only the report uses these labels. Each profile is compared with retaining
    everything and with three baselines at the same active-set size: fixed time to live, least recently used, and linear
    decay.
    """
    from pydantic import ValidationError

    from app.domain.dynamics.profiles import PROFILES

    names = list(PROFILES) if ALL in (profile or []) else list(dict.fromkeys(profile or ["spec"]))
    if unknown := [name for name in names if name not in PROFILES]:
        raise typer.BadParameter(f"unknown profile {unknown[0]!r}: use one of {', '.join(PROFILES)}, or {ALL}")
    from app.domain.simulation.year import DAYS
    from app.domain.simulation.years import YEARS

    year = YEARS[year_name](
        memories or (SHORT_MEMORIES if short else MEMORIES), days or (SHORT_DAYS if short else DAYS), seed
    )
    try:
        outcomes = _run(year, names, parse_assignments(given or []), keep=keep, quiet=as_json)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise typer.BadParameter(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
    if plot is not None:
        from app.cli.maintenance import plots

        own = [one for one in outcomes if one.sizes]
        plots.year(
            plot,
            {one.name: one.sizes for one in own},
            {one.name: one.measures.found_in_reach for one in own},
        )
    if as_json:
        shape = {
            "year": year_name,
            "seed": year.seed,
            "days": year.days,
            "memories": len(year.said),
            "facts": len(year.current),
        }
        print_json({**shape, "questions": len(year.questions), "outcomes": [render_outcome(one) for one in outcomes]})
        return
    show_table(outcomes)
    show("")
    show_pillars(outcomes)
    show(
        f"\n{len(year.current)} important memories, {len(year.questions)} questions.\n{LEGEND}\n{PILLARS_LEGEND}",
        err=True,
    )
    if plot is not None:
        show(f"plot written: {plot}", err=True)


def simulate_month(*, quiet: bool) -> list[SimulationOutcome]:
    """Simulate a month with few memories under the default policy and the baselines; takes a few seconds."""
    from app.domain.simulation.year import generate_year

    return _run(generate_year(MONTH_MEMORIES, MONTH_DAYS), ["spec"], {}, keep=False, quiet=quiet)


def _run(year: Year, names: list[str], policy: dict[str, Any], *, keep: bool, quiet: bool) -> list[SimulationOutcome]:
    """Simulate profiles in a temporary home; return the outcomes of keeping everything, of profiles and baselines."""
    from app.supervisor import lock_home, temporary_home
    from app.supervisor.standalone import standalone_servers

    with ExitStack() as stack:
        locked = stack.enter_context(lock_home(stack.enter_context(temporary_home(_PREFIX, keep=keep))))
        with waiting_for("starting a temporary database"):
            stack.enter_context(standalone_servers(locked))
            from app.services.evaluation.simulation import Simulation

        with progress("simulating", float(len(names)), quiet=quiet) as step:
            simulation = Simulation(year, lambda what, share: step(done=names.index(what) + share, note=what), policy)
            outcomes = [simulation.keep_all, *(each for name in names for each in simulation.outcomes(name))]
        if keep:
            _show_kept(simulation, names, shlex.quote(str(locked)))
        return outcomes


def show_table(outcomes: Sequence[SimulationOutcome], measured: Sequence[str] = tuple(COLUMNS)) -> None:
    """Print one row per outcome, with the baselines indented below the profile whose active-set size they match.

    Args:
        measured: Names of the measures to show.
    """
    heads = [COLUMNS[name] for name in measured]
    print_table(["", *heads], [_row(one, measured) for one in outcomes], right=heads)


def show_pillars(outcomes: Sequence[SimulationOutcome]) -> None:
    """Print the three pillars of seed 003 and their weighted sum, one row per outcome."""
    rows = []
    for one in outcomes:
        pillars = one.pillars
        plausibility = "none" if pillars.plausibility is None else f"{pillars.plausibility:.2f}"
        cells = [f"{pillars.retrieval:.2f}", f"{pillars.forgetting:.2f}", plausibility, f"{pillars.weighted_sum:.2f}"]
        rows.append([_label(one), *cells])
    print_table(["", *PILLARS], rows, right=list(PILLARS))


def _show_kept(simulation: Simulation, names: list[str], home: str) -> None:
    from app.services.tenants import tenants

    show(f"Database kept. Start it with: ebbing run --home {home}; API keys by profile:", err=True)
    for name in names:
        show(f"  {name}: {tenants.issue_key(simulation.tenants[name], 'simulation')}", err=True)


def render_outcome(outcome: SimulationOutcome) -> dict[str, Any]:
    """Return an outcome as JSON."""
    measured: Mapping[str, Any] = asdict(outcome.measures)
    rounded = {name: round(value, 4) for name, value in measured.items()}
    pillars = {**asdict(outcome.pillars), "sum": outcome.pillars.weighted_sum}
    return {
        "name": outcome.name,
        "size_of": outcome.size_of,
        **rounded,
        "pillars": {name: None if value is None else round(value, 4) for name, value in pillars.items()},
        "seconds": round(outcome.seconds, 1),
    }


def _row(outcome: SimulationOutcome, names: Sequence[str]) -> list[str]:
    measured = asdict(outcome.measures)
    cells = [f"{measured[name]:,}" if name == "active_set" else f"{measured[name]:.1%}" for name in names]
    return [_label(outcome), *cells]


def _label(outcome: SimulationOutcome) -> str:
    return outcome.name if outcome.size_of is None else f"  {outcome.name}"
