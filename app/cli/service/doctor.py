"""`ebbing doctor`: check the service's dependencies and suggest fixes."""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.core import tables
from app.cli.core.connection import find_connection, load_settings
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, examples, plain, print_json
from app.cli.core.waiting import each_waiting_for
from app.domain.health_findings import Finding, attention, line, ok, trouble
from app.system import running_home

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterator, Mapping
    from pathlib import Path

    from app.cli.core.client import Api

router = typer.Typer()

SHOWN = {"ok": ("ok", "✓", "green"), "attention": ("warn", "!", "yellow"), "trouble": ("fail", "✗", "red")}
"""The level in JSON, the mark and its colour, by severity."""
SUPPORTED = {(3, 11), (3, 12)}
FIELDS = {field.name for field in fields(Finding)}
NAME_COLUMNS = 20
PROVIDER = "provider"
TIMEOUT_SECONDS = 15.0
"""Timeout for an answer of the service: twice the timeout of its own probes of PostgreSQL and Redis."""
UNBROKEN = "\u2060"
"""Stands for a space at which a line isn't wrapped."""
OTHERS_MAY_READ = 0o006
OTHERS_MAY_ANYTHING = 0o077


Strict = Annotated[bool, typer.Option("--strict", help="Also exit with 1 if there are warnings but no problems.")]


@router.command(
    epilog=examples("ebbing doctor", "EBBING_HOME=/srv/ebbing ebbing doctor --strict", "ebbing doctor --json")
)
def doctor(url: Url = None, strict: Strict = False, as_json: AsJson = False) -> None:
    """Check every dependency and suggest fixes.

    The exit code is 0 if no problem (✗) was found, and 1 otherwise. Warnings (!) don't change it, except with --strict.
    """
    findings: list[Finding] = []
    for found in each_waiting_for(_findings(url), "running the checks"):
        findings.append(found)
        if not as_json:
            _print(found)
    failed = any(found.severity == "trouble" for found in findings)
    warnings = sum(found.severity == "attention" for found in findings)
    if as_json:
        shown = [{"name": one.name, "level": SHOWN[one.severity][0], "detail": one.detail} for one in findings]
        print_json({"well": not failed, "warnings": warnings, "checks": shown})
    else:
        typer.echo(f"{line(findings)}.")
    raise typer.Exit(Code.FAILED if failed or (strict and warnings) else Code.OK)


def _print(found: Finding) -> None:
    """Print a finding as soon as it is known: the state, the next step and the command, each on a line of its own.

    Long lines are wrapped, but not within a command to copy.
    """
    _, mark, colour = SHOWN[found.severity]
    # The rest of such a code, for example `score`, is omitted: the finding's text says which calls are affected.
    head = PROVIDER if found.code.startswith(f"{PROVIDER}_") else found.name
    width = tables.page_columns() - 2
    for text in found.lines:
        is_command = text == found.command
        parts = plain(text).split("`")
        kept = "`".join(
            part.replace(" ", UNBROKEN) if place % 2 or is_command else part for place, part in enumerate(parts)
        )
        for wrapped in tables.fields([(head, kept)], NAME_COLUMNS, width):
            start = typer.style(mark, fg=colour) if head else " "
            typer.echo(f"{start} {wrapped}".replace(UNBROKEN, " "))
            head = ""


def _findings(url: str | None) -> Iterator[Finding]:
    from app.cli.core.client import Api

    load_settings()  # refuse invalid settings
    yield _python()
    yield _home()
    from app.services.monitoring import doctor

    known = set()
    for found in doctor.examine():
        known.add((found.code, found.what))
        yield found
    with Api(find_connection(url), timeout_seconds=TIMEOUT_SECONDS) as api:
        yield from _service(api, known)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] in SUPPORTED:
        return ok("python", version)
    return trouble("python", f"Python {version} isn't supported", "use Python 3.11 or 3.12")


def _home() -> Finding:
    home = load_settings().home.resolve()
    key = home / "api-key"
    if not home.exists():
        return attention("home", f"{home} doesn't exist yet", "`ebbing run` creates it, or set EBBING_HOME")
    if not home.is_dir():
        return trouble("home", f"{home} is not a folder", "set EBBING_HOME to another path")
    if home.stat().st_mode & OTHERS_MAY_READ:
        return _exposed(home, "700")
    if key.exists() and key.stat().st_mode & OTHERS_MAY_ANYTHING:
        return _exposed(key, "600")
    return ok("home", f"{home}{'; `ebbing run` is running here' if running_home.is_running(home) else ''}")


def _exposed(path: Path, mode: str) -> Finding:
    found = attention("home", f"other users of this machine can open {path}", "take their access away")
    return replace(found, command=f"chmod {mode} {shlex.quote(str(path))}")


