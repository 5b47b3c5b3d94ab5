"""Parts of printable pages: escaped HTML without scripts, with one style sheet."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app.domain.formatting import make_visible
from app.domain.privacy.documents.texts import Texts

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 48rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0 0 1rem }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; break-after: avoid }
p, li { orphans: 3; widows: 3 }
p { margin: .5rem 0 }
ul { margin: .4rem 0; padding-left: 1.3rem }
li { margin: .2rem 0 }
table { border-collapse: collapse; width: 100%; font-size: .9em }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid #d0d7de }
td { overflow-wrap: anywhere }
td.number { text-align: right; font-variant-numeric: tabular-nums }
tr { break-inside: avoid }
thead { display: table-header-group }
.lead { font-weight: 600 }
.bad { color: #b42318; font-weight: 600 }
.small { color: #57606a; font-size: .85em; overflow-wrap: anywhere }
.box th { width: 12rem }
.appendix { font-size: .9em }
.appendix h2 { font-size: 1.15em }
.first { break-before: page }
.sign { break-inside: avoid }
.sign table { margin: 1rem 0 }
.sign th { width: 12rem; font-weight: normal }
.sign td { height: 2.4rem }
.letter p { margin: .8rem 0 }
@page {
  size: A4; margin: 20mm 18mm 22mm;
  @bottom-center { content: counter(page) " / " counter(pages); font: 9pt system-ui, sans-serif }
}
@media print { body { margin: 0; max-width: none; padding: 0; font-size: 10.5pt } }
"""
"""The complete style sheet of every page; a Content-Security-Policy can allow it by its digest."""


def escape(text: str) -> str:
    """Escape a text for HTML, with its control and direction characters shown as code points."""
    return html.escape(make_visible(text))


def page(texts: Texts, title: str, body: str) -> str:
    """Return a complete page."""
    language = escape(texts.text("language"))
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def heading(text: str, level: int = 2, kind: str = "") -> str:
    """Return a heading; `kind` is a class of the style sheet."""
    return f"<h{level}{_class(kind)}>{escape(text)}</h{level}>"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; `kind` is a class of the style sheet."""
    return f"<p{_class(kind)}>{escape(text)}</p>"


def items(lines: Iterable[str]) -> str:
    """Return a list, or nothing if it has no lines."""
    body = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{body}</ul>" if body else ""


def table(texts: Texts, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table of these rows, or a paragraph that says that there are none."""
    if not rows:
        return paragraph(texts.text("format.none"))
    head = "".join(f"<th>{escape(title)}</th>" for title in heads)
    body = "".join("<tr>" + "".join(_cell(texts, value) for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def pairs(texts: Texts, rows: Mapping[str, object], kind: str = "") -> str:
    """Return a table of names and values; `kind` is a class of the style sheet."""
    body = "".join(f"<tr><th>{escape(name)}</th>{_cell(texts, value)}</tr>" for name, value in rows.items())
    return f"<table{_class(kind)}><tbody>{body}</tbody></table>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _cell(texts: Texts, value: object) -> str:
    shown = escape("–" if value in (None, []) else texts.value(value))
    return f'<td class="number">{shown}</td>' if type(value) is int else f"<td>{shown}</td>"
