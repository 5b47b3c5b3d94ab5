"""Run PostgreSQL 18 with pgvector as a child process."""

from __future__ import annotations

import shutil
import signal
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from app.embedded.binaries import PLAIN_ENVIRONMENT, postgres_programs
from app.embedded.data_dirs import ensure_password, write_private
from app.embedded.process import EmbeddedError, ProgramSpec, run
from app.embedded.server import Server

if TYPE_CHECKING:
    from typing import ClassVar

    from app.embedded.process import ChildProcess

MAJOR_VERSION = "18"
PREDECESSOR_SECONDS = 60.0

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # only TCP with a password is allowed
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "100",
    # A connection whose client is gone, though the network lost its end, is freed after 30 s instead of two hours.
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "wal_compression": "pglz",  # the build has no lz4
    "jit": "off",  # compilation costs more than it saves on short statements
    # Memories are private: neither statements nor values may reach the log. A message of level ERROR can
    # quote a value, so only LOG (starting, stopping, checkpoints), FATAL and PANIC are written.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}
# Settings of the C library's allocator: a backend returns the memory of a statement to the system once it is freed.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(128 << 10),
    "MALLOC_TOP_PAD_": str(64 << 10),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 10),
}
TEST_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_wal_size": "256MB",  # the data is in memory
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


class Postgres(Server):
    """The PostgreSQL server of a home: superuser `postgres`, SCRAM authentication on 127.0.0.1, no socket file."""

    name = "postgres"
    stop_signal = signal.SIGINT  # "fast" shutdown: clients are disconnected and all data is written
    environment = PLAIN_ENVIRONMENT | ALLOCATOR
    ready_timeout_seconds: ClassVar[float] = 120
    stop_timeout_seconds: ClassVar[float] = 60

    @cached_property
    def password(self) -> str:
        """The superuser's password; it is never regenerated for existing data, which requires the original one.

        Raises:
            EmbeddedError: Data exists, but its password file is missing.
        """
        kept = self.home / f"{self.name}-password"
        if self.data.exists() and not kept.exists():
            raise EmbeddedError(f"{kept} is missing, and {self.data} can't be used without it: put it back")
        return ensure_password(kept)

    @property
    def url(self) -> str:
        """The superuser's `postgresql://` URL of the database `postgres`."""
        return self.database_url("postgres")

    def database_url(self, database: str, role: str = "postgres", password: str | None = None) -> str:
        """Return the URL of another database of this server or for another role."""
        return f"postgresql://{role}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.folder / "data"

    def prepare(self) -> None:
        """Initialise the database cluster on first use, and wait until an earlier server on it has exited.

        Raises:
            EmbeddedError: initdb failed, the data has another major version, or another server still uses it after a
                minute.
        """
        if not self.data.exists():
            self._initialise()
            return
        version = (self.data / "PG_VERSION").read_text(encoding="utf-8").strip()
        if version != MAJOR_VERSION:
            raise EmbeddedError(
                f"{self.data} contains data of PostgreSQL {version}, but this is PostgreSQL {MAJOR_VERSION}: "
                "move it with pg_dump, or set EBBING_DATABASE_URL to a server of its version"
            )
        self._await_predecessor()

    def command(self) -> list[str]:
        """Return `postgres` with all of its settings."""
        settings = SETTINGS | {"port": str(self.port)} | ({} if self.options.durable else TEST_SETTINGS)
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.data), *options]

    def ready(self, process: ChildProcess) -> bool:
        """Return True if the pid file reports `process` as ready; one left by a crash names another process."""
        lines = self._pid_file_lines()
        return len(lines) > 7 and lines[0] == str(process.pid) and lines[7].strip() == "ready"

    @cached_property
    def _programs(self) -> Path:
        return postgres_programs(self.user, self.options.cache_root)

    def _initialise(self) -> None:
        """Run initdb in a draft folder that is renamed once it is complete."""
        draft = self.folder / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        password_file = self.folder / "initdb-password"
        write_private(password_file, self.password, self.user)  # the server's user couldn't read a file owned by root
        command = [
            str(self._programs / "initdb"),
            "--pgdata",
            str(draft),
            "--username=postgres",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",  # sorts by code point on every machine; the build has no ICU
            "--locale=C.UTF-8",
            "--no-instructions",
            *([] if self.options.durable else ["--no-sync"]),
        ]
        try:
            code, output = run(ProgramSpec(command, PLAIN_ENVIRONMENT, self.user, self.folder))
        finally:
            password_file.unlink()
        if code != 0:
            raise EmbeddedError(f"initdb in {self.folder} ended with exit code {code}:\n{output.strip()}")
        draft.rename(self.data)

    def _await_predecessor(self) -> None:
        """Wait for the server of a killed supervisor, which is still writing its data.

        A pid file left by a crash may name an unrelated process by now (common in containers, where pids are small).
        `postgres` would refuse to start, so the file is removed.
        """
        deadline = time.monotonic() + PREDECESSOR_SECONDS
        while (lines := self._pid_file_lines()) and Path("/proc", lines[0]).exists():
            if not self._serves_our_data(lines[0]):
                (self.data / "postmaster.pid").unlink(missing_ok=True)
                return
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"PostgreSQL process {lines[0]} still uses {self.data} after "
                    f"{PREDECESSOR_SECONDS:g} s: stop it with kill -INT {lines[0]}"
                )
            time.sleep(0.02)

    def _serves_our_data(self, pid: str) -> bool:
        with suppress(OSError):  # it has just ended, or belongs to another user and so isn't ours
            return Path("/proc", pid, "cwd").resolve(strict=True) == self.data
        return False

    def _pid_file_lines(self) -> list[str]:
        with suppress(OSError, UnicodeDecodeError):
            return (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return []
