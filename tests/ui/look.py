"""A logged-in browser page that records every problem the browser reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.waiting import PATIENCE_SECONDS

PICTURES: Final = Path(".cache/pages")
_LISTENS: Final = """
document.addEventListener("securitypolicyviolation", function (event) {
  console.error("policy: " + event.violatedDirective + " " + event.blockedURI);
});
"""
_TOO_WIDE: Final = """
(function () {
  const root = document.documentElement;
  const edge = one => one.getBoundingClientRect().right;
  if (root.scrollWidth <= root.clientWidth) return [];
  const wide = [...document.querySelectorAll("body *")].filter(one => edge(one) > root.clientWidth);
  const shown = wide.slice(0, 20).map(one => `${one.tagName.toLowerCase()}.${one.className} ${edge(one)}`);
  return [`page ${root.scrollWidth}`, ...shown];
})()
"""


class Look:
    """A visitor with a browser and a key of every scope."""

    def __init__(self, household: Any, browser: Any, theme: str, width: int) -> None:
        """Log in."""
        self.url = f"{household.url}/ops"
        self._name = f"{theme}-{width}"
        self._context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        self._context.set_default_timeout(PATIENCE_SECONDS * 1000)
        self._context.add_init_script(_LISTENS)
        self.page = self._context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", self._stop)
        self.page.goto(f"{self.url}/log-in")
        self.page.get_by_label("API key").fill((household.home / "api-key").read_text().strip())
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(f"{self.url}/")

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.complaints.append(f"{self.page.url}: {message.text}")

    def _stop(self, dialog: Any) -> None:
        self.complaints.append("a script has run")
        dialog.dismiss()

    def go(self, path: str) -> None:
        """Open a page by its path below /ops."""
        self.page.goto(f"{self.url}{path}")
        self.page.wait_for_load_state("load")
        self.page.wait_for_timeout(150)

    def menu(self) -> list[str]:
        """Return the paths of the pages in the menu, below /ops."""
        return self._paths("nav a")

    def links(self) -> list[str]:
        """Return the paths below /ops of all pages that this one links to, except files."""
        return [path for path in self._paths("main a") if "/static/" not in path and "/file" not in path]

    def _paths(self, selector: str) -> list[str]:
        found = self.page.eval_on_selector_all(selector, "each => each.map(one => one.href)")
        own = [urlsplit(one) for one in found if one.startswith(self.url)]
        paths = [one.path.removeprefix("/ops") + (f"?{one.query}" if one.query else "") for one in own]
        return list(dict.fromkeys(path or "/" for path in paths))

    def picture(self, name: str) -> Path:
        """Take a screenshot of the whole page."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        place = PICTURES / f"{re.sub(r'[^a-z]+', '-', name).strip('-') or 'now'}-{self._name}.png"
        self.page.screenshot(path=place, full_page=True)
        return place

    def too_wide(self) -> list[str]:
        """Return the elements that make the page wider than the screen, with their right edges in pixels."""
        found: list[str] = self.page.evaluate(_TOO_WIDE)
        return found

    def barriers(self) -> list[str]:
        """Return the violations that axe-core finds on the page."""
        from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - installed by `make test-ui`

        found = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]]

    def says(self, words: str) -> None:
        """Wait until the page shows this text."""
        self.page.get_by_text(words).first.wait_for()

    def says_no_more(self, words: str) -> None:
        """Wait until the page no longer shows this text."""
        self.page.get_by_text(words).first.wait_for(state="detached")

    def close(self) -> None:
        """Close the page."""
        self._context.close()
