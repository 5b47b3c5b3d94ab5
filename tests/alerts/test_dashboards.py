"""Alerts, rules and dashboards use only metric names and labels that a started service exports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app import heartbeats
from app.clients.llm import provider_health
from app.clients.llm.resilience import ProviderFailed, Reason
from app.clients.redis.connection import FIGURES
from app.clients.redis.stream import client
from app.domain.salience.agreement import Agreement
from app.domain.salience.llm_scoring import PROMPT_VERSION
from app.services.monitoring.fleet_gauges import Figures
from app.settings import settings
from ops.checks.metrics_page import described
from tests.alerts.watch import FOLDER, rules
from tests.api.caller import Api

GRAFANA = FOLDER.parent / "grafana"
BOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
# Prometheus adds these labels to every scraped sample.
OF_TARGETS = {"instance"}
SELECTOR = re.compile(r"\b(ebbing[a-z0-9_]*_[a-z0-9_]+|ebbing:[a-z0-9_:]+)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)\s*(=~|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")

Exported = dict[str, dict[str, set[str]]]


@pytest.fixture
def exported(api: Api, tmp_path: Path) -> Exported:
    """Return the labels and their values of all samples, by metric name."""
    (tmp_path / "mark").touch()
    api.service.configure(home=tmp_path, backup_mark=tmp_path / "mark", metrics_tenants=50)
    api.service.configure(openai_base_url="http://127.0.0.1:9/v1")
    for target in provider_health.list_targets(settings()):
        provider_health.record(target, None)
        provider_health.record(target, ProviderFailed(Reason.RATE_LIMITED, retry_after_seconds=3600), 45)
    compared = Agreement("m", PROMPT_VERSION, 20, 0.7, 0.1)
    client().set(FIGURES, msgspec.json.encode(Figures(rating_agreement=[compared])))
    api.service.tenant()
    for source in heartbeats.SOURCES:
        heartbeats.record_heartbeat(source)
    found: Exported = {}
    for family in text_string_to_metric_families(api.get("/metrics", key=None).text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


def boards() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in BOARDS:
        yield path.name, json.loads(path.read_text(), object_pairs_hook=_without_doubles)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert [name for name, times in Counter(name for name, _ in pairs).items() if times > 1] == []
    return dict(pairs)


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression with its location."""
    for kind in ("alert", "record"):
        for rule in rules(kind):
            yield rule[kind], rule["expr"]
    for name, board in boards():
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                yield f"{name}: {panel['title']}", target["expr"]


def test_every_name_and_label_that_is_asked_for_is_exported(exported: Exported) -> None:
    known = exported | {rule["record"]: {} for rule in rules("record")}
    for place, expression in expressions():
        labels: set[str] = set()
        selected = SELECTOR.findall(expression)
        assert selected, place
        for name, matchers in selected:
            assert name in known, f"{place}: {name}"
            labels |= known[name].keys()
            for label, sign, value in MATCHER.findall(matchers):
                if value == f"${label}":  # a variable of the board
                    assert label in known[name]
                    continue
                assert label in known[name], f"{place}: {name} has no label {label}"
                for each in value.split("|") if sign == "=~" else [value]:
                    assert each in known[name][label], f"{place}: {name} has no {label}={each}"
        for grouping in GROUPING.findall(expression):
            assert set(grouping.split(", ")) <= labels | OF_TARGETS, f"{place}: by ({grouping})"


def test_a_label_of_ours_is_kept_where_prometheus_has_one_of_that_name(exported: Exported) -> None:
    assert "job" in exported["ebbing_job_rows_total"]
    [scrape] = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    assert scrape["honor_labels"] is True
    assert (scrape["metrics_path"], scrape["static_configs"]) == ("/metrics", [{"targets": ["api:8000"]}])


def test_the_reference_names_all_that_is_exported_and_nothing_else(api: Api, exported: Exported) -> None:
    families = text_string_to_metric_families(api.get("/metrics", key=None).text)
    there = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in families
        if family.name.startswith("ebbing_")
    }
    assert there == {one.name: one.kind for one in described()}
    for one in described():
        sample = f"{one.name}_bucket" if one.kind == "histogram" else one.name
        shown = {label: values for label, values in exported[sample].items() if label != "le"}
        assert shown.keys() == one.labels.keys(), one.name
        for label, values in shown.items():
            if not one.labels[label]:
                continue  # any value
            assert values <= set(one.labels[label]), one.name
            assert one.missing or values == set(one.labels[label]), one.name


def test_dashboards_are_whole(exported: Exported) -> None:
    found = dict(boards())
    assert len({board["uid"] for board in found.values()}) == len(found) == 2
    for name, board in found.items():
        ids = [panel["id"] for panel in board["panels"]]
        assert len(ids) == len(set(ids)), name
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert place["x"] + place["w"] <= 24
            assert not cells & taken, f"{name}: {panel['title']} covers another"
            taken |= cells
            assert panel["type"] == "row" or panel["description"], f"{name}: {panel['title']} has no description"
            refs = [target["refId"] for target in panel.get("targets", [])]
            assert len(refs) == len(set(refs))


def test_the_overview_has_each_fact_of_model_providers_and_stuck_processes(exported: Exported) -> None:
    shown = {name for place, asked in expressions() if "overview" in place for name, _ in SELECTOR.findall(asked)}
    facts = {name for name in exported if name.startswith("ebbing_provider_")}
    assert len(facts) == 6
    assert facts | {"ebbing_salience_provisional", "ebbing_lane_stuck_seconds"} <= shown


def test_grafana_finds_them_where_they_are_provided() -> None:
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert source["type"] == "prometheus"
    [provider] = yaml.safe_load((GRAFANA / "provisioning/dashboards/ebbing.yml").read_text())["providers"]
    assert provider["options"]["path"] == "/etc/grafana/dashboards"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool isn't on PATH")
def test_promtool_reads_the_rules_and_the_expressions_of_dashboards(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None
    asked = [{"record": f"asked:{number}", "expr": asked} for number, (_, asked) in enumerate(expressions())]
    (tmp_path / "asked.yml").write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": asked}]}))
    for command in (["rules", str(tmp_path / "asked.yml")], ["config", str(FOLDER / "prometheus.yml")]):
        done = subprocess.run([promtool, "check", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
