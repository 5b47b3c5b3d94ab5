"""`ebbing usage`: show model usage, costs and the remaining budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call
from app.cli.core.output import AsJson, Url, examples, print_json, print_table
from app.domain.formatting import format_cost

router = typer.Typer()

NUMBERS: Final = ("calls", "input_tokens", "cached_tokens", "output_tokens", "memories", "cache_hits", "cost")
LIMITS: Final = {
    "tokens": "tokens of the tenant",
    "cost": "cost of the tenant",
    "total_tokens": "tokens of all tenants",
    "total_cost": "cost of all tenants",
}


STATES: Final = {"ok": "within the budget", "soft": "close to the limit", "hard": "limit reached, no model is called"}
"""Wording of the budget's state."""


@router.command(
    epilog=examples("ebbing usage", "ebbing usage --days 7", "ebbing usage --days 1 --json | jq .today.left")
)
def usage(
    *,
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="Number of days, including today (UTC).")] = 30,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Tenant id; other tenants need a key with the scope `admin`.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show model usage and costs by day, and today's remaining budget; only answered calls count.

    Costs use the currency of EBBING_PRICES; they are unknown for models without a price.
    """
    first = datetime.now(UTC).date() - timedelta(days=days - 1)
    params = {"from": first.isoformat()} | ({"tenant_id": tenant} if tenant else {})
    found = call(url, "GET", "/v1/usage", params=params)
    if as_json:
        print_json(found)
        return
    if found["usage"]:
        _print_days(found["usage"])
        typer.echo()
    else:
        when = "today" if days == 1 else f"in the last {days} days"
        typer.echo(f"No model has answered a call {when}. Failed calls cost nothing: `ebbing doctor` shows them.")
    _print_today(found["today"])


def _print_days(rows: list[dict[str, Any]]) -> None:
    names = ("day", "purpose", "model", "host")
    shown = [[*(row[name] for name in names), *(_number(name, row[name]) for name in NUMBERS)] for row in rows]
    total = {name: _sum([row[name] for row in rows]) for name in NUMBERS}
    shown.append(["total", "", "", "", *(_number(name, total[name]) for name in NUMBERS)])
    heads = [name.replace("_", " ") for name in NUMBERS]
    print_table([*names, *heads], shown, right=heads)


def _print_today(today: dict[str, Any]) -> None:
    spent = f"Today (UTC): {_number('tokens', today['tokens'])} tokens, cost {_number('cost', today['cost'])}"
    rows = [
        (label, _number(name, limit), _number(name, today["left"][name]))
        for name, label in LIMITS.items()
        if (limit := today["limits"].get(name)) is not None
    ]
    if rows:
        typer.echo(f"{spent}; {STATES.get(today['state'], today['state'])}.")
        print_table(["budget per day", "limit", "left"], rows, right=["limit", "left"])
    else:
        typer.echo(f"{spent}; no budget is set.")


def _sum(values: list[Any]) -> Any:
    """Return the sum, or None if any value is unknown."""
    return None if None in values else sum(values)


def _number(name: str, value: Any) -> str:
    return format_cost(value) if name.endswith("cost") else "unknown" if value is None else f"{value:,}"