def _service(api: Api, known: Container[tuple[str, str]]) -> Iterator[Finding]:
    """Report the findings of the service, and its readiness; embedded servers are visible only through it.

    The service judges its own state, so that this command and the dashboard show the same.

    Args:
        known: Code and state of the findings that are reported already.
    """
    dependencies = yield from _readiness(api)
    if dependencies is None:
        return
    try:
        findings = _read_findings(api)
    except CommandFailure as failure:
        yield from _dependencies(dependencies)
        yield from _refused(failure, is_well=all(one.get("well") for one in dependencies.values()))
        return
    failing = {finding.code for finding in findings if finding.severity != "ok"}
    yield from _dependencies({name: one for name, one in dependencies.items() if name.replace(" ", "_") not in failing})
    yield ok("api_key", "valid")
    for finding in findings:
        if (finding.code, finding.what) in known:
            continue
        code = finding.code.replace("old_", "lane_")
        if code.replace("_", " ") not in dependencies:
            yield replace(finding, code=code)
        elif finding.severity != "ok":
            yield replace(finding, code=f"api: {code}")


def _readiness(api: Api) -> Generator[Finding, None, dict[str, dict[str, Any]] | None]:
    """Report whether the service is ready, and return its dependencies by name.

    Returns None if it can't be reached or another program answers, because further requests would fail.
    """
    from app.cli.core.client import ApiRefusal, Unreachable, describe_stranger

    answer: dict[str, Any]
    try:
        answer = api.call("GET", "/readyz", with_key=False).body
    except ApiRefusal as refused:
        answer = refused.body
        if _is_readiness(answer):
            yield trouble("api", f"{api.place.url} isn't ready", "see the lines that follow")
        else:
            yield trouble("api", f"{api.place.url} isn't ready ({refused})")
            answer = {"dependencies": []}
    except CommandFailure as failure:
        if isinstance(failure, Unreachable):
            yield replace(trouble("api", failure.what, failure.todo), command=failure.command)
        else:
            yield trouble("api", str(failure))
        answer = {}
    else:
        if _is_readiness(answer):
            yield ok("api", f"{api.place.url} is ready")
        else:
            yield trouble("api", *describe_stranger(api.place.url, "no `dependencies`").split(": ", 1))
    if _is_readiness(answer):
        return {str(one.get("name")): one for one in answer["dependencies"]}
    yield from _unasked("the service can't be asked", "see api above")
    return None


def _is_readiness(answer: Mapping[str, Any]) -> bool:
    """Return whether this is the body of `/readyz`, ready or not."""
    dependencies = answer.get("dependencies")
    return isinstance(dependencies, list) and all(isinstance(one, dict) for one in dependencies)


def _read_findings(api: Api) -> list[Finding]:
    """Return the service's findings, without fields that only later versions have.

    Raises:
        CommandFailure: The service refuses, or another program answers.
    """
    from app.cli.core.client import describe_stranger

    shown = api.call("GET", "/v1/status").body["findings"]
    try:
        findings = [Finding(**{name: value for name, value in one.items() if name in FIELDS}) for one in shown]
        return [one for one in findings if one.severity in SHOWN]
    except (TypeError, AttributeError):
        raise CommandFailure(describe_stranger(api.place.url, "other findings")) from None


def _refused(failure: CommandFailure, *, is_well: bool) -> Iterator[Finding]:
    """Report that the service doesn't state its findings.

    Args:
        is_well: False if the readiness check has reported a problem, which then explains a server error.
    """
    status = getattr(failure, "status", 0)
    if status == HTTPStatus.NOT_FOUND:
        yield ok("api_key", "not checked")
        yield from _unasked("the service has an earlier version", "upgrade it")
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        if is_well:
            yield trouble("api: status", str(failure))
        yield from _unasked("the service refuses requests", "see the problems above")
    elif failure.code != Code.NOT_ALLOWED:
        yield trouble("api: status", str(failure))
        yield from _unasked("the service can't be asked", "see api: status above")
    else:
        yield trouble("api_key", str(failure))
        yield from _unasked("the service refused to answer", "see api key above")


def _dependencies(dependencies: Mapping[str, dict[str, Any]]) -> Iterator[Finding]:
    for name, one in dependencies.items():
        yield (ok if one.get("well") else trouble)(f"api: {name}", str(one.get("detail", "")))


def _unasked(why: str, todo: str) -> Iterator[Finding]:
    """Report what is unknown without the service, and the processes if this shell has the URL of their Redis.

    The settings of this shell may differ from the service's, so they say nothing about the service's provider.
    """
    from app.services.monitoring import doctor

    yield from doctor.examine_processes()
    yield attention("provider", f"the state of the model provider is unknown, because {why}", todo)
