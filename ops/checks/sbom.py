"""Write the software bill of materials of a lock file as CycloneDX JSON (`make sbom`, and while the image is built).

The result depends on the lock, ops/licences.toml and pyproject.toml alone, so equal inputs give equal bytes. It has a
timestamp only if SOURCE_DATE_EPOCH gives one.
"""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from ops.checks import licences, lock_files
from ops.checks.lock_files import LockedPackage
from ops.checks.writing import ROOT

FOLDER: Final = ROOT / "dist" / "sbom"
_LICENCES: Final = LicenseFactory()


def build(lock: str) -> str:
    """Return the bill of materials of a lock file, such as `service`, as JSON.

    Raises:
        KeyError: A package's licence isn't listed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = licences.load()
    packages = lock_files.read(lock)
    ebbing = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
        bom_ref=f"pkg:pypi/{project['name']}@{project['version']}",
        licenses=[_LICENCES.make_from_string(project["license"])],
    )
    components = {package: _component(package, listed.packages[package.name]) for package in packages}
    names = {package.name for package in packages}
    parts = [
        _part(part)
        for part in listed.bundled
        if part.get("lock", lock) == lock and ("package" not in part or part["package"] in names)
    ]
    bom = Bom(components=[*components.values(), *parts])
    bom.metadata.component = ebbing
    bom.metadata.timestamp = _timestamp()  # type: ignore[assignment]  # None is left out, against the annotation
    bom.metadata.properties.add(Property(name="ebbing:lock", value=f"ops/locks/{lock}.txt"))
    _add_dependencies(bom, ebbing, components)
    bom.serial_number = UUID(int=0)
    bom.serial_number = uuid5(NAMESPACE_URL, JsonV1Dot6(bom).output_as_string())
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _component(package: LockedPackage, licence: str) -> Component:
    """Return a package with the hashes of all of its files that the lock accepts."""
    marker = [Property(name="ebbing:marker", value=package.marker)] if package.marker else []
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=PackageURL("pypi", name=package.name, version=package.version),
        bom_ref=package.purl,
        licenses=[_LICENCES.make_from_string(licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.hashes],
        properties=marker,
    )


def _part(part: Mapping[str, str]) -> Component:
    return Component(
        name=part["name"],
        version=part["version"],
        type=ComponentType.DATA if "weights" in part["place"] else ComponentType.LIBRARY,
        bom_ref=f"ebbing:{part['name']}",
        licenses=[_LICENCES.make_from_string(part["licence"])],
        properties=[Property(name="ebbing:place", value=part["place"])],
    )


def _add_dependencies(bom: Bom, ebbing: Component, components: Mapping[LockedPackage, Component]) -> None:
    """Add which package requires which, as the lock's comments say."""
    by_name: dict[str, list[Component]] = {}
    for package, component in components.items():
        by_name.setdefault(package.name, []).append(component)
    required: dict[str, list[Component]] = {}
    for package, component in components.items():
        for name in package.required_by:
            required.setdefault(name, []).append(component)
    bom.register_dependency(ebbing, required.get(ebbing.name, []))
    for name, dependants in by_name.items():
        for dependant in dependants:
            bom.register_dependency(dependant, required.get(name, []))


def _timestamp() -> datetime | None:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the bills of the given locks, by default those of the runtime, into a folder."""
    parser = argparse.ArgumentParser(description="Write software bills of materials as CycloneDX JSON.")
    parser.add_argument("locks", nargs="*", default=lock_files.RUNTIME)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    for lock in given.locks:
        path = given.folder / f"ebbing-{lock}.cdx.json"
        path.write_text(build(lock))
        print(f"written: {path}")


if __name__ == "__main__":
    main()
