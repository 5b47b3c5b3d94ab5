"""A simulated Prometheus: it scrapes the service, advances a clock and reports which alerts fire."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.alerts.promql import Labels, Scrapes, Series, evaluate

FOLDER: Final = Path(__file__).resolve().parents[2] / "ops" / "prometheus"
STEP_SECONDS: Final = 60
KINDS: Final = ("alert", "record")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}

Scrape = Callable[[], str]
Firing = tuple[str, str]
"""Alert name and cause."""


@cache
def rules(kind: str) -> tuple[dict[str, Any], ...]:
    """Return the rules of a kind, `alert` or `record`, from both files."""
    found: list[dict[str, Any]] = []
    for name in ("recording.yml", "alerts.yml"):
        for group in yaml.safe_load((FOLDER / name).read_text())["groups"]:
            found += [rule for rule in group["rules"] if kind in rule]
    return tuple(found)


@cache
def metric_names() -> frozenset[str]:
    """Return the words of all rules' expressions, the names of their metrics among them."""
    expressions = [rule["expr"] for kind in KINDS for rule in rules(kind)]
    return frozenset(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", " ".join(expressions)))


def samples(text: str) -> dict[Series, float]:
    """Parse the samples of a scrape."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def select(text: str) -> str:
    """Return the lines of a scrape that rules use; parsing the others would take most of the time."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if re.split("[{ ]", line, maxsplit=1)[0] in metric_names())


@dataclass
class Watch:
    """Scrapes one minute apart, on a simulated clock that starts at the current time."""

    scrape: Scrape
    began: float = field(default_factory=time.time)
    minute: int = -1
    scrapes: Scrapes = field(default_factory=Scrapes)
    _since: dict[tuple[Firing, Labels], float] = field(default_factory=dict)
    _last: set[tuple[Firing, Labels]] = field(default_factory=set)
    _said: dict[int, set[tuple[Firing, Labels]]] = field(default_factory=dict)

    def minutes(self, count: int) -> set[Firing]:
        """Scrape once a minute for `count` minutes and return the alerts that fire at the end."""
        for _ in range(count):
            self.minute += 1
            at = self.began + self.minute * STEP_SECONDS
            self.scrapes.add(at, samples(select(self.scrape())))
            for rule in rules("record"):
                found = evaluate(rule["expr"], self.scrapes, at)
                assert isinstance(found, dict)
                self.scrapes.add(at, {(rule["record"], labels): value for labels, value in found.items()})
            self._judge(at)
        self._said[self.minute] = set(self._last)
        return {firing for firing, _ in self._last}

    def ahead_seconds(self) -> float:
        """Return how far the simulated clock is ahead of the real one."""
        return max(self.began + self.minute * STEP_SECONDS - time.time(), 0.0)

    def _judge(self, at: float) -> None:
        met: dict[tuple[Firing, Labels], float] = {}
        self._last = set()
        for rule in rules("alert"):
            found = evaluate(rule["expr"], self.scrapes, at)
            assert isinstance(found, dict)
            for labels in found:
                key = ((rule["alert"], rule["labels"]["cause"]), labels)
                met[key] = self._since.get(key, at)
                if at - met[key] >= _seconds(rule.get("for", "0s")):
                    self._last.add(key)
        self._since = met

    def agreed(self, folder: Path) -> None:
        """Check with promtool, if it is on PATH, that the same scrapes fire the same alerts."""
        promtool = shutil.which("promtool")
        if promtool is None:
            return
        for name in ("recording.yml", "alerts.yml"):
            shutil.copy(FOLDER / name, folder)
        (folder / "test.yml").write_text(yaml.safe_dump(self._as_test()))
        done = subprocess.run(
            [promtool, "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _as_test(self) -> dict[str, Any]:
        """Build promtool's unit test from the scrapes; times count from 0, where promtool's clock starts."""
        names = {series for _, taken in self.scrapes.taken for series in taken if series[0].startswith("ebbing_")}
        alerts = sorted({rule["alert"] for rule in rules("alert")})
        return {
            "rule_files": ["recording.yml", "alerts.yml"],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [
                        {"series": _written(series), "values": " ".join(self._values(series))}
                        for series in sorted(names, key=_written)
                    ],
                    "alert_rule_test": [
                        {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": _expected(alert, said)}
                        for alert in alerts
                        for minute, said in self._said.items()
                    ],
                }
            ],
        }

    def _values(self, series: Series) -> list[str]:
        is_moment = series[0].endswith("_timestamp_seconds")
        return [
            "_" if series not in taken else repr(taken[series] - (self.began if is_moment else 0))
            for _, taken in self.scrapes.taken
        ]


def _expected(alert: str, said: set[tuple[Firing, Labels]]) -> list[dict[str, Any]]:
    return [
        {"exp_labels": dict(labels) | rule["labels"], "exp_annotations": rule["annotations"]}
        for rule in rules("alert")
        for firing, labels in said
        if firing == (alert, rule["labels"]["cause"]) and rule["alert"] == alert
    ]


def _written(series: Series) -> str:
    name, labels = series
    pairs = ", ".join(f'{label}="{value}"' for label, value in sorted(labels))
    return f"{name}{{{pairs}}}"


def _seconds(span: str) -> int:
    return int(span[:-1]) * _UNITS[span[-1]]
