"""A whole service as a child process of this program: `ebbing run` in a folder, for notebooks and tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from ebbing_client.errors import LocalServiceError

PACKAGE: Final = "ebbing"
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
READY: Final = "Ready in "
OUTPUT: Final = "local.log"
OUTPUT_MAX_CHARACTERS: Final = 1500


class LocalService:
    """A running service in a folder.

    The service ends with this program, even if the program is killed: then its standard input, a pipe from this
    program, is closed.

    Attributes:
        url: Address of the API.
        key: API key with all scopes.
    """

    def __init__(self, path: str | os.PathLike[str], start_timeout: float) -> None:
        try:
            distribution(PACKAGE)
        except PackageNotFoundError:
            message = "a local service needs the package `ebbing` in this environment: install Ebbing's repository here"
            raise LocalServiceError(message) from None
        self._home = Path(path).resolve()
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._output = self._home / OUTPUT
            begin = self._output.stat().st_size if self._output.exists() else 0
            self._process = self._start()
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise LocalServiceError(f"a local service can't be started in {self._home} ({reason})") from None
        self._finalizer = weakref.finalize(self, _stop, self._process)
        try:
            self._wait(begin, start_timeout)
            self.url = (self._home / "api-url").read_text(encoding="utf-8").strip()
            self.key = (self._home / "api-key").read_text(encoding="utf-8").strip()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the service and wait for the end of its processes; without effect if it has ended."""
        self._finalizer()

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: the current directory may contain an unrelated `app`. A session of its own: Ctrl-C is for this program.
        command = [sys.executable, "-P", "-m", "app.cli", "run", "--home", str(self._home), "--port", "0"]
        with self._output.open("ab") as output:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--until-stdin-closes"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _wait(self, begin: int, timeout: float) -> None:
        """Wait until the service reports that it is ready, in its output after `begin` bytes."""
        deadline = time.monotonic() + timeout
        while True:
            has_ended = self._process.poll() is not None
            said = self._output.read_bytes()[begin:].decode("utf-8", "replace")
            if READY in said:
                return
            if has_ended:
                end = said.strip()[-OUTPUT_MAX_CHARACTERS:]
                raise LocalServiceError(f"the local service didn't start; it wrote to {self._output}:\n{end}")
            if time.monotonic() >= deadline:
                late = f"the local service isn't ready after {timeout:g} s"
                raise LocalServiceError(f"{late}: see {self._output}, or pass a longer `start_timeout`")
            time.sleep(POLL_SECONDS)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()  # this stops the service
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # the kernel then ends its children
        process.wait()
