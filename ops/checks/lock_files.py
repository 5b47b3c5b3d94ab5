"""Read the lock files: packages with versions, hashes of their files, environment markers, and what requires them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ops.checks.writing import ROOT

LOCKS: Final = ROOT / "ops" / "locks"
RUNTIME: Final = ("service", "run")
"""Locks of what is shipped: the image, and `ebbing run` with its embedded servers."""

_PIN: Final = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\]+))?"
)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_REQUIRED_BY: Final = re.compile(r"^    #   ?(?:via )?([A-Za-z0-9][\w.-]*)(?: \(.*\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """A package of a lock file.

    Attributes:
        name: Name in its normal form, with hyphens.
        marker: Condition under which it is installed; empty if always.
        hashes: SHA-256 of each of its files that may be installed, in order.
        required_by: Names of the packages that require it, among them `ebbing`.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    required_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def path_of(lock: str) -> Path:
    """Return the path of a lock file, such as `service`."""
    return LOCKS / f"{lock}.txt"


def read(lock: str) -> list[LockedPackage]:
    """Return the packages of a lock file in its order; a package with two markers is listed twice."""
    return parse(path_of(lock).read_text())


def parse(text: str) -> list[LockedPackage]:
    """Return the packages of a lock file's text.

    Raises:
        ValueError: A line isn't understood, or a package has no hash.
    """
    packages = []
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        if not block.strip() or block.startswith("#"):
            continue
        pin = _PIN.match(block)
        hashes = tuple(sorted(_HASH.findall(block)))
        if pin is None or not hashes:
            raise ValueError(f"not a package with hashes: {block.splitlines()[0]}")
        required_by = tuple(sorted(set(_REQUIRED_BY.findall(block)) - {"via"}))
        marker = (pin["marker"] or "").strip()
        packages.append(LockedPackage(pin["name"], pin["version"], marker, hashes, required_by))
    return packages
