"""Add to findings the command to run, in the form that this installation needs, and the runbook's section."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

from app.domain.health_findings import READ_LOG, WAIT, Finding

InstallationKind = Literal["run", "compose", "kubernetes", "processes"]

STORES: Final = frozenset({"postgres", "redis"})
SECRETS: Final = frozenset({"EBBING_OPENAI_API_KEY"})
"""Settings whose values don't belong in a command line."""
MANIFESTS: Final = "ops/kubernetes/base"


@dataclass(frozen=True)
class Installation:
    """The running installation.

    Attributes:
        kind: `run` for `ebbing run`, `processes` for processes that the operator starts.
        home: Absolute path of the home; used with `run`.
        pids: Process ids of the workers and of beat, by lane or "beat"; used with `run`.
        address: `EBBING_HOST` and `EBBING_PORT` of the running service where they aren't the defaults; used with `run`.
    """

    kind: InstallationKind = "processes"
    home: str = ".ebbing"
    pids: Mapping[str, int] = field(default_factory=dict)
    address: Mapping[str, str] = field(default_factory=dict)

    def ebbing(self, arguments: str) -> str:
        """Return the shell command that runs `ebbing` with these arguments here."""
        match self.kind:
            case "run":
                return f"EBBING_HOME={shlex.quote(self.home)} ebbing {arguments}"
            case "compose":
                return f"docker compose exec -e EBBING_API_KEY api ebbing {arguments}"
            case "kubernetes":
                key = 'env EBBING_API_KEY="$EBBING_API_KEY"'
                return f"kubectl --namespace ebbing exec deploy/api -- {key} ebbing {arguments}"
            case "processes":
                return f"ebbing {arguments}"

    def restart(self, source: str) -> str:
        """Return the shell command that restarts a lane's worker, or beat.

        With `run`, the command ends the process, and the supervisor starts it again; without a process id, the command
        shows the end of its log.
        """
        name = process_name(source)
        match self.kind:
            case "run":
                return _kill(self.pids[source]) if source in self.pids else self.read_log(source)
            case "compose":
                return f"docker compose restart {name}"
            case "kubernetes":
                return f"kubectl --namespace ebbing rollout restart deploy/{name}"
            case "processes":
                return "ebbing beat" if source == "beat" else f"ebbing worker --lane {source}"

    def read_log(self, source: str) -> str:
        """Return the shell command that shows the end of a process's log; empty if its place is unknown."""
        name = process_name(source)
        if source in STORES and self.kind == "kubernetes":
            return ""  # the manifests contain no stores
        match self.kind:
            case "run":
                return f"tail -n 50 {shlex.quote(f'{self.home}/logs/{name}.log')}"
            case "compose":
                return f"docker compose logs --tail 50 {name}"
            case "kubernetes":
                return f"kubectl --namespace ebbing logs --tail 50 deploy/{name}"
            case "processes":
                return ""

    def change(self, setting: str) -> tuple[str, str]:
        """Return how to change a setting here, and the shell command that applies the change, or an empty command."""
        is_secret = setting in SECRETS
        match self.kind:
            case "run":
                value = '"$(cat KEY_FILE)"' if is_secret else "NEW_VALUE"
                step = "stop `ebbing run` with Ctrl-C and start it again with the new value, and with the other "
                step += "settings that you passed last time and that aren't in `.env`"
                return step, self._start(f"{setting}={value}")
            case "compose":
                return "edit `.env` and recreate the containers", "docker compose up --detach --wait"
            case "kubernetes":
                file, apply = ("secrets.yaml", "-f secrets.yaml") if is_secret else ("config.yaml", f"-k {MANIFESTS}")
                restart = "kubectl --namespace ebbing rollout restart deploy"
                return f"edit `{file}`, apply it and restart the processes", f"kubectl apply {apply} && {restart}"
            case "processes":
                return "restart every process with the new value", ""

    def _start(self, *changed: str) -> str:
        """Return the shell command that starts the service again at its present address, with changed settings."""
        settings = {"EBBING_HOME": self.home, **self.address}
        return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in settings.items()), *changed, "ebbing run"])

    def migrate(self) -> str:
        """Return the shell command that brings the schema to the service's version."""
        match self.kind:
            case "run":
                return self._start()  # it migrates when it starts
            case "compose":
                return "docker compose run --rm migrate"
            case "kubernetes":
                job = "kubectl --namespace ebbing delete job/migrate --ignore-not-found"
                selected = "--selector app.kubernetes.io/component=migrate"
                return f"{job} && kubectl apply -k {MANIFESTS} {selected}"
            case "processes":
                return "ebbing migrate"


def _kill(pid: int) -> str:
    return f"kill -KILL {pid}"


def process_name(source: str) -> str:
    """Return the name of a lane's worker, or of another process, in services, deployments and log files."""
    return source if source in {"beat", "api", *STORES} else f"worker-{source}"


