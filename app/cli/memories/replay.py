"""`ebbing replay`: replay recorded searches under another policy, or fit ranking weights to reported uses."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, given
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, examples, plain, print_json, print_table
from app.cli.core.set_option import parse_assignments
from app.cli.maintenance.policy import PATH, File, Preset, Sets, print_changed_fields, read_file
from app.domain.formatting import format_percent

router = typer.Typer()

SEARCHES: Final = 1000
SEARCHES_MAX: Final = 10_000
IDS_SHOWN: Final = 3
LEFT_OUT: Final = {
    "hidden_memories": "a result is hidden by an erasure",
    "other_layout": "recorded by an incompatible version of Ebbing",
    "parts_not_recorded": "a feature that this policy ranks by wasn't recorded (try --again)",
    "not_repeatable": "an excluded thread, or no query vector in the current embedding space",
    "beyond_the_most": "beyond the maximum number of searches for --again",
    "out_of_time": "timed out",
}
"""Descriptions of the API's reasons for skipping records."""


@router.command(
    epilog=examples(
        "ebbing replay",
        "ebbing replay --set ranking.role=0.5 --set ranking.strength=0.1",
        "ebbing replay changes.json --searches 200 --json | jq .uses",
        "ebbing replay --again --set ranking.context=0.3",
        "ebbing replay --fit",
    )
)
def replay(
    *,
    file: File = None,
    sets: Sets = None,
    preset: Preset = None,
    searches: Annotated[
        int | None,
        typer.Option(
            "--searches",
            min=1,
            max=SEARCHES_MAX,
            help=f"Maximum number of records to read, newest first. Default: {SEARCHES}.",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Run the searches again on the current memories, with the recorded query vectors and word ids, "
            "instead of reranking the recorded results.",
        ),
    ] = False,
    fit: Annotated[
        bool, typer.Option("--fit", help="Propose weights that rank used memories higher, without applying them.")
    ] = False,
    shown: Annotated[int, typer.Option("--examples", min=0, max=100, help="Number of changed searches to list.")] = 5,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show how another policy would change the results of recorded searches, and the ranks of used memories.

    Searches are recorded while the policy's `record_searches` is true, as ids and numbers without text. Without FILE,
    --set and --preset, the current policy is replayed. The command changes nothing, even with --fit.
    """
    if fit and (file or sets or preset or again):
        raise CommandFailure(
            "--fit uses the current policy and can't be combined with FILE, --set, --preset or --again", Code.USAGE
        )
    if fit:
        found = call(url, "POST", f"{PATH}/fit", json=given(searches=searches))
    else:
        policy = parse_assignments(sets or [], {} if file is None else read_file(file))
        wanted = given(policy=policy, again=again, examples=shown, searches=searches, preset=preset)
        found = call(url, "POST", f"{PATH}/replay", json=wanted)
    if as_json:
        print_json(found)
    elif fit:
        _show_fit(found)
    else:
        _show_replay(found)


def _show_replay(found: dict[str, Any]) -> None:
    if found["changes"]:
        print_changed_fields(found["changes"])
        typer.echo()
    count = found["searches"]
    typer.echo(f"replayed searches: {count:,}")
    for reason, number in found["left_out"].items():
        typer.echo(f"skipped searches: {number:,} ({LEFT_OUT.get(reason, plain(reason))})")
    if not count:
        return
    typer.echo(f"same order as originally returned, under the current policy: {found['as_answered']:,}")
    if found["vitals"] == "present":
        typer.echo("both policies use current strength and importance values")
    if found["changes"]:
        depths = list(found["changed"])
        rows = [
            (depth.replace("_", " "), f"{found['changed'][depth]:,}", format_percent(found["overlap"][depth], 1))
            for depth in depths
        ]
        typer.echo()
        print_table(["results", "changed searches", "mean overlap"], rows, right=["changed searches"])
    _show_uses(found["uses"])
    for example in found["examples"]:
        typer.echo(f"\nsearch {example['search_id']}")
        for side in ("before", "after", "used"):
            ids = example[side]
            more = ", …" if len(ids) > IDS_SHOWN else ""
            typer.echo(f"  {side}: {', '.join(ids[:IDS_SHOWN]) or 'none'}{more}")


def _show_uses(uses: dict[str, Any] | None) -> None:
    if uses is None:
        typer.echo("\nno uses were reported for these searches: report them with POST /v1/observations")
        return
    typer.echo(f"\nreported uses: {uses['memories']:,}, searches with a use: {uses['searches']:,}")
    rows = [
        (name, f"{uses[key]['before']:.3f}", f"{uses[key]['after']:.3f}", _gain(uses[key]["difference"]))
        for name, key in (("recall at 10", "recall_at_10"), ("reciprocal rank", "reciprocal_rank"))
    ]
    print_table(["used memories", "before", "after", "difference (95%)"], rows, right=["before", "after"])


def _show_fit(found: dict[str, Any]) -> None:
    typer.echo(f"{found['searches']:,} searches with a use, {found['pairs']:,} pairs of a used and an unused result")
    rank = found["reciprocal_rank"]
    if rank["difference"] is not None:
        typer.echo(
            f"held-out reciprocal rank of used results: {rank['before']:.3f} now, {rank['after']:.3f} with fitted "
            f"weights, difference {_gain(rank['difference'])}"
        )
    if found["policy"] is None:
        typer.echo(f"no proposal: {found['reason']}")
        return
    sets = " ".join(f"--set ranking.{name}={weight:g}" for name, weight in found["policy"]["ranking"].items())
    typer.echo(f"\nproposal, not applied:\n  ebbing replay {sets}\n  ebbing policy set {sets}")


def _gain(difference: dict[str, float]) -> str:
    return f"{difference['mean']:+.3f} [{difference['low']:+.3f}, {difference['high']:+.3f}]"
