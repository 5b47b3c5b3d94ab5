"""`ops/sources.md` lists every section of each source, with modules and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ops" / "sources.md"

SECTIONS: dict[str, str] = {
    "004": """
        1.1 recency; 1.2 frequency; 1.3 salience; 1.4 relevance to the context; 1.5 weighted sum and presets;
        2.1 base rate; 2.2 modifiers; 2.3 reinforcement; 2.4 thresholds and grace; 3.1 triggers; 3.2 related memories;
        3.3 merge strategy; 3.4 compression and preservation; 4.1 review intervals; 4.2 queue and recall by context;
        4.3 self-tests; 5.1 tiers of deletion; 5.2 never forget; 5.3 privacy and expiry; performance targets;
        accuracy metrics; configuration example
    """,
    "000": """
        overview; model selection; core formula; parameter reference; use count; decay; strength multiplier;
        forget threshold; threshold summary; promote threshold; decision logic; parameter interactions; worked examples;
        visualisations; four tunings; precision; caching; batch operations; compared with a fixed time to live;
        compared with least recently used; compared with linear decay; future: adaptive decay;
        future: spaced repetition; future: strength by content
    """,
    "001": """
        overview; temporal decay; half-life; reinforcement; promotion criteria; garbage collection;
        natural spaced repetition; review priority; use in another domain; automatic reinforcement; blended search;
        configuration; memory model; usage pattern; layers; storage format; memory states; saving a memory;
        searching memories; touching a memory; promotion flow; flow of garbage collection; clustering by similarity;
        cluster actions; Basic Memory (Obsidian); Sentence Transformers; performance: database; performance: embeddings;
        performance: scaling; tuning of the rate; tuning of thresholds; tuning of the use count;
        future: consolidation by a model; future: relations; future: context windows; future: learned decay;
        future: several users; future: incremental promotion
    """,
    "002": """
        formula; similarity; decay; importance; priming; why multiplicative; threshold; spreading activation
    """,
    "003": """
        package metadata and licence; introduction and curve; key ideas; architecture; core components; installation;
        dependencies; quick start: a library; quick start: a server; API endpoints; example requests;
        categories and types; core concepts; decay functions; stability and consolidation; testing effect; two scores;
        hybrid search; configuration; decay parameters; server parameters; custom decay functions; benchmarks;
        OpenClaw plugin; plugin setup; automatic ticks; running tests; project structure; references
    """,
}
"""Headings of each source, in its order and in our words; the introduction of 004 has no content of its own."""

STATES = ("as written", "adapted", "partly", "left out", "being built")


def sections(source: str) -> list[str]:
    return [name.strip() for name in " ".join(SECTIONS[source].split()).split(";")]


def rows(source: str, text: str) -> list[list[str]]:
    """Return the cells of a source's table, without its head."""
    [part] = [each for each in text.split("\n## ") if each.startswith(f"{source},")]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@cache
def names_of_tests(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def list_faults(source: str, text: str) -> list[str]:
    """Return what is wrong with a source's table."""
    table = rows(source, text)
    found = [row[0] for row in table]
    faults = [f"missing: {name}" for name in sections(source) if name not in found]
    faults += [f"unknown or repeated: {name}" for name in found if name not in sections(source)]
    faults += [f"repeated: {name}" for name in set(found) if found.count(name) > 1]
    for name, places, tests, state in table:
        left_out = state.startswith("left out")
        if not state.startswith(STATES):
            faults.append(f"{name}: unknown state {state!r}")
        for kind, cell in (("place", places), ("test", tests)):
            named = re.findall(r"`([^`]+)`", cell)
            if not named and not (left_out and cell == "none"):
                faults.append(f"{name}: no {kind}")
            faults += [f"{name}: {fault}" for each in named for fault in check_name(each)]
    return faults


def check_name(name: str) -> list[str]:
    path, _, test = name.partition("::")
    if not (ROOT / path).is_file():
        return [f"no file {path}"]
    if test and test not in names_of_tests(ROOT / path):
        return [f"no test {name}"]
    return []


@pytest.mark.parametrize("source", SECTIONS)
def test_every_section_has_a_place_and_a_test_that_exist(source: str) -> None:
    assert list_faults(source, PAGE.read_text(encoding="utf-8")) == []


def test_faults_would_be_found() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert list_faults("002", text.replace("| priming |", "| prime |")) == [
        "missing: priming",
        "unknown or repeated: prime",
    ]
    assert list_faults("002", text.replace("services/search/priming.py", "services/search/primed.py")) == [
        "priming: no file app/services/search/primed.py"
    ]
    assert list_faults("002", text.replace("test_priming_fades_over_ten_turns", "test_fades")) == [
        "priming: no test tests/services/search/test_priming.py::test_fades"
    ]
    assert list_faults("003", text.replace("| left out: no plugin |", "| adapted |")) == [
        *("OpenClaw plugin: no place", "OpenClaw plugin: no test", "plugin setup: no place", "plugin setup: no test")
    ]


def test_what_is_being_built_is_listed_together() -> None:
    text = PAGE.read_text(encoding="utf-8")
    building = any(row[3].startswith("being built") for source in SECTIONS for row in rows(source, text))
    assert building == ("\n## Being built\n" in text), "remove the section when nothing is being built any more"
