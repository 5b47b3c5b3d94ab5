"""The wheel and the image contain the runbook that the service shows."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from app.dashboard.pages import runbook
from tests.api.caller import Api

ALERTS = Path(__file__).resolve().parents[2] / "ops/prometheus/alerts.yml"
ROOT = Path(__file__).resolve().parents[2]
INCLUDED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
    "force-include"
]


@pytest.mark.slow
def test_the_wheel_contains_the_runbook(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read(f"app/dashboard/{runbook.NAME}").decode() == (ROOT / "ops" / "runbook.md").read_text()
    assert runbook.read_runbook() == (ROOT / "ops" / "runbook.md").read_text()


def test_every_alert_links_to_a_section_of_the_page(api: Api) -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    links = {rule["annotations"]["runbook_url"] for rule in rules if "alert" in rule}
    assert links
    for link in links:
        base, _, place = link.partition("{{ end }}")
        assert base == '{{ with query "ebbing_public_url_info" }}{{ . | first | label "url" }}'
        path, _, section = place.partition("#")
        answer = api.get(path, key=None)
        assert (answer.status_code, section != "") == (200, True), link
        assert f'id="{section}"' in answer.text, link


def test_the_image_is_built_from_all_that_the_wheel_contains() -> None:
    recipe, ignored = (ROOT / "ops/docker/Dockerfile").read_text(), (ROOT / ".dockerignore").read_text()
    copied = {path for line in recipe.splitlines() if line.startswith("COPY ") for path in line.split()[1:-1]}
    for path in INCLUDED:
        assert path in copied
        assert f"!{path}" in ignored.splitlines()
