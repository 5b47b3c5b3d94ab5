"""`ebbing policy`: show, preview and change the tenant's policy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.calls import call, fetch_list, given
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.output import AsJson, Url, count_of, examples, plain, print_json, print_rows, print_table
from app.cli.core.set_option import parse_assignments
from app.cli.core.time_option import time_option
from app.cli.maintenance.forecast import describe_threshold
from app.domain.formatting import count_memories, format_minute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from app.cli.core.client import Api

PATH: Final = "/v1/policy"
TIERS: Final = ("active", "archived", "cold", "deleted")

router = typer.Typer(
    name="policy",
    cls=Commands,
    help="Show, preview and change the tenant's policy.",
    no_args_is_help=True,
    epilog=examples("ebbing policy show", "ebbing policy set --set forgetting.profile=mnemex", "ebbing policy presets"),
)

File = Annotated[
    Path | None, typer.Argument(help="JSON file with the fields to change. Use `-` for standard input.", metavar="FILE")
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Field to change, such as tiers.cold_below=0.2; null resets it to the default. Repeatable."
    ),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help="Preset to apply before the fields of FILE and --set; see `ebbing policy presets`."),
]
At = Annotated[
    str | None, time_option("--at", "Time from which the change applies, at most a year ahead. Default: now.")
]


@router.command(epilog=examples("ebbing policy show", "ebbing policy show --version 2", "ebbing policy show --json"))
def show(
    version: Annotated[
        int | None, typer.Option("--version", min=0, help="Policy version. Default: the current one.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the policy with all values."""
    found = call(url, "GET", PATH, params=given(version=version))
    if as_json:
        print_json(found)
        return
    typer.echo(f"version {found['version']}, {found['status']}, since {_moment(found['effective_at'])}")
    if following := found.get("next"):
        typer.echo(f"next: version {following['version']} from {_moment(following['effective_at'])}")
    if learned := found.get("learned"):
        values = ", ".join(f"{plain(name)} {value:.4g}" for name, value in learned["parameters"].items())
        typer.echo(f"learned from uses: {values}; `ebbing policy learn` shows the effect")
    print_table(["field", "value"], [(field, shown_value(value)) for field, value in _leaves(found["policy"])])


@router.command(epilog=examples("ebbing policy versions", "ebbing policy versions --json"))
def versions(url: Url = None, as_json: AsJson = False) -> None:
    """List policy versions, latest first."""
    found = fetch_list(url, f"{PATH}/versions", "versions")
    rows = (
        (one["version"], one["status"], _moment(one["effective_at"]), "learned" if one.get("is_learned") else "")
        for one in found
    )
    heads = ["version", "status", "effective", "author"]
    print_rows({"versions": found}, heads, rows, right=["version"], as_json=as_json)


@router.command(epilog=examples("ebbing policy presets", "ebbing policy presets --json | jq .development"))
def presets(as_json: AsJson = False) -> None:
    """List the presets and the fields that each sets."""
    from app.domain.policy.presets import PRESETS

    rows = (
        (name if place == 0 else "", field, shown_value(value))
        for name, sets in PRESETS.items()
        for place, (field, value) in enumerate(_leaves(sets))
    )
    print_rows(PRESETS, ["preset", "field", "value"], rows, as_json=as_json)


