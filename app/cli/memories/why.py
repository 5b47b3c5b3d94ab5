"""`ebbing why`: explain the tier of a memory."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.output import AsJson, Url, examples, format_ago, plain, print_json
from app.cli.core.time_option import time_option
from app.domain.durations import DAY
from app.domain.formatting import format_number, format_span

router = typer.Typer()

LABELS: Final = {
    "back_days": "since restored",
    "is_marked": "permanent mark",
    "is_promoted": "promoted",
    "expires_as": "expiry category",
    "expires_after_days": "retention period",
    "expires_by_risk": "expires by risk",
    "keep_above": "keep threshold",
    "keep_shift": "keep chance gained by uses",
    "salience_source": "salience by",
}
"""Labels of numbers whose name doesn't explain itself."""
SALIENCE_SOURCES: Final = {
    "heuristic": "rules",
    "llm": "a model",
    "caller": "the caller",
    "consolidation": "the sources of the summary",
}


@router.command(epilog=examples("ebbing why ID", "ebbing why ID --as-of 2027-01-01", "ebbing why ID --json"))
def why(
    memory_id: Annotated[str, typer.Argument(help="Id of the memory.", metavar="ID")],
    *,
    as_of: Annotated[str | None, time_option("--as-of", "Evaluate as of this time. Default: now.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a memory's tier, the rule and numbers behind it, and its next tier change if it isn't used."""
    found = call(url, "GET", f"{item_path('/v1/memories', memory_id)}/why", params=given(as_of=as_of))
    if as_json:
        print_json(found)
        return
    wanted = "" if found["wanted"] == found["tier"] else f", moving to {found['wanted']}"
    numbers = dict(_describe_number(*each) for each in _select_numbers(found["numbers"]).items())
    width = max(map(len, ("rule", "superseded by", *numbers))) + 3
    typer.echo(f"{'tier':<{width}}{found['tier']}{wanted}")
    typer.echo(f"{'rule':<{width}}{found['rule'].replace('_', ' ')}: {found['why']}")
    typer.echo(f"{'source':<{width}}{plain(found.get('source', 'unknown'))}")
    if keep := found.get("keep"):
        numbers["keep chance"] = f"{format_number(keep['chance'])}{_describe_reasons(keep['reasons'])}"
    for name, text in numbers.items():
        typer.echo(f"{name:<{width}}{text}")
    if rating := found.get("rating"):
        typer.echo(f"{'rating':<{width}}{_describe_rating(rating)}")
    for hold in found["holds"]:
        because = f": {plain(hold['reason'])}" if "reason" in hold else ""
        typer.echo(f"{'hold':<{width}}{hold['id']}, placed {hold['placed_at'][:10]}{because}")
    for named in found.get("supersedes", []):
        other = plain(named["named"]) if named["named"] is not None else named["superseded_id"]
        typer.echo(f"{'supersedes':<{width}}{other}: {named['why']}")
    for newer in found.get("superseded_by", []):
        typer.echo(f"{'superseded by':<{width}}{newer}: searches return only the newer memory")
    for name in ("corrects", "corrected_by"):
        for other in found.get(name, []):
            typer.echo(f"{name.replace('_', ' '):<{width}}{other}")
    coming = found["next_change"]
    typer.echo(f"{'next':<{width}}{_describe_change(coming) if coming else 'no change expected'}")


def _select_numbers(numbers: dict[str, object]) -> dict[str, object]:
    """Return the numbers that are known and apply.

    The time since the last restore applies only after one, and the shift of the keep chance by uses only if it isn't 0.
    """
    shown = {name: value for name, value in numbers.items() if value is not None and value is not False}
    if shown.get("back_days") == shown.get("age_days"):
        shown.pop("back_days", None)
    if shown.get("keep_shift") == 0:
        del shown["keep_shift"]
    return shown


def _describe_reasons(reasons: list[dict[str, Any]]) -> str:
    """Return which features raise and which lower the chance that a memory should be kept."""
    parts = []
    for word, sign in (("raised", 1), ("lowered", -1)):
        if names := [reason["feature"] for reason in reasons if reason["points"] * sign > 0]:
            parts.append(f", {word} by: {', '.join(names)}")
    return "".join(parts)


def _describe_rating(rating: dict[str, Any]) -> str:
    """Return the salience that a model assigned, that of the rules if known, the model and the prompt version."""
    rules = rating["rules_salience"]
    beside = "" if rules is None else f" (rules: {format_number(rules)})"
    salience = format_number(rating["salience"])
    return f"salience {salience}{beside}, by {plain(rating['model'])}, prompt {plain(rating['prompt_version'])}"


def _describe_number(name: str, value: object) -> tuple[str, str]:
    """Return the label and the text of a number; days become a duration."""
    label = LABELS.get(name, name.removesuffix("_days").replace("_", " "))
    if name == "salience_source":
        return label, SALIENCE_SOURCES.get(str(value), plain(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return label, "yes" if value is True else plain(value)
    return label, format_span(value * DAY) if name.endswith("_days") else format_number(value)


def _describe_change(coming: dict[str, str]) -> str:
    when = f"{coming['at'][:10]} ({format_ago(coming['at'])})"
    return f"{coming['to']} on {when}, by the rule {coming['rule'].replace('_', ' ')}: {coming['why']}"
