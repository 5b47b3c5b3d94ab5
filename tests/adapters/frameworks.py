"""Run each adapter's suite in a virtual environment with its framework (`make test-adapters`).

The suites use a running service, each with a tenant of its own. The environments are below `.cache/adapters`; packages
come from the index that pip is configured with. To run one: `make test-adapters ARGS="-k langgraph"`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fundamentals.conftest import service
from tests.fundamentals.service import Service

__all__ = ["service"]

ROOT: Final = Path(__file__).resolve().parents[2]
FRAMEWORKS: Final[dict[str, Any]] = tomllib.loads((ROOT / "tests/adapters/frameworks.toml").read_text("utf-8"))
FOLDER: Final = ROOT / ".cache" / "adapters"
PIP: Final = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "install")
TEST_PACKAGES: Final = ("pytest>=9,<10", "httpx2>=2.14")
INSTALL_SECONDS: Final = 3600
SUITE_SECONDS: Final = 1800


def make_environment(framework: str) -> Path:
    """Return the interpreter of the framework's environment; install the packages if their list has changed."""
    packages = [*FRAMEWORKS[framework]["packages"], *FRAMEWORKS[framework].get("extra", ()), *TEST_PACKAGES]
    wanted = hashlib.sha256("\n".join([sys.version, *packages]).encode()).hexdigest()
    folder = FOLDER / framework
    python, mark = folder / "bin" / "python", folder / "installed"
    if not mark.exists() or mark.read_text("utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), *PIP, *packages], check=True, timeout=INSTALL_SECONDS)
        mark.write_text(wanted, "utf-8")
    return python


@pytest.mark.long
@pytest.mark.parametrize("framework", sorted(FRAMEWORKS))
def test_the_suite_passes(framework: str, service: Service) -> None:
    python = make_environment(framework)
    # The suite sees the client and its own files, but not the packages of the service.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("EBBING_", "PYTEST_"))}
    environment |= {"EBBING_API_URL": service.url, "EBBING_API_KEY": service.new_tenant().api_key}
    suite = f"tests/adapters/suite_{framework}.py"
    options = ("-q", "--tb=short", "-p", "no:cacheprovider", "--confcutdir=tests/adapters", "-c", os.devnull)
    command = [str(python), "-B", "-m", "pytest", *options, f"--rootdir={ROOT}", "--import-mode=importlib", suite]
    command += ["-o", f"pythonpath={ROOT} {ROOT / 'client'}"]
    assert subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=SUITE_SECONDS).returncode == 0
