"""Run memory-decay's own HTTP tests against a service that this command starts: `python -m ops.compat PATH`.

PATH is a checkout of github.com/memory-decay/memory-decay-core, whose tests no package contains. The tests run
unchanged: a stand-in for the package `memory_decay` forwards their requests. Tests of the original's own objects in
the same files are left out.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).resolve().parents[2]
SHIM: Final = Path(__file__).with_name("shim")
FILES: Final = ("tests/test_server.py", "tests/test_activation_history.py")
TENANT: Final = "default"
HTTP_TESTS: Final = 33
"""Number of tests in these files that need no object of the original's process."""
IN_PROCESS: Final = (
    *("TestRecordActivationHistory", "TestGetAllMemories", "TestGetMemorySummary", "TestDecayWithHistory"),
    *("test_tick_derived_from_engine", "TestGeminiDimensionRegression"),
)
"""Classes and tests that use the original's store, engine, state or embedding provider."""
READY_SECONDS: Final = 300
STOP_SECONDS: Final = 60


def main() -> int:
    """Run the tests and return the exit code: 0 if all HTTP tests have passed."""
    parser = argparse.ArgumentParser(description="Run memory-decay's HTTP tests against this service.")
    parser.add_argument("path", type=Path, help="checkout of memory-decay-core")
    path = parser.parse_args().path.resolve()
    missing = [name for name in FILES if not (path / name).is_file()]
    if missing:
        print(f"{path} has no {' and no '.join(missing)}: give a checkout of memory-decay-core", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ebbing-compat-") as folder, _service(Path(folder)) as (url, key):
        return _run_tests(path, Path(folder) / "results.xml", f"{url}/memory-decay", key)


@contextmanager
def _service(folder: Path) -> Iterator[tuple[str, str]]:
    """Start the whole service with memory-decay's API, and yield its address and key."""
    home = folder / "home"
    command = [sys.executable, "-m", "app.cli", "run", "--home", str(home), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EBBING_")}
    environment["EBBING_COMPAT_MEMORY_DECAY"] = TENANT
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            yield _wait_until_ready(process, home, folder / "run.log")
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_ready(process: subprocess.Popen[bytes], home: Path, log: Path) -> tuple[str, str]:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        url = _read(home / "api-url")
        if url and _answers(f"{url}/readyz") and (key := _read(home / "api-key")):
            return url, key
        time.sleep(0.1)
    raise SystemExit(f"the service didn't start:\n{log.read_text(errors='replace')[-2000:]}")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _answers(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _run_tests(path: Path, results: Path, url: str, key: str) -> int:
    left_out = " or ".join(IN_PROCESS)
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(path), f"--junitxml={results}"),
        *("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-k", f"not ({left_out})"),
        *(str(path / name) for name in FILES),
    ]
    paths = os.pathsep.join([str(SHIM), str(path)])
    environment = os.environ | {"PYTHONPATH": paths, "COMPAT_URL": url, "COMPAT_KEY": key}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    status = subprocess.run(command, cwd=path, env=environment, check=False).returncode
    counts = ET.parse(results).getroot().find("testsuite")  # noqa: S314 - written by pytest
    passed = 0
    if counts is not None:
        unsuccessful = sum(int(counts.attrib[name]) for name in ("errors", "failures", "skipped"))
        passed = int(counts.attrib["tests"]) - unsuccessful
    print(f"{passed} of {HTTP_TESTS} HTTP tests of memory-decay passed")
    return status or int(passed < HTTP_TESTS)


if __name__ == "__main__":
    sys.exit(main())
