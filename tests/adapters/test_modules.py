"""Properties of all adapters' modules: lazy imports, versions, pages."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.adapters import pages

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "client"
FRAMEWORKS: dict[str, Any] = tomllib.loads((ROOT / "tests/adapters/frameworks.toml").read_text("utf-8"))
IMPORTED = {
    "google_adk": "google.adk.events.event",
    "langgraph": "langgraph.store.base",
    "llama_index": "llama_index.core.base.llms.types",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands.memory.extraction.types",
}
OWN_PAGES = {"anthropic": CLIENT / "docs" / "anthropic.md"}
"""Pages of frameworks whose lazy import and example are tested elsewhere: `test_anthropic.py`, `suite_anthropic.py`."""


def test_every_framework_has_a_module_a_suite_an_extra_and_a_page() -> None:
    assert set(FRAMEWORKS) == {*IMPORTED, *OWN_PAGES}
    extras = tomllib.loads((CLIENT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for name, framework in FRAMEWORKS.items():
        assert extras[name.replace("_", "-")] == framework["packages"], name
        assert (CLIENT / "ebbing_client" / "adapters" / f"{name}.py").exists()
        assert (ROOT / "tests" / "adapters" / f"suite_{name}.py").exists()
        assert name in OWN_PAGES or pages.output(name)
        assert f"[{name.replace('_', '-')}]'" in OWN_PAGES.get(name, pages.PAGE).read_text("utf-8")


@pytest.mark.parametrize("name", sorted(IMPORTED))
def test_a_missing_framework_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, IMPORTED[name], None)
    monkeypatch.delitem(sys.modules, f"ebbing_client.adapters.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'ebbing-client\[{name.replace('_', '-')}\]'"):
        importlib.import_module(f"ebbing_client.adapters.{name}")


@pytest.mark.slow
def test_the_client_imports_no_adapter() -> None:
    code = (
        "import sys, ebbing_client; print(sorted(name for name in sys.modules if name.startswith('ebbing_client.ad')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=CLIENT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
