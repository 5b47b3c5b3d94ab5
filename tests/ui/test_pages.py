"""Every page in both themes and at phone width: no browser errors, no accessibility violations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.ui.conftest import THEMES, WIDTHS
from tests.ui.content import SCRIPT, letter
from tests.ui.look import Look

MOST_PAGES = 60


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", THEMES)
def test_every_page_can_be_used_by_everybody(household: Any, look: Callable[..., Look], theme: str, width: str) -> None:
    letter(household)
    eye = look(theme, width)
    seen: dict[str, list[str]] = {}
    waiting = [*eye.menu(), *eye.links()]
    while waiting and len(seen) < MOST_PAGES:
        path = waiting.pop(0)
        kind = path.partition("?")[0].rpartition("/")[0] if path.count("-") >= 4 else path  # one page of each kind
        if kind in seen:
            continue
        eye.go(path)
        assert eye.page.locator("h1").count() == 1, path
        seen[kind] = eye.barriers()
        assert not eye.too_wide(), path
        eye.picture(kind)
        waiting += eye.links()
    assert set(eye.menu()) <= set(seen)
    assert not {path: found for path, found in seen.items() if found}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", THEMES)
def test_what_a_search_finds_and_a_memory_can_be_read_by_everybody(
    look: Callable[..., Look], theme: str, width: str
) -> None:
    eye = look(theme, width)
    for query, name in (("who feeds the birds in the garden?", ""), ("it ran, javascript alert", " script")):
        eye.go("/search")
        eye.page.keyboard.press("/")
        eye.page.keyboard.type(query)
        eye.page.keyboard.press("Enter")
        eye.page.locator(".hit").first.wait_for()
        found = eye.barriers()
        eye.picture(f"found{name}")
        eye.page.locator(".hit a[href*='/memories/']").first.click()
        eye.page.locator("svg.chart").first.wait_for()
        found += eye.barriers()
        eye.picture(f"memory{name}")
        assert not found
        assert not eye.too_wide()
    assert SCRIPT in eye.page.inner_text("main")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_name_leaves_room_for_what_stands_beside_it(look: Callable[..., Look], width: str) -> None:
    eye = look(width=width)
    eye.go("/tenants")
    row = eye.page.locator("tr", has_text="WWWW").bounding_box()
    button = eye.page.get_by_role("button", name="View").bounding_box()
    assert row["height"] < 500  # wrapped, but not one letter per line
    if width == "desk":
        assert button["x"] + button["width"] <= WIDTHS[width]


def test_it_is_usable_by_keyboard_alone(look: Callable[..., Look]) -> None:
    eye = look()
    keys = eye.page.keyboard
    keys.press("Tab")
    assert eye.page.evaluate("document.activeElement.className") == "skip"
    keys.press("Enter")
    eye.page.get_by_text("Run now").first.focus()
    keys.press("Enter")
    eye.page.locator("input[name=reason]:focus").wait_for()
    keys.press("Escape")
    assert eye.page.locator("details.action[open]").count() == 0
    eye.page.get_by_text("Run now").first.focus()
    keys.press("Enter")
    eye.page.locator("input[name=reason]:focus").wait_for()
    keys.type("the keyboard asks for it")
    keys.press("Enter")
    eye.says("The run is queued")
    eye.says("the keyboard asks for it")


def test_the_theme_is_kept(look: Callable[..., Look]) -> None:
    eye = look()
    eye.page.get_by_role("button", name="Theme").click()
    eye.page.get_by_role("button", name="Theme").click()
    eye.go("/letters")
    assert eye.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_every_action_asks_and_says_what_it_did(household: Any, look: Callable[..., Look]) -> None:
    """Each kind of form on the menu's pages is submitted once, with a reason."""
    letter(household)
    eye = look()
    done: set[str] = set()
    for path in eye.menu():
        for _ in range(20):
            eye.go(path)
            forms = eye.page.locator("details.action form")
            kinds = [
                (place, kind_of(forms.nth(place).get_attribute("action")))
                for place in range(forms.count())
                if forms.nth(place).is_enabled()
            ]
            left = [(place, kind) for place, kind in kinds if kind not in done]
            if not left:
                break
            place, kind = left[0]
            done.add(kind)
            if kind.endswith("/file"):  # the browser saves a file and stays on the page
                with eye.page.expect_download() as saved:
                    act(eye, forms.nth(place))
                assert saved.value.suggested_filename.endswith(".zip")
                continue
            act(eye, forms.nth(place))
            if kind.endswith("/privacy/subjects"):  # carrying out a request begins with a look at the person's data
                eye.page.get_by_text("Request that is carried out").wait_for()
                continue
            eye.page.locator(".done").wait_for()  # exactly one
    assert "/ops/schedule/night/run" in done


def kind_of(action: str) -> str:
    """Return the action of a form, regardless of its target."""
    return "/".join(part for part in action.split("/") if part.count("-") < 4)


def act(eye: Look, form: Any) -> None:
    """Open a form, fill in its required fields, and submit it."""
    form.locator("xpath=ancestor::details[1]").locator("summary").first.click()
    for field in form.locator("input[required], textarea[required]").all():
        if not field.input_value():
            field.fill("because a test asks for it")
    form.locator("button").last.click()
    eye.page.wait_for_load_state("load")
