"""Probe the service's dependencies: PostgreSQL, Redis, processes, disks and backups."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import structlog

from app import heartbeats
from app.clients.redis import probing
from app.clients.redis.connection import (
    PROBE,
    RedisError,
    RedisTimeout,
    ResponseError,
    check_settings,
    connect,
)
from app.clients.redis.connection_check import QueueReplaced
from app.domain.health_findings import (
    STARTING_SECONDS,
    Finding,
    exposed_secret_finding,
    ok,
    restart_findings,
    silence_findings,
    storage_findings,
    trouble,
)
from app.errors import Misconfigured
from app.secret_settings import list_exposed
from app.services.erasure import ledger
from app.services.monitoring import stuck_processes
from app.services.security import master_keys
from app.services.transient_errors import is_transient
from app.settings import Settings, settings
from app.store.core import database
from app.system.running_home import find_process

log = structlog.get_logger(__name__)


T = TypeVar("T")
Probe: TypeAlias = Callable[[], Iterable[Finding]]

ROLE: Final = "row-level_security"
DEPLOYED: Final = frozenset({"schema", "master_key", ROLE})
"""Codes of findings about the deployment, which don't pass by themselves."""


class _Uptime:
    """Time since the start of the application in this process."""

    def __init__(self) -> None:
        self.started_at: float | None = None

    def seconds(self) -> float:
        """Return the seconds since the start; infinite in processes without the application."""
        return float("inf") if self.started_at is None else time.monotonic() - self.started_at


_uptime = _Uptime()


def note_start() -> None:
    """Note that the application starts now."""
    _uptime.started_at = time.monotonic()


def is_starting() -> bool:
    """Return whether the application has just started, so that workers may not have sent a heartbeat yet."""
    return _uptime.seconds() < STARTING_SECONDS


def note_end() -> None:
    """Note that the application has ended."""
    _uptime.started_at = None


def check_redis() -> None:
    """Refuse to start on a Redis whose settings could lose memories; only warn if Redis is unreachable.

    Raises:
        Misconfigured: A Redis setting could lose accepted data. The error, with its remedy, is also logged.
    """
    try:
        for remark in check_settings(connect()):
            log.warning("redis_settings", remark=remark)
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)
    except Misconfigured as error:
        log.critical("misconfigured", what=str(error))
        raise


@dataclass(frozen=True)
class RedisRoom:
    """Redis's memory use and limit in bytes (`limit` is 0 if there is none), and whether it rejects writes."""

    used: int
    limit: int
    refuses: bool


def redis_room() -> RedisRoom:
    """Return Redis's memory use and whether it accepts writes, tested by writing a key that expires."""
    used, limit = redis_memory()
    try:
        probing.probe_client().set(PROBE, 1, ex=60)
        refuses = False
    except ResponseError:  # Redis is out of memory, can't write its append-only file, or was demoted to a replica
        refuses = True
    return RedisRoom(used, limit, refuses)


def redis_memory() -> tuple[int, int]:
    """Return Redis's memory use and its limit in bytes; the limit is 0 if there is none."""
    memory = cast("dict[str, int]", probing.probe_client().info("memory"))
    return memory["used_memory"], memory["maxmemory"]


def disks_free() -> dict[str, float]:
    """Return the free share, 0 to 1, of each local disk, keyed by the data stored on it."""
    config = settings()
    home = config.home.absolute()
    folders = {
        "home": next(parent for parent in (home, *home.parents) if parent.is_dir()),
        "postgresql": home / "postgres",
    }
    cold = urlsplit(config.cold_url or "")
    folders["cold"] = Path(cold.path) if cold.scheme == "file" else home / "cold"
    shares = {}
    for name, folder in folders.items():
        if folder.is_dir():
            usage = shutil.disk_usage(folder)
            shares[name] = usage.free / usage.total
    return shares


def backup_age_seconds() -> float | None:
    """Return the seconds since the last backup finished: infinity if none did, None if no backup mark is configured."""
    mark = settings().backup_mark
    if mark is None:
        return None
    try:
        return max(time.time() - mark.stat().st_mtime, 0.0)
    except OSError:
        return float("inf")


