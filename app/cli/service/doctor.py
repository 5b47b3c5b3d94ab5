"""`ebbing doctor`: check the service's dependencies and suggest fixes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from app.cli.core import tables
from app.cli.core.connection import find_connection, load_settings, read_note
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, examples, plain, print_json
from app.cli.core.waiting import each_waiting_for
from app.domain.formatting import format_relative
from app.domain.health_findings import (
    Finding,
    attention,
    dead_letter_finding,
    lane_findings,
    ok,
    silence_findings,
    trouble,
)
from app.domain.operator_advice import Installation, advise
from app.domain.provider_health import ProviderHealth, provider_findings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from app.cli.core.client import Api

router = typer.Typer()

SHOWN = {"ok": ("ok", "✓", "green"), "attention": ("warn", "!", "yellow"), "trouble": ("fail", "✗", "red")}
"""The level in JSON, the mark and its colour, by severity."""
SUPPORTED = {(3, 11), (3, 12)}
NAME_COLUMNS = 20
UNBROKEN = "\u2060"
"""Stands for a space at which a line isn't wrapped."""
OTHERS_MAY_READ = 0o006
OTHERS_MAY_ANYTHING = 0o077


@router.command(epilog=examples("ebbing doctor", "EBBING_HOME=/srv/ebbing ebbing doctor", "ebbing doctor --json"))
def doctor(url: Url = None, as_json: AsJson = False) -> None:
    """Check every dependency and suggest fixes. The exit code is 1 if a check fails."""
    findings: list[Finding] = []
    for found in each_waiting_for(_findings(url), "running the checks"):
        findings.append(found)
        if not as_json:
            _print(found)
    failed = any(found.severity == "trouble" for found in findings)
    if as_json:
        shown = [{"name": one.name, "level": SHOWN[one.severity][0], "detail": one.detail} for one in findings]
        print_json({"well": not failed, "checks": shown})
    raise typer.Exit(Code.FAILED if failed else Code.OK)


def _print(found: Finding) -> None:
    """Print a finding as soon as it is known. Long ones are wrapped, but not within a command to copy."""
    _, mark, colour = SHOWN[found.severity]
    text = "`".join(
        part.replace(" ", UNBROKEN) if place % 2 else part for place, part in enumerate(plain(found.detail).split("`"))
    )
    first, *more = tables.fields([(f"{found.name}", text)], NAME_COLUMNS, tables.page_columns() - 2)
    typer.echo(f"{typer.style(mark, fg=colour)} {first}".replace(UNBROKEN, " "))
    for line in more:
        typer.echo(f"  {line}".replace(UNBROKEN, " "))


def _findings(url: str | None) -> Iterator[Finding]:
    from app.cli.core.client import Api

    load_settings()  # refuse invalid settings
    yield _python()
    yield _home()
    from app.services.monitoring import doctor

    yield from doctor.examine()
    with Api(find_connection(url)) as api:
        stats = yield from _service(api)
    yield from _providers(stats)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] in SUPPORTED:
        return ok("python", version)
    return trouble("python", f"{version} is not supported", "use Python 3.11 or 3.12")


def _home() -> Finding:
    home = load_settings().home.resolve()
    key = home / "api-key"
    if not home.exists():
        return attention("home", f"{home} doesn't exist yet", "`ebbing run` creates it, or set EBBING_HOME")
    if not home.is_dir():
        return trouble("home", f"{home} is not a folder", "set EBBING_HOME to another path")
    if home.stat().st_mode & OTHERS_MAY_READ:
        return attention("home", f"{home} is readable by other users", f"run `chmod 700 {home}`")
    if key.exists() and key.stat().st_mode & OTHERS_MAY_ANYTHING:
        return attention("home", f"{key} is readable by other users", f"run `chmod 600 {key}`")
    return ok("home", f"{home}{'; `ebbing run` is running here' if read_note(home / 'api-url') else ''}")


def _service(api: Api) -> Generator[Finding, None, dict[str, Any] | None]:
    """Check the API and the dependencies that it reports; embedded servers are visible only through it.

    Returns:
        The tenant's statistics; None if the API can't be asked.
    """
    from app.cli.core.client import ApiRefusal

    try:
        answer: dict[str, Any] = api.call("GET", "/readyz", with_key=False).body
        yield ok("api", f"{api.place.url} is ready")
    except ApiRefusal as refused:
        answer = refused.body
        reason = "" if "dependencies" in answer else f": {refused}"
        yield trouble("api", f"{api.place.url} isn't ready{reason}")
    except CommandFailure as failure:
        yield trouble("api", str(failure))
        return None
    for dependency in answer.get("dependencies", []):
        report = ok if dependency.get("well") else trouble
        yield report(f"api: {dependency.get('name')}", str(dependency.get("detail", "")))
    try:
        stats = api.stats()
    except CommandFailure as failure:
        yield trouble("api_key", str(failure))
        return None
    yield ok("api_key", "valid")
    here = _installation(stats)
    yield from (advise(finding, here) for finding in _tenant(stats))
    return stats


def _installation(stats: dict[str, Any]) -> Installation:
    """Return the service's installation, which the service reports; earlier versions don't."""
    home = str(load_settings().home.absolute())
    return Installation(stats.get("installation", "processes"), home, stats.get("worker_pids", {}))


def _providers(stats: dict[str, Any] | None) -> Iterator[Finding]:
    """Report the model providers of the service; without its answer, they are unknown.

    The settings of this shell may differ from the service's, so they say nothing about the service's provider.
    """
    if stats is None or "providers" not in stats:
        why = "the service can't be asked" if stats is None else "the service has an earlier version"
        yield attention("provider", f"unknown, because {why}", "see `api` above" if stats is None else "upgrade it")
        return
    providers = [ProviderHealth(**one) for one in stats["providers"]]
    if not providers:
        yield ok("provider", "none configured, none required: rules rate memories offline")
        return
    here = _installation(stats)
    findings = [advise(finding, here) for finding in provider_findings(providers)]
    yield from findings
    for one in providers:
        if one.state in {"ok", "not_called"}:
            since = one.success_seconds
            last = "not called yet" if since is None else f"last success {format_relative(since)}"
            yield ok(
                f"provider_{one.use}",
                f"{one.model} at {one.address}, {last}" if one.model else f"{one.address}, {last}",
            )


def _tenant(stats: dict[str, Any]) -> Iterator[Finding]:
    """Check the tenant's backlog and dead letters, and the processes."""
    if letters := stats.get("dead_letters"):
        yield dead_letter_finding(letters)
    space = stats.get("embedding_space")
    if space and not space["is_settings"]:
        what = f"searches use {space['model']}, but the settings name another model"
        yield attention("embedding_space", what, "run `ebbing reembed`")
    ages = {name: lane["oldest_age_seconds"] for name, lane in stats["lanes"].items() if lane["depth"]}
    for found in lane_findings(ages):
        yield attention(found.code.replace("old_", "lane_"), found.what, found.todo)  # a backlog doesn't fail the check
    if load_settings().redis_url is None:  # otherwise checked directly
        silent: dict[str, float | None] = stats.get("silent_seconds", {})
        for found in silence_findings(silent):
            is_new = found.severity == "trouble" and silent[found.code.removeprefix("lane_")] is None
            yield replace(found, severity="attention") if is_new else found  # the process may still be starting
