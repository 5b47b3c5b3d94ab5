"""Runbook page: `ops/runbook.md` as HTML, readable without a log-in and while the stores are down."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request, Response
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from app import __name__ as package
from app.dashboard import rendering
from app.dashboard.access import find_viewer
from app.domain.operator_advice import Installation
from app.domain.runbook import anchor
from app.settings import settings

NAME: Final = "runbook.md"

router = APIRouter()


@router.get("/runbook")
async def show_runbook(request: Request) -> Response:
    """Show the runbook. It contains no data of this installation, so it needs no log-in."""
    viewer = await find_viewer(request)
    kind, home = settings().installation, ".ebbing"
    example = Installation(kind, home).ebbing("doctor") if kind in {"compose", "kubernetes"} else ""
    return rendering.page(request, viewer, "runbook", content=render_runbook(), example=example, kind=kind)


@cache
def render_runbook() -> Markup:
    """Return the runbook as HTML; raw HTML in it is escaped, and links to other files become plain text."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(read_runbook())
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            token.attrSet("id", anchor(following.content))
        if token.children:
            token.children = _without_file_links(token.children)
    html = markdown.renderer.render(tokens, markdown.options, {})
    html = html.replace("<pre>", '<pre tabindex="0">')  # long commands can be scrolled with the keyboard
    return Markup(html)  # noqa: S704 - our own page, and escaped


def read_runbook() -> str:
    """Return the runbook's text: from the package, or in a working copy from `ops/`."""
    packaged = resources.files(f"{package}.dashboard").joinpath(NAME)
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[3] / "ops" / NAME).read_text(encoding="utf-8")


def _without_file_links(tokens: list[Token]) -> list[Token]:
    """Return the tokens; keep only links to sections of this page and to `https://` addresses."""
    found, dropped = [], 0
    for token in tokens:
        if token.type == "link_open" and not str(token.attrGet("href")).startswith(("#", "https://")):
            dropped += 1
        elif token.type == "link_close" and dropped:
            dropped -= 1
        else:
            found.append(token)
    return found
