"""The service on servers that flush their writes, and ways to break it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

import httpx
import psycopg
import redis

from app.domain.policy.api_keys import SCOPES
from app.embedded import EmbeddedError, Postgres, Redis, Server, free_ports, has_ended
from app.store.core.migrate import upgrade
from app.store.core.provision import create_database
from tests.faults.conservation import Books
from tests.faults.load import Caller
from tests.installation import make_tenant
from tests.processes import Processes
from tests.waiting import PATIENCE_SECONDS, until

# Leases are short, so that another worker soon repeats the work of a killed one. On a slow machine, leases of live
# workers expire too: a high limit keeps such work out of the dead letters.
DELIVERIES_MAX = 1000
CLAIM_IDLE_SECONDS = 2
LEASE_SECONDS = 3
SHUTDOWN_SECONDS = 3
DRAIN_BYTES = 1 << 20
COUNTED = {
    "EBBING_DELIVERIES_MAX": "3",
    "EBBING_CLAIM_IDLE_SECONDS": str(PATIENCE_SECONDS),
    "EBBING_LEASE_SECONDS": str(PATIENCE_SECONDS),
}

DATABASE = "ebbing"
ROLE = "ebbing_service"
ROLE_PASSWORD = "of-a-throw-away-server"
# Failpoints at which an armed process dies.
PLACES = (
    "api.before_accept",
    "api.after_accept",
    "drain.before_store",
    "drain.before_commit",
    "drain.before_settle",
    "index.before",
    "index.before_finish",
    "embed.before",
    "embed.before_finish",
    "score.before",
    "score.before_finish",
)
WORKERS = {"worker-ingest": ("ingest", 2), "worker-embed": ("embed", 1), "worker-score": ("score", 2)}


class Plant:
    """PostgreSQL, Redis, the API, workers and beat, each of which can be killed separately.

    Always uses the embedded servers, even if the tests were given URLs, so that no other server is killed.
    """

    def __init__(self, home: Path) -> None:
        """Choose ports and paths in a folder that the servers' users may enter, without starting anything."""
        postgres_port, redis_port, api_port = free_ports(3)
        self.postgres = Postgres(home, postgres_port)
        self.redis = Redis(home, redis_port)
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"http://127.0.0.1:{api_port}"
        self.database_url = self.postgres.database_url(DATABASE, ROLE, ROLE_PASSWORD)
        self.owner_url = self.postgres.database_url(DATABASE)
        self.books = Books(self.owner_url, self.redis.url)
        self._marks = home / "marks"
        self._marks.mkdir()
        for place in PLACES:
            self._mark(place).touch()
        self.processes = Processes(
            home,
            {
                "EBBING_HOME": str(home),
                "EBBING_DATABASE_URL": self.database_url,
                "EBBING_REDIS_URL": self.redis.url,
                "EBBING_PORT": str(api_port),
                "EBBING_CLAIM_IDLE_SECONDS": str(CLAIM_IDLE_SECONDS),
                "EBBING_LEASE_SECONDS": str(LEASE_SECONDS),
                "EBBING_DELIVERIES_MAX": str(DELIVERIES_MAX),
                "EBBING_DRAIN_BYTES": str(DRAIN_BYTES),
                "EBBING_SHUTDOWN_SECONDS": str(SHUTDOWN_SECONDS),
                "EBBING_FAILPOINTS": ",".join(f"{place}!{self._mark(place)}" for place in PLACES),
            },
        )

    def set_up(self) -> None:
        """Start the servers and create the database."""
        for server in (self.postgres, self.redis):
            self.start_server(server)
        create_database(self.postgres.url, DATABASE, ROLE, ROLE_PASSWORD)
        upgrade(self.owner_url)

    def mend(self) -> None:
        """Start every process that isn't running, and wait until the service is ready."""
        for server in (self.postgres, self.redis):
            if server.name not in self.servers or has_ended(self.servers[server.name]):
                self.start_server(server)
        for name, process in list(self.processes.running.items()):
            if has_ended(process):
                self.processes.kill(name)
        if "api" not in self.processes.running:
            self.processes.start("api", "api")
        if "beat" not in self.processes.running:
            self.processes.start("beat", "beat")
        for name in WORKERS:
            if name not in self.processes.running:
                self.start_worker(name)
        self.processes.wait_until_answers("api", f"{self.url}/readyz")

    def start_server(self, server: Server) -> None:
        """Start a server, retrying while children of a killed predecessor still hold its resources."""

        def has_started() -> bool:
            try:
                self.servers[server.name] = server.start()
            except EmbeddedError as error:
                if "still in use" not in str(error):
                    raise
                return False
            return True

        until(has_started, f"{server.name} starts")

    def kill_server(self, server: Server) -> None:
        """Kill only the server's main process, as `kill -9` or the kernel would."""
        process = self.servers[server.name]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def arm(self, place: str) -> None:
        """Make the next process that reaches this failpoint die there, once."""
        self._mark(place).unlink()

    def died_at(self, place: str) -> float:
        """Return when a process died at the armed failpoint, in seconds since 1970; 0 if none has."""
        mark = self._mark(place)
        return mark.stat().st_mtime if mark.exists() else 0

    def _mark(self, place: str) -> Path:
        """Return the file whose presence disarms the failpoint."""
        return self._marks / place

    def start_worker(self, name: str, **settings: str) -> None:
        lane, processes = WORKERS[name]
        self.processes.start(name, "worker", "--lane", lane, "--concurrency", str(processes), **settings)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Stop a worker with SIGSTOP during the block, so that another one does its work."""
        self.processes.signal_all_of(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes.signal_all_of(name, signal.SIGCONT)

    @contextmanager
    def replaced(self, name: str, failpoint: str, **settings: str) -> Iterator[str]:
        """Replace a worker by one with this failpoint inside the block, and yield the replacement's name.

        The replacement sets work aside after three deaths. Its leases don't expire in a test's time: call
        `Books.end_leases` for the next try.
        """
        frail = f"frail-{name}"
        lane, processes = WORKERS[name]
        arguments = ["worker", "--lane", lane, "--concurrency", str(processes)]
        with self.paused(name):
            self.processes.start(frail, *arguments, EBBING_FAILPOINTS=failpoint, **COUNTED, **settings)
            try:
                yield frail
            finally:
                self.processes.kill(frail)
                self.books.end_leases()

    @contextmanager
    def configured(self, name: str, **settings: str) -> Iterator[None]:
        """Run a worker with further settings during the block."""
        self.processes.kill(name)
        self.start_worker(name, **settings)
        try:
            yield
        finally:
            self.processes.kill(name)
            self.start_worker(name)

    def caller(self) -> Caller:
        """Create a tenant and return its client."""
        tenant_id, key = make_tenant(self.database_url, f"tenant {token_hex(6)}")
        return Caller(self.url, tenant_id, key)

    def admin_key(self) -> str:
        """Create a tenant and return a key of it that may administer the service."""
        return make_tenant(self.database_url, f"admins {token_hex(6)}", SCOPES)[1]

    def readiness(self) -> dict[str, bool]:
        """Return the state of each dependency from `/readyz`; empty if there is no response."""
        with suppress(httpx.TransportError):
            answer = httpx.get(f"{self.url}/readyz", timeout=PATIENCE_SECONDS, trust_env=False)
            found = {str(one["name"]): bool(one["well"]) for one in answer.json()["dependencies"]}
            assert answer.status_code == (200 if all(found.values()) else 503)
            return found
        return {}

    def flush_redis(self, often: str) -> None:
        """Make Redis flush its log `everysec` or `always`, until its next start."""
        with redis.Redis.from_url(self.redis.admin_url) as server:
            server.config_set("appendfsync", often)

    def cut_connections(self) -> None:
        """Make PostgreSQL terminate every connection of the service."""
        with psycopg.connect(self.owner_url, autocommit=True) as server:
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [ROLE])

    def close(self) -> None:
        """Stop everything."""
        self.processes.close()
        for name, process in self.servers.items():
            server = self.postgres if name == self.postgres.name else self.redis
            server.stop(process)
