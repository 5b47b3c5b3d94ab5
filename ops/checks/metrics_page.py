"""Write ops/metrics.md, the reference of every metric, from `app.metrics` and `app.api.http.metrics_endpoint`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import Counter

from app import metrics
from app.api.http.metrics_endpoint import GAUGES, OF_PROCESS
from app.metric_groups import GROUPS, Group, deprecation
from ops.checks.writing import ROOT, write

PAGE = ROOT / "ops" / "metrics.md"
SHOWN: Final = 8
"""Maximum number of a label's values that are listed; above it, the page shows only their number."""

HEAD = """# Metrics

<!-- written by `make docs` from app/metrics.py and app/api/http/metrics_endpoint.py; a test fails if it is outdated -->

`GET /metrics` of the API uses Prometheus's format; `EBBING_METRICS_TOKEN` restricts access. Every metric starts at 0,
so that rates exist from the first scrape, except `ebbing_http_route_seconds`. Labels never contain a subject, an id or
text, and names of tenants only if `EBBING_METRICS_TENANTS` is set.

Metrics with the scope **service** are counted in Redis or read from the databases: each API process reports the same
values, and a restart does not change them. With several API processes, take the `max`, not the `sum`. Metrics with the
scope **process** belong to one API process and start again when it restarts. While PostgreSQL or Redis is unavailable,
the metrics read from it are omitted, and `ebbing_stores_reachable` is 0.

`prometheus_client` adds `python_*` and `process_*` for the API process. A histogram has `_bucket`, `_sum` and `_count`.
The column *labels* lists up to 8 values of a label; if a label has more, their number follows the label.

| name | type | unit | labels | scope | description |
|---|---|---|---|---|---|
"""
_OPEN: Final[dict[str, dict[str, list[str]]]] = {"ebbing_http_route_seconds": {"method": [], "route": []}}
"""Labels whose values aren't from a fixed list, by metric of the process."""
_UNITS: Final = {
    "timestamp_seconds": "seconds since 1970",
    "seconds": "seconds",
    "bytes": "bytes",
    "ratio": "0 to 1",
    "memories": "memories",
    "requests": "requests",
    "tokens": "tokens",
    "rows": "rows",
    "connections": "connections",
}
_FLAGS: Final = ("build_info", "public_url_info", "stores_reachable", "audit_chain_ok", "redis_refuses_writes")


@dataclass(frozen=True)
class Described:
    """A metric as shown on the page; `name` includes the `_total` of a counter."""

    name: str
    kind: str
    labels: Mapping[str, Sequence[str]]
    description: str
    of: str = "service"
    missing: str = ""


def described() -> list[Described]:
    """Return every metric of the service, by name."""
    return sorted([*_of_process(), *_of_workers(), *_gauges()], key=lambda one: one.name)


def page() -> str:
    """Return the whole page, one row per metric."""
    return HEAD + "".join(
        f"| `{one.name}` | {one.kind} | {_unit(one.name)} | {_labels(one.labels)} | {one.of} | {_text(one)} |\n"
        for one in described()
    )


def _of_process() -> Iterator[Described]:
    for each in metrics.OF_PROCESS:
        [family] = each.collect()
        values: dict[str, dict[str, None]] = {}
        for sample in family.samples:
            for label, value in sample.labels.items():
                if label != "le":
                    values.setdefault(label, {})[value] = None
        kind = "counter" if isinstance(each, Counter) else "histogram"
        labels = _OPEN.get(family.name) or {label: list(found) for label, found in values.items()}
        yield Described(_total(family.name, kind), kind, labels, family.documentation, "process")


def _of_workers() -> Iterator[Described]:
    for name, description in metrics.WORK.items():
        yield Described(f"ebbing_{name}_total", "counter", {}, description + deprecation(name))
    for name, group in GROUPS.items():
        labels = {label: _distinct(group, at) for at, label in enumerate(group.labels)}
        yield Described(f"ebbing_{name}_total", "counter", labels, group.description)
    for name, counter in metrics.LABELLED.items():
        yield Described(f"ebbing_{name}_total", "counter", _values(counter), counter.description)
    for name, timed in metrics.TIMED.items():
        yield Described(f"ebbing_{name}", "histogram", _values(timed), timed.description)


def _gauges() -> Iterator[Described]:
    for name, gauge in GAUGES.items():
        of = "process" if name in OF_PROCESS else "service"
        yield Described(
            f"ebbing_{name}", "gauge", gauge.labels, gauge.description + deprecation(name), of, gauge.missing
        )


def _distinct(group: Group, at: int) -> list[str]:
    return list(dict.fromkeys(values[at] for values in group.members))


def _values(of: metrics.LabelledCounter | metrics.TimedMetric) -> dict[str, list[str]]:
    return {label: list(dict.fromkeys(series[at] for series in of.series)) for at, label in enumerate(of.labels)}


def _total(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def _unit(name: str) -> str:
    bare = name.removeprefix("ebbing_").removesuffix("_total")
    if bare in _FLAGS:
        return "0 or 1"
    return next((unit for suffix, unit in _UNITS.items() if bare.endswith(suffix)), "")


def _labels(labels: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"`{label}`{_shown(values)}" for label, values in labels.items())


def _shown(values: Sequence[str]) -> str:
    if not values:
        return ""
    return ": " + (", ".join(f"`{value}`" for value in values) if len(values) <= SHOWN else f"{len(values)}")


def _text(one: Described) -> str:
    missing = f" Omitted where: {one.missing}." if one.missing else ""
    return (one.description + missing).replace("|", "\\|")


if __name__ == "__main__":
    write(PAGE, page())