def advise(finding: Finding, installation: Installation) -> Finding:
    """Return the finding with the command to run and the section of the runbook, unless it has them already.

    Commands in `what` and `todo` are rewritten for this installation. If `todo` ends with "run" and a command in
    backticks, this command moves to the attribute `command`, unless that attribute is already set.
    """
    advised = _advise(finding, installation)
    last = _LAST_COMMAND.fullmatch(advised.todo)
    if advised.command or last is None or advised.severity == "ok":
        return advised
    return replace(advised, todo=f"{last[1]}run this command", command=last[2])


def _advise(finding: Finding, installation: Installation) -> Finding:
    if finding.severity == "ok" or finding.todo == WAIT:
        return finding
    rewrite = partial(_COMMAND.sub, lambda match: f"`{_rewrite(match[1], installation)}`")
    finding = replace(finding, what=rewrite(finding.what), todo=rewrite(finding.todo))
    advice = _find_advice(finding.code)
    if advice is None:
        return finding
    if finding.setting:
        step, command = installation.change(finding.setting)
        return replace(
            finding,
            todo=f"{finding.todo}; to change the setting, {step}",
            command=command,
            section=finding.section or advice.section,
        )
    todo = finding.todo
    if finding.pid is not None and installation.kind in {"run", "processes"}:
        todo, finding = (
            "end the process, which the worker replaces at once",
            replace(finding, command=_kill(finding.pid)),
        )
    elif advice.command is _restart and installation.kind == "run":
        is_there = finding.code.removeprefix("lane_") in installation.pids
        todo = "end the process, which is started again at once" if is_there else "read in its log why it doesn't start"
    command = finding.command or advice.command(installation, finding.code)
    if advice.command is _log_of_provider and finding.code != "provider_unchecked" and READ_LOG not in todo:
        command = ""
    has_command = "`" in todo  # a second command below the text would look like part of the same step
    return replace(
        finding, todo=todo, command="" if has_command else command, section=finding.section or advice.section
    )


_COMMAND: Final = re.compile(r"`ebbing (?!run\b)([^`]+)`")


_LAST_COMMAND: Final = re.compile(r"([^`]*)run `([^`]+)`")


def _rewrite(arguments: str, installation: Installation) -> str:
    if arguments == "migrate":
        return installation.migrate()
    return installation.ebbing(arguments)


@dataclass(frozen=True)
class _Advice:
    section: str
    command: Callable[[Installation, str], str]


def _run(arguments: str) -> Callable[[Installation, str], str]:
    return lambda installation, _code: installation.ebbing(arguments)


def _restart(installation: Installation, code: str) -> str:
    return installation.restart(code.removeprefix("lane_"))


def _log_of_lane(installation: Installation, code: str) -> str:
    return installation.read_log(code.removeprefix("old_").removeprefix("restarts_"))


def _log_of_provider(installation: Installation, code: str) -> str:
    source = {"provider_embed": "embed", "provider_rerank": "api", "provider_score": "score"}
    return installation.read_log(source.get(code, "maintain"))


def _log_of_store(installation: Installation, code: str) -> str:
    return installation.read_log({"postgresql": "postgres", "redis_full": "redis"}.get(code, code))


def _nothing(_installation: Installation, _code: str) -> str:
    return ""


_ADVICE: Final[Mapping[str, _Advice]] = {
    "postgresql": _Advice("service-fails", _log_of_store),
    "redis": _Advice("service-fails", _log_of_store),
    "schema": _Advice("service-fails", _nothing),
    "erasures": _Advice("restoring", _nothing),
    "beat": _Advice("find-a-stuck-lane", _restart),
    "dead_letters": _Advice("dead-letters", _run("dead-letters")),
    "other_dead_letters": _Advice("dead-letters", _nothing),
    "night_failed": _Advice("night-missed", _run("jobs --type night")),
    "night_overdue": _Advice("night-missed", _run("schedule")),
    "night_cut_short": _Advice("night-missed", _run("schedule run night")),
    "privacy_due": _Advice("promise-at-risk", _run("privacy log")),
    "rewrites_late": _Advice("late-segments", _run("jobs --type compact")),
    "recall_empty": _Advice("recall-empty", _run("maintain selftest --wait")),
    "webhooks_disabled": _Advice("webhook-disabled", _run("webhooks list")),
    "webhooks_failing": _Advice("webhook-disabled", _run("webhooks list")),
    "lost": _Advice("work-lost", _run("queue")),
    "redis_full": _Advice("service-fails", _log_of_store),
    "disk_full": _Advice("service-fails", _nothing),
    "budget": _Advice("provider-fails", _run("usage")),
}
_BY_PREFIX: Final = (
    ("lane_", _Advice("find-a-stuck-lane", _restart)),
    ("restarts_", _Advice("find-a-stuck-lane", _log_of_lane)),
    ("old_", _Advice("work-waits", _log_of_lane)),
    ("provider", _Advice("provider-fails", _log_of_provider)),
)


def _find_advice(code: str) -> _Advice | None:
    by_prefix = (advice for prefix, advice in _BY_PREFIX if code.startswith(prefix))
    return _ADVICE.get(code) or next(by_prefix, None)
