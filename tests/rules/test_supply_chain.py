"""The lock files, the licences of what they install, and the bills of materials made from both."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ops.checks import licences, lock_files, sbom
from ops.checks.licences import Exemption, LicenceList
from tests.test_wheel import PROJECT

TODAY = date(2026, 11, 22)
LIST = LicenceList(
    frozenset({"MIT", "BSD-3-Clause"}),
    {"weak": Exemption("LGPL-3.0-only", TODAY, "imported as a separate package")},
    {"good": "MIT", "weak": "LGPL-3.0-only", "either": "GPL-2.0-only OR MIT"},
    (),
)
RUNTIME = {"good", "weak", "either"}


def faults(changed: LicenceList = LIST, runtime: set[str] = RUNTIME, **own: str) -> list[str]:
    return list(licences.find_faults(changed, runtime, own, TODAY))


def with_licence(name: str, licence: str) -> LicenceList:
    return replace(LIST, packages={**LIST.packages, name: licence})


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (faults(), None),
        (faults(runtime=RUNTIME | {"new"}), "new: its licence is unknown"),
        (faults(runtime=RUNTIME - {"good"}), "good: no longer installed"),
        (faults(with_licence("good", "AGPL-3.0-only")), "good: AGPL-3.0-only isn't allowed"),
        (faults(with_licence("good", "MIT AND GPL-2.0-only")), "good: MIT AND GPL-2.0-only isn't allowed"),
        (faults(with_licence("good", "free for all")), "good: free for all isn't allowed"),
        (faults(with_licence("weak", "GPL-3.0-only")), "weak: GPL-3.0-only isn't allowed"),
        (faults(with_licence("weak", "MIT")), "weak: its licence is allowed: remove the exception"),
        (faults(good="BSD-3-Clause"), "good: licences.toml has MIT, the package itself BSD-3-Clause"),
        (faults(either="MIT OR GPL-2.0-only"), None),
        (faults(replace(LIST, exceptions={"weak": Exemption("LGPL-3.0-only", TODAY, "")})), "weak: an exception needs"),
        (
            faults(replace(LIST, exceptions={"weak": Exemption("LGPL-3.0-only", date(2027, 1, 1), "x" * 30)})),
            "weak: an exception needs a date that isn't in the future",
        ),
        (faults(replace(LIST, bundled=({"name": "font", "licence": "MIT"},))), "bundled font: place, source, version"),
    ],
)
def test_a_fault_in_the_licences_is_named_with_its_package(found: list[str], fault: str | None) -> None:
    assert [line.startswith(fault or "") for line in found] == ([True] if fault else [])


def test_our_licences_have_no_fault_and_their_page_is_the_generated_one() -> None:
    listed = licences.load()
    own = {name: licences.read_own_licence(name) for name in listed.packages}
    assert sum(1 for licence in own.values() if licence) > 40
    assert list(licences.find_faults(listed, licences.list_runtime(), own, datetime.now(UTC).date())) == []
    assert licences.PAGE.read_text() == licences.page(listed), "run `make docs`"


def test_the_runtime_is_everything_that_the_project_declares() -> None:
    declared = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["embedded"]]
    declared += PROJECT["optional-dependencies"][licences.EXTRA]
    assert {canonicalize_name(Requirement(line).name) for line in declared} <= licences.list_runtime()


@pytest.fixture(scope="module")
def bills() -> dict[str, dict[str, Any]]:
    return {lock: json.loads(sbom.build(lock)) for lock in lock_files.RUNTIME}


@pytest.mark.parametrize("lock", lock_files.RUNTIME)
def test_a_bill_of_materials_has_each_locked_package_with_its_version_hashes_and_licence(
    lock: str, bills: dict[str, dict[str, Any]]
) -> None:
    locked = {f"pkg:pypi/{package.name}@{package.version}": package for package in lock_files.read(lock)}
    assert len(locked) == lock_files.path_of(lock).read_text().count("==") - sum(
        line.count("==") for package in locked.values() for line in [package.marker]
    )
    listed = licences.load().packages
    found = {component["purl"]: component for component in bills[lock]["components"] if "purl" in component}
    assert found.keys() == locked.keys()
    for purl, package in locked.items():
        component = found[purl]
        assert (component["name"], component["version"]) == (package.name, package.version)
        assert sorted(each["content"] for each in component["hashes"]) == list(package.hashes), purl
        assert {each["alg"] for each in component["hashes"]} == {"SHA-256"}
        [licence] = component["licenses"]
        assert (licence.get("expression") or licence["license"]["id"]) == listed[package.name], purl


def test_a_bill_of_materials_says_what_requires_what(bills: dict[str, dict[str, Any]]) -> None:
    bill = bills["service"]
    required = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    names = {ref: {each.removeprefix("pkg:pypi/").partition("@")[0] for each in of} for ref, of in required.items()}
    own = names[bill["metadata"]["component"]["bom-ref"]]
    declared = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert declared <= own
    [jinja] = [ref for ref in names if ref.startswith("pkg:pypi/jinja2@")]
    assert names[jinja] == {"markupsafe"}


def test_a_bill_of_materials_has_the_data_of_its_own_packages_alone(bills: dict[str, dict[str, Any]]) -> None:
    parts = {lock: {each["name"] for each in bill["components"] if "purl" not in each} for lock, bill in bills.items()}
    assert "Redis" in parts["run"] - parts["service"]
    assert "CPython and Debian" in parts["service"] - parts["run"]
    assert "word vectors of the embedder `local`" in parts["run"] & parts["service"]


def test_a_bill_of_materials_depends_on_nothing_but_the_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    first = sbom.build("service")
    assert "timestamp" not in json.loads(first)["metadata"]
    assert sbom.build("service") == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1580601600")
    dated = json.loads(sbom.build("service"))
    assert dated["metadata"]["timestamp"].startswith("2020-02-02T00:00:00")
    assert dated["serialNumber"] != json.loads(first)["serialNumber"]


@pytest.mark.parametrize("text", ["jinja2>=3\n", "jinja2==3.1.6\n    # via fastapi\n"])
def test_a_lock_without_versions_or_hashes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="jinja2"):
        lock_files.parse(text)
