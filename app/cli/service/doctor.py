"""`ebbing doctor`: check the service's dependencies and suggest fixes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from app.cli.core.failures import Code, Failure
from app.cli.core.output import AsJson, Url, console, examples, plain, print_json, so_many
from app.cli.core.place import configuration, find, noted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.cli.core.client import Api
    from app.services.monitoring.doctor import Finding, Level

router = typer.Typer()

MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
SUPPORTED = {(3, 11), (3, 12)}
OTHERS_MAY_READ = 0o006
OTHERS_MAY_ANYTHING = 0o077
LATE_SECONDS = 60


@router.command(epilog=examples("ebbing doctor", "EBBING_HOME=/srv/ebbing ebbing doctor", "ebbing doctor --json"))
def doctor(url: Url = None, as_json: AsJson = False) -> None:
    """Check every dependency and suggest fixes. The exit code is 1 if a check fails."""
    findings = list(_findings(url))
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        shown = [{"name": one.name, "level": one.level, "detail": one.detail} for one in findings]
        print_json({"well": not failed, "checks": shown})
    else:
        from rich.text import Text

        screen = console()
        for one in findings:
            mark, colour = MARKS[one.level]
            screen.print(Text(f"{mark} ", style=colour).append(f"{one.name:<20}{plain(one.detail)}", style="default"))
    raise typer.Exit(Code.FAILED if failed else Code.OK)


def _findings(url: str | None) -> Iterator[Finding]:
    from app.cli.core.client import Api
    from app.services.monitoring import doctor

    yield _python()
    yield _home()
    yield doctor.embedder_loads()
    yield doctor.reranker_loads()
    config = configuration()
    yield from doctor.models(config)
    yield doctor.dynamics()
    if config.database_url is not None:
        yield from doctor.postgresql()
        yield from doctor.embedding_spaces()
        yield from doctor.missing_dynamics()
        yield from doctor.cold_keys()
    yield from doctor.cold_storage(config)
    if config.redis_url is not None:
        yield from doctor.redis()
        yield from doctor.processes()
    with Api(find(url)) as api:
        yield from _service(api)


def _python() -> Finding:
    from app.services.monitoring.doctor import Finding

    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] in SUPPORTED:
        return Finding("python", "ok", version)
    return Finding("python", "fail", f"{version} is not supported: use Python 3.11 or 3.12")


def _home() -> Finding:
    from app.services.monitoring.doctor import Finding

    home = configuration().home.resolve()
    key = home / "api-key"
    if not home.exists():
        return Finding("home", "warn", f"{home} doesn't exist yet: `ebbing run` creates it, or set EBBING_HOME")
    if not home.is_dir():
        return Finding("home", "fail", f"{home} is not a folder: set EBBING_HOME to another path")
    if home.stat().st_mode & OTHERS_MAY_READ:
        return Finding("home", "warn", f"{home} is readable by other users: run `chmod 700 {home}`")
    if key.exists() and key.stat().st_mode & OTHERS_MAY_ANYTHING:
        return Finding("home", "warn", f"{key} is readable by other users: run `chmod 600 {key}`")
    running = "; `ebbing run` is running here" if noted(home / "api-url") else ""
    return Finding("home", "ok", f"{home}{running}")


def _service(api: Api) -> Iterator[Finding]:
    """Check the API and the dependencies that it reports; embedded servers are visible only through it."""
    from app.cli.core.client import Refused
    from app.services.monitoring.doctor import Finding

    try:
        answer: dict[str, Any] = api.call("GET", "/readyz", with_key=False).body
        yield Finding("api", "ok", f"{api.place.url} is ready")
    except Refused as refused:
        answer = refused.body
        reason = "" if "dependencies" in answer else f": {refused}"
        yield Finding("api", "fail", f"{api.place.url} isn't ready{reason}")
    except Failure as failure:
        yield Finding("api", "fail", str(failure))
        return
    for dependency in answer.get("dependencies", []):
        level: Level = "ok" if dependency.get("well") else "fail"
        yield Finding(f"api: {dependency.get('name')}", level, str(dependency.get("detail", "")))
    yield from _tenant(api)


def _tenant(api: Api) -> Iterator[Finding]:
    """Check the API key, the tenant's backlog and dead letters, and the processes."""
    from app.services.monitoring.doctor import Finding

    try:
        stats = api.stats()
    except Failure as failure:
        yield Finding("api key", "fail", str(failure))
        return
    yield Finding("api key", "ok", "valid")
    if letters := stats.get("dead_letters"):
        wait = so_many(letters, "dead letter needs", "dead letters need")
        detail = f"{wait} a decision: replay or discard with `ebbing dead-letters`"
        yield Finding("dead letters", "warn", detail)
    space = stats.get("embedding_space")
    if space and not space["is_settings"]:
        detail = f"searches use {space['model']}, but the settings name another model: run `ebbing reembed`"
        yield Finding("embedding space", "warn", detail)
    for name, lane in stats["lanes"].items():
        if lane["depth"] and lane["oldest_age_seconds"] > LATE_SECONDS:
            detail = f"{lane['depth']} pending, oldest {lane['oldest_age_seconds']:.0f} s"
            yield Finding(f"lane {name}", "warn", detail)
    if configuration().redis_url is None:  # otherwise checked directly
        yield from _heartbeats(stats.get("silent_seconds", {}))


def _heartbeats(silent: dict[str, float | None]) -> Iterator[Finding]:
    """Check the last heartbeat of each lane's worker and of beat, as reported by the API."""
    from app.services.monitoring import doctor

    for source, seconds in silent.items():
        found = doctor.process(source, seconds)
        yield replace(found, level="warn") if seconds is None else found  # the process may still be starting
