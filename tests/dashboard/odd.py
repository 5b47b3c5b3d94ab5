"""A memory with hostile content in every field, and the check that a page renders it harmlessly."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

EVIL = (
    "tea <script>alert(1)</script> <a href='javascript:alert(1)'>\" onmouseover=\"alert(1) "
    "\u202eturned\u202c bell\u0007 </p></section>"
)
RICH: dict[str, Any] = {
    "text": EVIL,
    "subject": '<i>ann</i>"',
    "thread": "</bdi><script>alert(2)</script>",
    "speaker": "\u202eMallory",
    "external_id": "javascript:alert(3)",
    "tags": ["<b>tag</b>", 'a" onclick="alert(4)', "\u2066\u202e"],
    "categories": ["<u>"],
    "entities": ["<embed src=x>"],
    "metadata": {"<img src=x onerror=alert(5)>": "javascript:alert(6)", "turned": "\u202e"},
}
_OURS = frozenset(
    [
        "a",
        "article",
        "bdi",
        "body",
        "button",
        "circle",
        "code",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "form",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "html",
        "input",
        "label",
        "legend",
        "li",
        "line",
        "link",
        "main",
        "meta",
        "nav",
        "option",
        "p",
        "path",
        "polyline",
        "rect",
        "script",
        "section",
        "select",
        "small",
        "span",
        "strong",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "text",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
    ]
)


class _Read(HTMLParser):
    """HTML parser that collects elements, attributes and the text outside them."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _OURS, tag
        named = dict(attrs)
        assert len(named) == len(attrs)
        assert not any(name.startswith("on") or name == "style" for name in named)
        assert all((named.get(name) or "/ops").startswith(("/ops", "#")) for name in ("href", "src", "action"))
        if tag == "script":
            self.scripts.append(named["src"])
        if tag != "input":  # the viewer's own input is echoed unchanged
            self.said += [value or "" for value in named.values()]

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def assert_inert(html: str) -> None:
    """Check that no element, attribute, address, script or text-direction character on the page comes from a memory."""
    read = _Read()
    read.feed(html)
    read.close()
    assert len(read.scripts) == 3
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u0000-\u0008]", "".join(read.said))
