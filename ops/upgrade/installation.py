"""Two versions of the service on one PostgreSQL and Redis: the earlier one's code, and the processes of both."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from app.embedded import (
    Postgres,
    ProgramSpec,
    Redis,
    ensure_password,
    free_ports,
    has_ended,
    kill_session,
    log_tail,
    spawn,
)
from app.queues import LANES
from app.store.core.provision import create_database
from ops.bench.place import answers, plain_environment

ROOT: Final = Path(__file__).resolve().parents[2]
DATABASE: Final = "ebbing"
ROLE: Final = "ebbing_service"
READY_SECONDS: Final = 120
STOP_SECONDS: Final = 90
REDIS_BYTES: Final = 512 << 20
WORKERS: Final = (*(f"worker {lane}" for lane in LANES), "beat")

_PIN: Final = re.compile(r"^[A-Za-z0-9._-]+==[^\\\n]+", re.MULTILINE)


@dataclass(frozen=True)
class Version:
    """One version of the code: its name in the output, its folder, and the interpreter with its dependencies."""

    name: str
    folder: Path
    python: str = sys.executable


def differing_pins(lock: str) -> list[str]:
    """Return the pins of a lock file for this platform that aren't installed here, such as `redis 8.0 (here 8.1)`."""
    differing = []
    for line in _PIN.findall(lock):
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate():
            continue
        try:
            here = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            here = "none"
        if here not in wanted.specifier:
            differing.append(f"{wanted.name} {wanted.specifier} (here {here})")
    return differing


@contextmanager
def checked_out(revision: str, home: Path) -> Iterator[Version]:
    """Check out a revision into a git worktree of its own, which is removed at the end.

    The revision runs in this process's environment if its locked dependencies are installed here, otherwise in a new
    environment with them.
    """
    folder = home / "from"
    _run("git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(folder), revision)
    try:
        differing = differing_pins((folder / "ops/locks/run.txt").read_text(encoding="utf-8"))
        python = sys.executable
        if differing:
            print(f"dependencies differ, making an environment: {', '.join(differing[:5])}", flush=True)
            _run(sys.executable, "-m", "venv", str(home / "venv"))
            python = str(home / "venv" / "bin" / "python")
            pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
            _run(*pip, "--require-hashes", "-r", str(folder / "ops/locks/run.txt"))
        else:
            print("dependencies are equal: both versions run in this environment, by PYTHONPATH", flush=True)
        yield Version("old", folder, python)
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", folder], check=False)  # noqa: S607


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr or done.stdout}")
    return done.stdout