@router.command(
    epilog=examples(
        "ebbing policy diff changes.json",
        "ebbing policy diff --set tiers.archived_below=0.4 --json",
        "ebbing policy diff --defaults",
    )
)
def diff(
    *,
    file: File = None,
    sets: Sets = None,
    preset: Preset = None,
    at: At = None,
    defaults: Annotated[
        bool,
        typer.Option(
            "--defaults",
            help="Show the fields in which the policy differs from the defaults. Can't be combined with a change.",
        ),
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Preview how a change would affect the policy and the memories, without applying it."""
    from app.cli.core.client import Api

    if defaults and (file or sets or preset):
        raise CommandFailure("--defaults can't be combined with FILE, --set or --preset", Code.USAGE)
    change = _to_defaults(at) if defaults else _change(file, sets, preset, at)
    with Api(find_connection(url)) as api:
        _show(_preview(api, change), as_json=as_json)


@router.command(
    "set",
    epilog=examples(
        "ebbing policy set --preset development",
        "ebbing policy set --set forgetting.profile=mnemex --set forgetting.parameters.alpha=1.3 --yes",
        "ebbing policy set changes.json --dry-run",
    ),
)
def set_policy(
    *,
    file: File = None,
    sets: Sets = None,
    preset: Preset = None,
    at: At = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Preview the change without applying it, like `ebbing policy diff`.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change the policy. The command first shows the effects and asks for confirmation."""
    from app.cli.core.client import Api

    change = _change(file, sets, preset, at)
    asks = not (yes or dry_run)
    if asks and (str(file) == "-" or not can_ask()):
        raise CommandFailure("no terminal to ask for confirmation: pass --yes, or --dry-run for a preview", Code.USAGE)
    with Api(find_connection(url)) as api:
        found = _preview(api, change)
        if dry_run or not (found["changes"] or found["superseded"]):
            _show(found, as_json=as_json)
            return
        if not as_json:
            _show_preview(found)
        if asks and not typer.confirm("Apply this change?", err=True):
            raise CommandFailure("nothing was changed")
        # Safe to retry: a repeated PUT changes nothing.
        known = {"expected_version": found["latest_version"]}
        done = api.call("PUT", PATH, json=change | known, safe=True).body
    if as_json:
        print_json(done)
        return
    typer.echo(f"version {done['version']} applies from {_moment(done['effective_at'])}")
    if done.get("job_id"):
        typer.echo(f"migrating memories to it: `ebbing jobs watch {done['job_id']}` shows the progress")


@router.command(
    epilog=examples("ebbing policy learn", "ebbing policy learn --apply --yes", "ebbing policy learn --json")
)
def learn(
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Apply the proposed rates as a new policy version, after a confirmation.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Estimate how fast memories should fade, based on when they were used, and show the effect."""
    from app.cli.core.client import Api

    if apply and not yes and not can_ask():
        raise CommandFailure("no terminal to ask for confirmation: pass --yes", Code.USAGE)
    with Api(find_connection(url)) as api:
        found = api.call("GET", f"{PATH}/learned").body
        if not (apply and found["changes"]):
            _show_learned(found, as_json=as_json)
            return
        if not as_json:
            _show_learned(found, as_json=False)
        if not yes and not typer.confirm("Apply these rates?", err=True):
            raise CommandFailure("nothing was changed")
        done = api.call("POST", f"{PATH}/learned").body
    if as_json:
        print_json(done)
        return
    typer.echo(f"version {done['version']} applies from now on")
    if done.get("job_id"):
        typer.echo(f"migrating memories to it: `ebbing jobs watch {done['job_id']}` shows the progress")


def _show_learned(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found["rates"]:
        typer.echo(f"the profile {plain(found['profile'])} has no rates that can be learned")
        return
    heads = ["value", "memories", "uses", "estimate", "95 % interval", "weight", "learned"]
    heads += ["half-life now", "half-life learned"]
    print_table(["rate", *heads], [_learned_row(rate) for rate in found["rates"]], right=heads)
    if not found["changes"]:
        typer.echo("no change: the uses agree with the current rates, or are too few")
        return
    typer.echo("")
    print_changed_fields(found["changes"])
    for version in found["superseded"]:
        typer.echo(f"scheduled version {version} would be superseded")
    _show_effects(found["effects"], "now")


def _learned_row(rate: dict[str, Any]) -> list[str]:
    ends, days = rate["interval"], rate["half_life_days"]
    return [
        plain(rate["field"].removeprefix("forgetting.parameters.")),
        f"{rate['value']:.4g}",
        f"{rate['memories']:,}",
        f"{rate['uses']:,}",
        "none" if rate["estimate"] is None else f"{rate['estimate']:.4g}",
        "none" if ends is None else f"{ends[0]:.4g} to {ends[1]:.4g}",
        f"{rate['weight']:.0%}",
        f"{rate['learned']:.4g}",
        *("never" if value is None else f"{value:.1f} d" for value in (days["now"], days["learned"])),
    ]


def can_ask() -> bool:
    """Return True if standard input is a terminal."""
    return sys.stdin.isatty()


def _change(file: Path | None, sets: list[str] | None, preset: str | None, at: str | None) -> dict[str, Any]:
    """Build the request body of a change."""
    fields = parse_assignments(sets or [], {} if file is None else read_file(file))
    if not fields and preset is None:
        raise CommandFailure("nothing to change: give a FILE, --set field=value or --preset", Code.USAGE)
    return given(policy=fields, preset=preset, effective_at=at)


def _to_defaults(at: str | None) -> dict[str, Any]:
    """Build the request body that resets every field to its default."""
    from app.domain.policy.policy import Policy

    return given(policy=dict.fromkeys(Policy.model_fields), effective_at=at)


def read_file(file: Path) -> dict[str, Any]:
    """Return the fields of a file, such as the output of `ebbing policy show --json`."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        found = json.loads(text)
    except OSError as error:
        raise CommandFailure(f"{file} can't be read ({error.strerror})", Code.USAGE) from None
    except ValueError as error:
        raise CommandFailure(f"{file}: invalid JSON ({error})", Code.USAGE) from None
    if isinstance(found, dict) and {"version", "policy"} <= found.keys():
        found = found["policy"]
    if not isinstance(found, dict):
        raise CommandFailure(f"{file} must contain a JSON object of fields", Code.USAGE)
    return found


def _preview(api: Api, change: dict[str, Any]) -> dict[str, Any]:
    return api.call("PUT", PATH, json=change | {"dry_run": True}, safe=True).body


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        _show_preview(found)


def _show_preview(found: dict[str, Any]) -> None:
    if not (found["changes"] or found["superseded"]):
        typer.echo(f"no change: version {found['version']} already has these values")
        return
    if found["changes"]:
        print_changed_fields(found["changes"])
    for version in found["superseded"]:
        typer.echo(f"scheduled version {version} is superseded and won't apply")
    _show_effects(found["effects"], _moment(found["effective_at"]))


def _show_effects(effects: dict[str, Any], at: str) -> None:
    some = "" if effects["complete"] else "the first "
    typer.echo(f"\n{some}{count_memories(effects['memories'])} by tier, as of {at}:")
    later = f"{count_of(effects['later']['days'], 'day', 'days')} later if unused"
    pairs = (effects["tiers"], effects["later"])
    counts = [[tier, *(f"{pair[side][tier]:,}" for pair in pairs for side in ("before", "after"))] for tier in TIERS]
    heads = ["before", "after", f"before, {later}", f"after, {later}"]
    print_table(["tier", *heads], counts, right=heads)
    if threshold := effects.get("found_threshold"):
        typer.echo(describe_threshold(threshold))
    for move in effects["moves"]:
        typer.echo(f"moves {count_memories(move['memories'])} from {plain(move['from'])} to {plain(move['to'])}")
    for loss in effects["lost"]:
        typer.echo(
            f"{count_of(loss['memories'], 'memory loses', 'memories lose')} {plain(loss['what'])}: {plain(loss['why'])}"
        )


def _leaves(body: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", value


def print_changed_fields(changes: list[dict[str, Any]]) -> None:
    """Print the fields of a policy that a change sets, with their values before and after."""
    rows = [(one["field"], shown_value(one["from"]), shown_value(one["to"])) for one in changes]
    print_table(["field", "from", "to"], rows)


def shown_value(value: object) -> str:
    """Return a field's value as printed text."""
    return value if isinstance(value, str) else json.dumps(value)


def _moment(text: str | None) -> str:
    return "the start" if text is None else format_minute(text)