class Round:
    """A round of probes. If a probe finds a store unavailable, the round skips later probes that need this store.

    Attributes:
        away: Names of the unavailable stores.
    """

    def __init__(self, *away: str, tolerated: tuple[type[Exception], ...] = ()) -> None:
        self.away = set(away)
        self._tolerated = tolerated

    def read(self, ask: Callable[[], T], *stores: str) -> T | None:
        """Return the result of `ask`; None if one of these stores is unavailable, or on a tolerated or transient error.

        After a transient error, all of these stores count as unavailable for the rest of the round.
        """
        if self.away & set(stores):
            return None
        try:
            return ask()
        except Exception as error:
            if not is_transient(error) and not isinstance(error, self._tolerated):
                raise
            if is_transient(error):
                self.away.update(stores)
            return None

    def find(self, probe: Probe, *stores: str) -> list[Finding]:
        """Return the findings of a probe. A store with a finding of trouble counts as unavailable in later probes."""
        found = self.read(lambda: list(probe()), *stores) or []
        self.away |= {finding.code for finding in found if finding.severity == "trouble"}
        return found


def readiness() -> list[Finding]:
    """Probe PostgreSQL, its schema and the service's role, and Redis."""
    return [*_database(), _redis()]


def deployment_faults() -> list[Finding]:
    """Return faults of the deployment that only an operator can end, such as an outdated schema.

    None are found while PostgreSQL is away: nothing is known then.
    """
    return [one for one in _database() if one.severity != "ok" and one.code in DEPLOYED]


def _database() -> list[Finding]:
    from app.store.core import migrate  # noqa: PLC0415 - Alembic is slow to import, and no worker needs it

    try:
        with database.shared() as tx:
            revision = migrate.current_revision(tx)
        bypasses = database.bypasses_row_security()
    except database.DatabaseError as error:
        what = f"PostgreSQL can't be reached ({type(error).__name__})"
        return [trouble("postgresql", what, "start it, or read in its log why it stopped")]
    findings = [ok("postgresql", "answers")]
    newest = migrate.newest_revision()
    if revision is None or (revision != newest and migrate.is_known(revision)):
        state = "is empty" if revision is None else f"has the revision {revision}"
        what = f"the database's schema {state}, and this version needs {newest}"
        findings.append(trouble("schema", what, "run `ebbing migrate`"))
    else:  # during a rolling upgrade, the previous version must run on the newer schema
        newer = "" if revision == newest else ", from a newer version"
        problem = ledger.diagnose(ledger.standing())
        findings.append(ok("schema", f"revision {revision}{newer}"))
        what, _, todo = (problem or "").partition(": ")
        findings.append(trouble("erasures", what, todo) if problem else ok("erasures", "none to replay"))
    if missing := master_keys.find_missing():
        findings.append(trouble("master_key", master_keys.describe_missing(missing), master_keys.REMEDY))
    if bypasses:
        what = "the service's role can bypass row-level security, so tenants aren't isolated"
        findings.append(trouble(ROLE, what, "connect as a role that is neither a superuser nor has BYPASSRLS"))
    return findings


def _redis() -> Finding:
    try:
        refuses = redis_room().refuses
    except QueueReplaced as error:
        what, _, todo = str(error).partition("; ")
        return replace(trouble("redis", what, todo), section="redis-refused")
    except RedisError as error:
        pid = find_process(settings().home, "redis") if isinstance(error, RedisTimeout) else None
        if pid is not None:
            what = f"Redis hangs: its process {pid} hasn't answered for {probing.TIMEOUT_SECONDS:g} s"
            found = trouble("redis", what, "end the process, which is started again at once")
            return replace(found, command=f"kill -KILL {pid}")
        what = f"Redis can't be reached ({type(error).__name__})"
        return trouble("redis", what, "start it, or read in its log why it stopped")
    if refuses:
        what = "Redis refuses writes, because its memory or its disk is full, or because it is a replica"
        return replace(trouble("redis", what, "make room, or raise its `maxmemory`"), section="service-fails")
    return ok("redis", "answers")


def processes() -> list[Finding]:
    """Report the heartbeat age of each lane's worker and of beat, stuck processes of the workers, and restarts."""
    return [
        *silence_findings(heartbeats.heartbeat_ages(), stuck_processes.list_stuck(), is_starting=is_starting()),
        *restart_findings(heartbeats.list_restarts()),
    ]


def secret_files() -> list[Finding]:
    """Report the files of secrets (`…_FILE`) that every user of this machine may read."""
    findings = [exposed_secret_finding(variable, str(path)) for variable, path in list_exposed(Settings)]
    if settings().installation in {"run", "processes"}:
        return findings
    # The file is mounted, so its mode is set on the host or in the manifest: propose no command.
    return [replace(finding, command="") for finding in findings]


def storage() -> list[Finding]:
    """Report Redis memory and disks that are nearly full."""
    used, limit = redis_memory()
    return storage_findings(used / limit if limit else 0.0, disks_free())
