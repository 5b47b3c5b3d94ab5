"""Run the Python client's tests with each interpreter at hand, on the installed wheel (`make test-client`).

The tests run outside of the project's environment, so they need a package index for httpx2 and pytest. `test_parity.py`
stays out: it compares the client with the service, which needs Python 3.11 or 3.12.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
PYTEST = [
    *(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--confcutdir=tests/client",
        "--ignore=tests/client/test_parity.py",
    ),
    *("-o", "addopts=--import-mode=importlib", "-o", "pythonpath=.", "tests/client"),
]


def find_interpreter(version: str) -> str | None:
    """Return an interpreter of this version from PATH or pyenv."""
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for path in (shutil.which(f"python{version}"), *map(str, reversed(installed))):
        # A shim of pyenv exists for versions that aren't selected; it fails.
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


def run_tests(version: str, folder: Path) -> bool:
    """Run the tests with one version and return true if they passed."""
    interpreter = find_interpreter(version)
    if interpreter is None:
        print(f"{version}: NOT TESTED, there is no such interpreter", flush=True)
        return True
    subprocess.run([interpreter, "-m", "venv", str(folder / version)], check=True)
    python = str(folder / version / "bin" / "python")
    [wheel] = folder.glob("*.whl")
    packages = [f"{wheel}[encryption]", "pytest", "opentelemetry-api"]
    subprocess.run([python, *PIP, "install", *packages], check=True)
    done = subprocess.run([python, "-B", *PYTEST], cwd=ROOT, check=False)
    print(f"{version}: {'passed' if done.returncode == 0 else 'FAILED'} ({interpreter})", flush=True)
    return done.returncode == 0


def main() -> int:
    """Build the wheel and test it with each version; return 1 if any fails."""
    with tempfile.TemporaryDirectory(prefix="ebbing-test-client-") as name:
        folder = Path(name)
        build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", name, str(ROOT / "client")]
        subprocess.run([sys.executable, *PIP, *build], check=True)
        passed = [run_tests(version, folder) for version in VERSIONS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
