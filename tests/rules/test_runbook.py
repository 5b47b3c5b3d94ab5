"""The runbook has a heading for every alert and every dead-letter reason, and no obsolete ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app.clients.llm.resilience import ProviderFailed, Reason, Verdict
from app.services.enrichment.stage_runner import KILLED

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "ops" / "runbook.md").read_text()
ALERTS = ROOT / "ops" / "prometheus" / "alerts.yml"
# Modules that write dead letters; add any other module whose reasons must be covered.
WRITERS = {"dead_letters.py", "drain.py", "reembed.py", "score_by_model.py", "stage_runner.py"}


def headings(part: str) -> list[str]:
    """Return the headings within one part of the page."""
    [found] = re.findall(rf"^## {part}\n(.*?)(?=^## |\Z)", TEXT, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^### (.*)$", found, flags=re.MULTILINE)


def phrases() -> Iterator[str]:
    """Yield fixed reasons in the code: arguments of `MalformedEnvelope`, and constants assigned to `reason`."""
    for path in [ROOT / "app" / "domain" / "ingest" / "envelope.py", *(ROOT / "app" / "services").rglob("*.py")]:
        if path.name not in {*WRITERS, "envelope.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name("MalformedEnvelope"), args=[ast.Constant(str(phrase))]):
                    yield phrase
                case ast.Assign(targets=[ast.Name("reason")], value=ast.Constant(str(phrase))):
                    yield phrase


def test_each_reason_of_a_dead_letter_has_a_heading() -> None:
    by_models = {each.value for each in Reason if ProviderFailed(each).treatment.verdict is Verdict.DEAD_LETTER}
    of_bodies = {"Unreadable", "Invalid"}  # class names of the errors raised when an entry is decoded
    expected = {KILLED, *phrases(), *by_models, *of_bodies}
    assert len(expected) == 9
    assert {each.strip("`") for each in headings("Dead letters") if each.startswith("`")} == expected
    assert "The name of an error" in headings("Dead letters")


def test_nobody_else_writes_dead_letters() -> None:
    writing = {
        path.name
        for path in (ROOT / "app").rglob("*.py")
        if re.search(r"dead_letters\.add\(|INSERT INTO dead_letters", path.read_text())
    }
    assert writing == WRITERS


def test_each_alert_has_a_heading() -> None:
    reported = dict(re.findall(r"^\| \[(Ebbing\w+)\]\(#([\w-]+)\)", TEXT, flags=re.MULTILINE))
    assert [each.lower().replace(" ", "-") for each in headings("Alerts")] == list(reported.values())
    assert len(reported) == 8
    if ALERTS.exists():
        groups = yaml.safe_load(ALERTS.read_text())["groups"]
        rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
        assert {rule["alert"] for rule in rules} == set(reported)
        for rule in rules:
            assert rule["annotations"]["runbook"] == f"ops/runbook.md#{reported[rule['alert']]}"


PAGES = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "examples/README.md"]
PAGES += [f"ops/{path.name}" for path in sorted((ROOT / "ops").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_lead_to_one(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_to_headings_lead_to_one(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\(([^):#]*\.md)?#([^)]+)\)", path.read_text())
    lost = [
        (name, anchor) for name, anchor in links if anchor not in find_anchors(path.parent / name if name else path)
    ]
    assert lost == []


def find_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
