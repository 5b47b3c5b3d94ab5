"""The plan of a chaos run follows from its seed, its verdict finds what is wrong, and a short run finds nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import sampling
from tests.chaos.plan import GROUPS, INSTANT, make_plan, timeline
from tests.chaos.sampling import Sample, findings, slope
from tests.processes import ROOT

KINDS = sum(map(len, GROUPS.values()))


def test_a_plan_follows_from_its_seed_alone() -> None:
    assert make_plan(1, 3) == make_plan(1, 3)
    assert make_plan(1, 3) != make_plan(2, 3)
    assert {fault.group for fault in make_plan(1, 3, ["kill", "clock"])} == {"kill", "clock"}


def test_thirty_minutes_have_more_than_400_faults_of_all_kinds() -> None:
    plan = make_plan(1, 30)
    assert len(plan) >= 400
    assert len({(fault.group, fault.name) for fault in plan}) == KINDS
    assert max(fault.begins for fault in plan) < 30 * 60


def test_every_fault_that_lasts_ends_after_it_began() -> None:
    plan = make_plan(1, 30)
    order = [(fault.number, is_begin) for _, is_begin, fault in timeline(plan)]
    for fault in plan:
        ends = (fault.number, False) in order
        assert ends == (fault.group not in INSTANT)
        assert not ends or order.index((fault.number, True)) < order.index((fault.number, False))


def test_memory_and_connections_that_grow_are_found() -> None:
    row = {"process": "api", "growth_mib": 30.0, "bound_mib": 24.0}
    assert len(findings([row], {"redis": 10}, {"redis": 11})) == 1
    assert findings([row | {"growth_mib": 1.0}], {"redis": 10}, {"redis": 11}) == []
    assert len(findings([], {"redis": 10}, {"redis": 16 + sampling.CONNECTIONS_MORE})) == 1


def test_a_slope_is_the_growth_in_a_minute() -> None:
    growing = [Sample(30.0 * place, place * sampling.MIB, 0) for place in range(5)]
    assert slope(growing) == pytest.approx(2.0)
    assert slope([Sample(each.seconds, 7, 0) for each in growing]) == 0


@pytest.mark.long
@pytest.mark.kills
@pytest.mark.slow
def test_a_short_run_finds_nothing_wrong(tmp_path: Path) -> None:
    """Run few faults of a fixed seed, so that the driver itself stays working."""
    report = tmp_path / "report.json"
    arguments = ["--seed", "3", "--minutes", "0.5", "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    found = json.loads(report.read_text())
    assert found["faults"] + sum(found["missed"].values()) == found["planned"]
    assert all(each["accepted"] and not each["lost"] for each in found["tenants"])
