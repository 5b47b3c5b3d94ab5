"""Fixtures: the whole service with content, and a browser that opens its pages (`make test-ui`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ui.look import Look

THEMES = ("light", "dark")
WIDTHS = {"desk": 1200, "phone": 390}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect only with `--ui`, since the browser's driver isn't among the other tests' dependencies."""
    return None if config.getoption("ui") else True


@pytest.fixture(scope="session")
def household(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The service, run as by `ebbing run`, with a tenant that has content on every page."""
    from tests.faults.supervised_home import Household  # noqa: PLC0415 - see above
    from tests.ui.content import fill  # noqa: PLC0415

    home = Household(tmp_path_factory.mktemp("home"), {"EBBING_KEY_CACHE_SECONDS": "1"})
    home.start()
    try:
        fill(home)
        yield home
    finally:
        home.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Chromium."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - installed by `make test-ui`

    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=os.environ["EBBING_TEST_BROWSER"], args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def look(household: object, browser: object) -> Iterator[Callable[..., Look]]:
    """Function that opens a logged-in browser page; the teardown checks that the browser reported no problems."""
    opened: list[Look] = []

    def at(theme: str = "light", width: str = "desk") -> Look:
        opened.append(Look(household, browser, theme, WIDTHS[width]))
        return opened[-1]

    yield at
    for one in opened:
        one.close()
    complaints = [complaint for one in opened for complaint in one.complaints]
    assert not complaints
