"""The reference of the API in a browser: nothing comes from another site, and nothing breaks the policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.ui.conftest import THEMES, WIDTHS
from tests.ui.look import Look

SWAGGERS_OWN = ("nested-interactive", "scrollable-region-focusable", "region")
"""Barriers inside Swagger UI's own markup, which a style sheet can't remove."""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", THEMES)
def test_the_reference_opens_with_the_first_calls_and_asks_no_other_site(
    household: Any, look: Callable[..., Look], theme: str, width: str
) -> None:
    eye = look(theme, width)
    asked: list[str] = []
    eye.page.on("request", lambda request: asked.append(request.url))
    eye.page.goto(f"{household.url}/docs")
    eye.page.locator(".opblock").first.wait_for()

    paths = eye.page.locator(".opblock-summary-path").all_inner_texts()
    assert [path.replace("\u200b", "") for path in paths] == [
        *("/v1/memories", "/v1/search", "/v1/recall", "/v1/observations", "/v1/memories/{memory_id}"),
    ]
    eye.page.locator(".opblock-summary-control").nth(1).click()
    eye.says("What does Ann like to drink?")
    eye.picture("reference")
    assert asked
    assert [url for url in asked if not url.startswith(household.url)] == []
    assert eye.complaints == []
    assert not eye.too_wide()
    assert [found for found in eye.barriers() if not found.startswith(SWAGGERS_OWN)] == []
