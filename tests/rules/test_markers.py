"""Tests are marked by rules: the list of measured tests, the guard against processes, and variants."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.nodeid import NodeId
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import costs, examples
from tests.variants import variants

ROOT = Path(__file__).resolve().parents[2]


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_the_slow_tests_of_the_list_exist_once_and_in_order() -> None:
    names = list(costs.listed())
    assert len(names) == len(costs.LIST.read_text(encoding="utf-8").splitlines())
    assert names == sorted(set(names))
    gone = [name for name in names if name.partition("::")[2] not in functions(name.partition("::")[0])]
    assert gone == [], "renamed or removed: `python -m tests.costs .cache/none` drops them from tests/slow_tests.txt"


def test_a_test_is_slow_by_the_mean_of_its_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [("a::quick", 0.05), ("a::mixed[x]", 0.9), ("a::mixed[y]", 0.01), ("a::few[x]", 0.1), ("a::few[y]", 0.05)]
    assert costs.costly(seconds) == {"a::mixed": 0.455}
    monkeypatch.setattr(costs, "LIST", tmp_path / "list")
    costs.LIST.write_text("a::few 0.2\nb::not_run 0.3\n")
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(each) + "\n" for each in seconds))
    costs.write_list(tmp_path)
    assert costs.listed() == {"a::mixed": 0.46, "b::not_run": 0.3}


def test_a_removed_test_leaves_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "LIST", tmp_path / "list")
    monkeypatch.setattr(costs, "ROOT", tmp_path)
    (tmp_path / "test_a.py").write_text("import os\n\n\ndef test_there() -> None:\n    pass\n")
    costs.LIST.write_text("test_a.py::test_gone 1\ntest_a.py::test_there 2\ntest_b.py::test_there 3\n")
    costs.drop_removed()
    assert costs.listed() == {"test_a.py::test_there": 2}


def named_item(request: pytest.FixtureRequest, name: str, marks: Iterable[pytest.MarkDecorator] = ()) -> pytest.Item:
    item: pytest.Item = pytest.Function.from_parent(request.node.parent, name=name, callobj=lambda: None)
    item._id = NodeId(path="a", names=(name.partition("::")[2],))
    for mark in marks:
        item.add_marker(mark)
    return item


def test_what_was_measured_as_long_is_long_unless_it_is_essential_or_measured_again(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "LIST", tmp_path / "list")
    costs.LIST.write_text("a::slow 0.3\na::long 0.9\na::promise 0.9\n")

    def marked(*, long: bool) -> dict[str, list[str]]:
        items = [named_item(request, f"a::{name}") for name in ("quick", "slow", "long[x]")]
        items.append(named_item(request, "a::promise", [pytest.mark.essential]))
        costs.mark_measured(items, long=long)
        return {mark: [item.nodeid for item in items if item.get_closest_marker(mark)] for mark in ("slow", "long")}

    slow = ["a::slow", "a::long[x]", "a::promise"]
    assert marked(long=True) == {"slow": slow, "long": ["a::long[x]"]}
    assert marked(long=False) == {"slow": slow, "long": []}


def test_groups_run_first_and_then_what_takes_longest(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "LIST", tmp_path / "list")
    costs.LIST.write_text("a::first 9\na::second 0.3\na::small 0.2\na::large 0.4\na::larger 5\n")
    marks = {
        "a::quick": [],
        "a::larger": [pytest.mark.slow],
        "a::long[x]": [pytest.mark.slow, pytest.mark.long],
        "a::small": [pytest.mark.slow, pytest.mark.xdist_group("two")],
        "a::large[y]": [pytest.mark.slow, pytest.mark.xdist_group("one")],
        "a::first": [pytest.mark.slow],
        "a::unmeasured": [pytest.mark.slow, pytest.mark.xdist_group("one")],
    }
    items = [named_item(request, name, own) for name, own in marks.items()]
    costs.sort(items)
    assert [item.nodeid for item in items] == [
        *("a::large[y]", "a::unmeasured", "a::small", "a::long[x]", "a::first", "a::larger", "a::quick")
    ]


@pytest.mark.slow
def test_processor_time_of_processes_counts_while_they_run_and_afterwards() -> None:
    before = costs.used_seconds()
    spinning = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", spinning], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as spinner:
        assert spinner.stdout is not None
        spinner.stdout.readline()
        assert costs.used_seconds() - before >= 0.1
        spinner.communicate(b"\n")
    assert costs.used_seconds() - before >= 0.1


@pytest.fixture
def guarded(request: pytest.FixtureRequest) -> Iterator[costs.NoProcesses]:
    [plugin] = [each for each in request.config.pluginmanager.get_plugins() if isinstance(each, costs.NoProcesses)]
    yield plugin
    plugin.started.clear()


def test_starting_a_process_is_noted_and_git_is_quick_enough(guarded: costs.NoProcesses) -> None:
    subprocess.run(["git", "--version"], check=True, capture_output=True)  # noqa: S607  # where it is differs
    assert guarded.started == []
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert guarded.started == [Path(sys.executable).name]
    with pytest.raises(pytest.fail.Exception, match="must be marked slow"):
        guarded.refuse("a quick test")
    guarded.refuse("a quick test")


def test_values_that_are_not_usual_are_long() -> None:
    marks = {each.id: [mark.name for mark in each.marks] for each in variants(["one", "two"], {"one"})}
    assert marks == {"one": [], "two": ["long"]}
    assert [each.values for each in variants({"one": 1}, {"one"})] == [(1,)]


@pytest.mark.xdist_group("together")
def test_a_group_is_part_of_the_id_by_which_pytest_xdist_distributes(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config
) -> None:
    is_distributed = pytestconfig.getoption("loadgroup", default=False)
    assert request.node.nodeid.endswith("@together") == is_distributed


@pytest.mark.parametrize("usual", [(), ("three",)])
def test_a_value_must_be_usual_and_known(usual: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="usual"):
        variants(["one", "two"], usual)


@given(st.integers())
def test_a_property_without_settings_of_its_own_has_no_limits_of_time(drawn: int) -> None:
    del drawn
    usual, used = examples.draw(examples.USUAL), settings.default
    assert used is not None
    assert (used.deadline, used.max_examples) == (None, usual.max_examples)
    assert HealthCheck.too_slow in used.suppress_health_check