class Installation:
    """PostgreSQL, Redis and the model provider of the tests, and processes of both versions.

    Attributes:
        owner_url: A login of PostgreSQL that sees all tenants' rows.
        running: The processes by version and name.
    """

    def __init__(self, home: Path, opened: ExitStack) -> None:
        """Start the servers in a new home; `opened` stops them."""
        self.home = home
        self.running: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
        self.urls: dict[str, str] = {}
        postgres_port, redis_port, provider_port = free_ports(3)
        postgres = Postgres(home, postgres_port)
        opened.callback(postgres.stop, postgres.start())
        redis = Redis(home, redis_port, maxmemory_bytes=REDIS_BYTES)
        opened.callback(redis.stop, redis.start())
        opened.callback(self._kill_all)
        password = ensure_password(home / "service-password")
        create_database(postgres.url, DATABASE, ROLE, password)
        self.owner_url, self.redis_url = postgres.database_url(DATABASE), redis.url
        self._environment = plain_environment() | {
            "EBBING_HOME": str(home),
            "EBBING_OWNER_DATABASE_URL": self.owner_url,
            "EBBING_DATABASE_URL": postgres.database_url(DATABASE, ROLE, password),
            "EBBING_REDIS_URL": redis.url,
            "EBBING_MASTER_KEY": ensure_password(home / "master-key"),
            "EBBING_OPENAI_BASE_URL": f"http://127.0.0.1:{provider_port}/v1",
            "EBBING_HOST": "127.0.0.1",
            "EBBING_LOG_LEVEL": "warning",
            # Short slices, so that jobs change hands between the versions.
            "EBBING_SLICE_SECONDS": "0.5",
        }
        new = Version("new", ROOT)
        provider = ("-m", "tests.provider", "--port", str(provider_port))
        process = self._spawn(new, "provider", provider, {})
        self._wait_until_answers(process, "provider", f"http://127.0.0.1:{provider_port}/")

    def migrate(self, version: Version) -> None:
        """Migrate to the version's schema, as its `ebbing migrate` does."""
        print(f"{version.name}: {self.call(version, 'migrate', '--first-key').strip()}", flush=True)

    def call(self, version: Version, *arguments: str, fails: bool = False) -> str:
        """Run a command of the version to its end, and return its output; `fails` permits exit codes other than 0."""
        done = subprocess.run(
            [version.python, "-m", "app.cli", *arguments],
            cwd=version.folder,
            env={
                **self._environment,
                "PYTHONPATH": str(version.folder),
                "EBBING_API_URL": self.urls.get(version.name, ""),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=READY_SECONDS,
        )
        if done.returncode and not fails:
            failed = f"{version.name}: ebbing {' '.join(arguments)}"
            raise RuntimeError(f"{failed} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def check_code(self, version: Version) -> None:
        """Check that the version's processes import its own code, not the code installed in their environment.

        Raises:
            RuntimeError: They don't.
        """
        environment = {**self._environment, "PYTHONPATH": str(version.folder)}
        command = [version.python, "-P", "-c", "import app, workers; print(app.__file__, workers.__file__)"]
        found = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=True).stdout
        if not all(Path(each).is_relative_to(version.folder) for each in found.split()):
            raise RuntimeError(f"the {version.name} version would run {found}")

    def start_api(self, version: Version) -> str:
        """Start the version's API, on the same port each time, wait until it is ready, and return its URL."""
        url = self.urls.get(version.name) or f"http://127.0.0.1:{free_ports(1)[0]}"
        port = url.rpartition(":")[2]
        process = self._spawn(version, "api", ("-m", "app.cli", "api"), {"EBBING_PORT": port})
        self._wait_until_answers(process, f"{version.name}-api", f"{url}/readyz")
        self.urls[version.name] = url
        print(f"{version.name}: API is ready", flush=True)
        return url

    def start_workers(self, version: Version) -> None:
        """Start a worker of each lane, and beat."""
        for name in WORKERS:
            lane = name.removeprefix("worker ")
            arguments = ("beat",) if lane == name else ("worker", "--lane", lane)
            self._spawn(version, name, ("-m", "app.cli", *arguments), {})
        print(f"{version.name}: {len(WORKERS) - 1} workers and beat started", flush=True)

    def stop(self, version: Version, *names: str) -> list[str]:
        """Send SIGTERM to processes and wait. Return a finding for each that ended before or had to be killed."""
        wrong = []
        for name in names:
            process = self.running[version.name, name]
            if has_ended(process):
                wrong.append(f"{version.name} {name} had ended by itself with {process.wait()}")
            else:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for name in names:
            process = self.running.pop((version.name, name))
            while not has_ended(process) and time.monotonic() < deadline:
                time.sleep(0.05)
            if not has_ended(process):
                wrong.append(f"{version.name} {name} was still running {STOP_SECONDS} s after SIGTERM")
            kill_session(process)
            process.wait()
        print(f"{version.name}: stopped {', '.join(names)}", flush=True)
        return wrong

    def _spawn(
        self, version: Version, name: str, arguments: tuple[str, ...], settings: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        environment = {**self._environment, **settings, "PYTHONPATH": str(version.folder)}
        program = ProgramSpec([version.python, *arguments], environment, folder=version.folder)
        process = spawn(program, log=self._log(f"{version.name}-{name}"), death_signal=signal.SIGKILL)
        self.running[version.name, name] = process
        return process

    def _log(self, name: str) -> Path:
        return self.home / "logs" / f"{name.replace(' ', '-')}.log"

    def _wait_until_answers(self, process: subprocess.Popen[bytes], name: str, url: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not answers(url):
            if has_ended(process) or time.monotonic() > deadline:
                raise RuntimeError(
                    f"{name} ended, or isn't ready after {READY_SECONDS} s:\n{log_tail(self._log(name))}"
                )
            time.sleep(0.1)

    def _kill_all(self) -> None:
        for process in self.running.values():
            kill_session(process)
            process.wait()


@contextmanager
def home_folder() -> Iterator[Path]:
    """Make a folder that the servers' user can enter, and remove it at the end."""
    home = Path(tempfile.mkdtemp(prefix="ebbing-upgrade-", dir=os.environ.get("TMPDIR", "/var/tmp")))  # noqa: S108
    home.chmod(0o711)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)
