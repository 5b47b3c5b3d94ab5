"""Check the licence of every runtime dependency against ops/licences.toml, and write ops/licences.md (`make docs`)."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib import metadata
from typing import Any, Final

from license_expression import ExpressionError, get_spdx_licensing
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ops.checks import lock_files
from ops.checks.writing import ROOT, write

LIST: Final = ROOT / "ops" / "licences.toml"
PAGE: Final = ROOT / "ops" / "licences.md"
EXTRA: Final = "fastembed"
"""Extra without a lock of its own, which the tests install."""
REASON_CHARACTERS: Final = 20
SPDX: Final = get_spdx_licensing()

HEAD: Final = """# Licences

<!-- written by `make docs` from ops/licences.toml and the lock files; a test fails if it is outdated -->

Ebbing itself is licensed under Apache-2.0. This page lists the licences of every package that its lock files install,
of those of the extra `fastembed`, and of data and programs inside them. `make check` fails with a package's name if its
licence is unknown, differs from the package's own metadata, or isn't allowed and has no dated exception. The rule and
the list are in `ops/licences.toml`.

Not on this page: the extras `otel` and `sentence-transformers`, which operators install themselves. The latter installs
CUDA libraries under NVIDIA's proprietary licence on Linux.
"""


@dataclass(frozen=True, slots=True)
class Exemption:
    """An accepted licence of one package that isn't generally allowed."""

    licence: str
    accepted: date
    reason: str


@dataclass(frozen=True, slots=True)
class LicenceList:
    """Content of ops/licences.toml: allowed licences, exceptions, and each package's licence.

    Attributes:
        bundled: Data and programs that no lock names, each with name, version, licence, place and source.
    """

    allowed: frozenset[str]
    exceptions: Mapping[str, Exemption]
    packages: Mapping[str, str]
    bundled: tuple[Mapping[str, str], ...]


def load(text: str | None = None) -> LicenceList:
    """Return the list of a TOML text; by default, that of ops/licences.toml."""
    found = tomllib.loads(LIST.read_text() if text is None else text)
    exceptions = {name: Exemption(**values) for name, values in found.get("exceptions", {}).items()}
    return LicenceList(
        frozenset(found["allowed"]), exceptions, found.get("packages", {}), tuple(found.get("bundled", ()))
    )


def list_runtime() -> set[str]:
    """Return the names of all packages that the runtime may contain."""
    locked = {package.name for lock in lock_files.RUNTIME for package in lock_files.read(lock)}
    return locked | _list_installed_requirements("ebbing", {EXTRA})


def _list_installed_requirements(name: str, extras: set[str]) -> set[str]:
    """Return the installed packages that a distribution with these extras requires, directly or not."""
    found: set[str] = set()
    open_ends: list[tuple[str, frozenset[str]]] = [(name, frozenset(extras))]
    seen = set(open_ends)
    while open_ends:
        parent, wanted = open_ends.pop()
        for line in metadata.requires(parent) or []:
            required = Requirement(line)
            marker = required.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                continue
            found.add(canonicalize_name(required.name))
            end = (canonicalize_name(required.name), frozenset(required.extras))
            if end not in seen:
                seen.add(end)
                open_ends.append(end)
    return found


def read_own_licence(name: str) -> str | None:
    """Return the SPDX licence in a package's own metadata; None if it isn't installed or names none."""
    try:
        found = metadata.metadata(name).get_all("License-Expression") or []
    except metadata.PackageNotFoundError:
        return None
    return next(iter(found), None)


def find_faults(licences: LicenceList, runtime: set[str], own: Mapping[str, str | None], today: date) -> Iterator[str]:
    """Yield the faults of the list, one line each.

    Args:
        runtime: Names of the packages that may be installed.
        own: Licence in each package's metadata, if it names one.
    """
    for name in sorted(runtime - licences.packages.keys()):
        yield f"{name}: its licence is unknown: read it, and add it to {LIST.name}"
    for name in sorted(licences.packages.keys() - runtime):
        yield f"{name}: no longer installed: remove it from {LIST.name}"
    for name, licence in licences.packages.items():
        if (said := own.get(name)) and _parse(said) != _parse(licence):
            yield f"{name}: {LIST.name} has {licence}, the package itself {said}"
        yield from _find_breaches(licences, name, licence)
    for name, exempt in licences.exceptions.items():
        if name not in licences.packages:
            yield f"{name}: an exception for a package that isn't listed"
        if exempt.accepted > today or len(exempt.reason) < REASON_CHARACTERS:
            yield f"{name}: an exception needs a date that isn't in the future, and a reason"
    for part in licences.bundled:
        if missing := {"name", "version", "licence", "place", "source"} - part.keys():
            yield f"bundled {part.get('name', '?')}: {', '.join(sorted(missing))} missing"


def _find_breaches(licences: LicenceList, name: str, licence: str) -> Iterator[str]:
    exempt = licences.exceptions.get(name)
    if is_allowed(licence, licences.allowed):
        if exempt:
            yield f"{name}: its licence is allowed: remove the exception"
    elif exempt is None or exempt.licence != licence:
        yield f"{name}: {licence} isn't allowed: replace the package, or add a dated exception with a reason"


def is_allowed(licence: str, allowed: frozenset[str]) -> bool:
    """Return whether an SPDX expression can be met with allowed licences; an invalid one can't."""
    tree = _parse(licence)
    return tree is not None and _is_met(tree, allowed)


def _is_met(tree: Any, allowed: frozenset[str]) -> bool:
    if isinstance(tree, SPDX.OR):
        return any(_is_met(part, allowed) for part in tree.args)
    if isinstance(tree, SPDX.AND):
        return all(_is_met(part, allowed) for part in tree.args)
    return str(tree) in allowed


def _parse(licence: str) -> Any:
    """Return the tree of an SPDX expression; None if it is invalid."""
    try:
        return SPDX.parse(licence, validate=True, strict=True)
    except ExpressionError:
        return None


def page(licences: LicenceList) -> str:
    """Return the whole page."""
    rows = [f"| {name} | {licence} |" for name, licence in sorted(licences.packages.items())]
    accepted = [
        f"| {name} | {each.licence} | {each.accepted} | {each.reason} |" for name, each in licences.exceptions.items()
    ]
    bundled = [
        f"| [{part['name']}]({part['source']}) | {part['version']} | {part['licence']} | {part['place']} | "
        f"{part.get('note', '')} |"
        for part in licences.bundled
    ]
    sections = (
        ("Exceptions", "| package | licence | accepted on | reason |\n|---|---|---|---|", accepted),
        (
            "Inside packages, the repository and the image",
            "| part | version | licence | where | note |\n|---|---|---|---|---|",
            bundled,
        ),
        ("Packages", "| package | licence |\n|---|---|", rows),
    )
    return HEAD + "".join(f"\n## {title}\n\n{head}\n" + "\n".join(lines) + "\n" for title, head, lines in sections)


def main() -> int:
    """Check the list, or write the page if `--write` is given; return 1 if there is a fault."""
    licences = load()
    if "--write" in sys.argv:
        write(PAGE, page(licences))
        return 0
    own = {name: read_own_licence(name) for name in licences.packages}
    faults = list(find_faults(licences, list_runtime(), own, datetime.now(UTC).date()))
    print("\n".join(faults) or f"licences: ok ({len(licences.packages)} packages)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
