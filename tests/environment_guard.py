"""Each test starts with the session's `EBBING_` variables: a guard fails the test or fixture that leaves others.

The guard also fails a test that configures the logging of the test process, as a process of the service does: loggers
would keep that test's output, which pytest closes, and fail in later tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

PREFIX = b"EBBING_"
TEMPORARY_SCOPES = frozenset({"function", "class", "module"})  # gone before tests of another module run
Variables = dict[bytes, bytes]


def read() -> Variables:
    """Return the variables whose names start with `EBBING_`."""
    return {name: os.environb[name] for name in os.environb if name.startswith(PREFIX)}


def differences(before: Variables, after: Variables) -> dict[bytes, bytes | None]:
    """Return the variables that were set, changed or, with None, removed."""
    return {name: after.get(name) for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def write(changes: Mapping[bytes, bytes | None]) -> None:
    """Set variables and remove those with None."""
    for name, value in changes.items():
        if value is None:
            os.environb.pop(name, None)
        else:
            os.environb[name] = value


@dataclass(eq=False)
class EnvironmentGuard:
    """Plugin of pytest that compares the environment after each test with that at the session's start.

    A fixture of a module or class may change variables until it is torn down. A fixture of the session may not: tests
    of other modules would run in what it has left.
    """

    _first: Variables = field(default_factory=read)
    _lent: dict[pytest.FixtureDef[Any], dict[bytes, bytes | None]] = field(default_factory=dict)
    _changed_by: dict[tuple[bytes, bytes | None], str] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Note what the fixture changes; undo and refuse it if the fixture lives as long as the session."""
        before = read()
        result = yield
        changes = differences(before, read())
        if not changes:
            return result
        name = f"the {fixturedef.scope} fixture {fixturedef.argname} of {fixturedef.baseid or 'a plugin'}"
        if fixturedef.scope not in TEMPORARY_SCOPES:
            write(differences(read(), before))
            self._refuse({name: set(changes)})
        if fixturedef.scope != "function":
            self._lent[fixturedef] = changes
        self._changed_by |= dict.fromkeys(changes.items(), name)
        return result

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Expect that what the fixture changed is undone when the test has ended."""
        self._lent.pop(fixturedef, None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Undo and refuse what the test or its fixtures have left."""
        try:
            return (yield)
        finally:
            self._compare(item.nodeid)
            if "structlog" in sys.modules and sys.modules["structlog"].get_config()["cache_logger_on_first_use"]:
                sys.modules["structlog"].reset_defaults()
                pytest.fail(f"{item.nodeid} calls `app.logs.configure`: replace it with `monkeypatch`", pytrace=False)

    def _compare(self, test: str) -> None:
        lent = {change for changes in self._lent.values() for change in changes.items()}
        expected = self._first | {name: value for name, value in lent if value is not None}
        for name, value in lent:
            if value is None:
                expected.pop(name, None)
        left = differences(expected, now := read())
        culprits: dict[str, set[bytes]] = {}
        for change in left.items():
            culprits.setdefault(self._changed_by.get(change, test), set()).add(change[0])
        self._changed_by = {change: name for change, name in self._changed_by.items() if change in lent}
        if culprits:
            write(differences(now, expected))
            self._refuse(culprits)

    @staticmethod
    def _refuse(culprits: Mapping[str, set[bytes]]) -> None:
        left = [f"{culprit} leaves {', '.join(sorted(map(os.fsdecode, names)))}" for culprit, names in culprits.items()]
        pytest.fail(
            f"{'; '.join(left)} changed: change the environment with `monkeypatch`, or `MonkeyPatch.context()`",
            pytrace=False,
        )
