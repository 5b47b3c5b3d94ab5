"""Render the human-readable page of an export: one self-contained, escaped HTML file without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any, Final

import msgspec

from app.domain.ingest.memory import COLUMNS
from app.domain.privacy.documents.texts import ENGLISH, Texts
from app.domain.privacy.requests import PrivacyRequest

_ENDS: Final = {"access": ("recipients", "terms", "files"), "portable": ("files",)}
"""The sections after the memories, by kind of export."""
PAGE_MEMORIES: Final = 50
"""Maximum number of memories in a section; in print, each section begins on a new page."""
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;break-after:avoid;margin-top:2rem}h3{font-size:.85rem;margin:0;color:#555}"
    "article{border-top:1px solid #ccc;padding:1rem 0}h3,dl{break-inside:avoid}h3{break-after:avoid}"
    "section{break-before:page}nav a{color:inherit}nav li{margin:.2rem 0}"
    "p{white-space:pre-wrap;overflow-wrap:anywhere}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem;margin:0;font-size:.85rem;color:#555}"
    "dd{margin:0;overflow-wrap:anywhere}"
    "@page{size:A4;margin:20mm 18mm 22mm;"
    "@bottom-center{content:counter(page) ' / ' counter(pages);font:9pt sans-serif}}"
    "@media print{body{margin:0;max-width:none;padding:0;font-size:10.5pt}}"
)


@dataclass(slots=True)
class PageSection:
    """A section of the page: its number of memories, and the times of the earliest and the latest in ISO format."""

    memories: int = 0
    earliest: str | None = None
    latest: str | None = None


@dataclass(slots=True)
class PageContents:
    """The sections of the page; `count_line` must be called for each line of the memories' file."""

    sections: list[PageSection] = field(default_factory=list)

    def count_line(self, line: bytes) -> None:
        """Count a line of the memories' file."""
        if not self.sections or self.sections[-1].memories == PAGE_MEMORIES:
            self.sections.append(PageSection())
        section, decoded = self.sections[-1], _LINE.decode(line)
        moment = decoded.occurred_at or (decoded.memory and (decoded.memory.occurred_at or decoded.memory.created_at))
        section.memories += 1
        if moment:
            section.earliest = min(filter(None, (section.earliest, moment)), key=datetime.fromisoformat)
            section.latest = max(filter(None, (section.latest, moment)), key=datetime.fromisoformat)


class _Memory(msgspec.Struct):
    occurred_at: str | None = None
    created_at: str | None = None


class _Line(msgspec.Struct):
    memory: _Memory | None = None
    occurred_at: str | None = None


_LINE: Final = msgspec.json.Decoder(_Line)
_FIRST: Final = ("thread", "speaker", "role", "kind", "external_id")
_ELSEWHERE: Final = frozenset({"text", "subject", "occurred_at", "metadata"})
_LABELS: Final = (*dict.fromkeys((*_FIRST, *(each.name for each in COLUMNS if each.name not in _ELSEWHERE))),)
"""The fields listed below a memory's text."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """The request that an export answers, as the page states it.

    `extended_until` is the deadline after an extension, of which `extension_reason` is the reason; None without one.
    """

    request_id: str
    controller: str | None = None
    case_reference: str | None = None
    received_at: datetime | None = None
    extended_until: datetime | None = None
    extension_reason: str | None = None

    @classmethod
    def read(cls, request: PrivacyRequest) -> AnsweredRequest:
        """Return what the page states of a logged request."""
        is_extended = request.extended_at is not None
        return cls(
            str(request.request_id),
            request.controller,
            request.case_reference,
            request.received_at,
            request.due_at if is_extended else None,
            request.extension_reason if is_extended else None,
        )


def render_head(
    kind: str,
    subject: str,
    made_at: str,
    contents: PageContents,
    request: AnsweredRequest,
    texts: Texts = ENGLISH,
) -> str:
    """Return the beginning of the page: title, the request that the export answers, and table of contents."""
    title = escape(texts.text("export.title", subject=subject))
    entries = [(f"memories-{place}", section_title(place, contents, texts)) for place in range(len(contents.sections))]
    entries += [(part, texts.text(f"export.{part}")) for part in _ENDS[kind]]
    links = "".join(f'<li><a href="#{anchor}">{escape(name)}</a></li>' for anchor, name in entries)
    lead = f"{texts.text(f'export.lead_{kind}')} {texts.text('export.made_at', made_at=made_at)}"
    case = {
        "answers": request.controller,
        "case_reference": request.case_reference,
        "request_id": request.request_id,
        "received_at": request.received_at and texts.moment(request.received_at),
        "extended_until": request.extended_until and texts.day(request.extended_until),
        "extension_reason": request.extension_reason,
    }
    rows = "".join(
        f"<dt>{escape(texts.text(f'export.{name}'))}</dt><dd>{escape(value)}</dd>"
        for name, value in case.items()
        if value
    )
    none = "" if contents.sections else f"<p>{escape(texts.text('export.no_memories'))}</p>"
    return (
        f'<!doctype html><html lang="{escape(texts.text("language"))}"><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><dl>{rows}</dl><p>{escape(lead)}</p>{none}"
        f"<nav><h2>{escape(texts.text('export.contents'))}</h2><ol>{links}</ol></nav>\n"
    )


def section_title(place: int, contents: PageContents, texts: Texts = ENGLISH) -> str:
    """Return the title of a section: the numbers of its memories, and its dates if they are known."""
    section, first = contents.sections[place], place * PAGE_MEMORIES + 1
    numbers = {"first": first, "last": first + section.memories - 1}
    if section.earliest is None:
        return texts.text("export.memories", **numbers)
    days = {"earliest": texts.day(section.earliest), "latest": texts.day(section.latest)}
    return texts.text("export.memories_dated", **numbers, **days)


def render_number(number: int, contents: PageContents, texts: Texts = ENGLISH) -> str:
    """Return the heading of a memory, and before it the heading of its section if it is the section's first.

    Args:
        number: Number of the memory, from 1.
    """
    place, rest = divmod(number - 1, PAGE_MEMORIES)
    heading = f"<h3>{escape(texts.text('export.memory', number=number))}</h3>"
    if rest:
        return heading
    end = "</section>\n" if place else ""
    title = escape(section_title(place, contents, texts))
    return f'{end}<section id="memories-{place}"><h2>{title}</h2>{heading}'


def render_access_memory(line: Mapping[str, Any], texts: Texts = ENGLISH) -> str:
    """Render a memory of an `access` export."""
    memory, state = line["memory"], line.get("state") or {}
    retention = line.get("retention") or {}
    next_change_at, as_of = retention.get("next_change_at"), retention.get("as_of")
    reason, identities = retention.get("why"), sum((line.get("identities") or {}).values())
    hidden = "quarantined" if line.get("quarantined") else "hidden"
    derived = {
        "tier": texts.text(f"export.field.{hidden}") if line["hidden"] else state.get("tier"),
        "strength": line.get("strength"),
        "importance": line.get("importance"),
        "salience": state.get("salience"),
        "cues": ", ".join((line.get("score") or {}).get("inferred_cues") or ()),
        "reason": texts.text("export.as_of", day=texts.day(as_of), reason=reason) if reason and as_of else reason,
        "next_change": texts.day(next_change_at) if next_change_at and not line["held"] else None,
        "hold": texts.text("format.yes") if line["held"] else None,
        "identities": identities or None,
        "unreadable": line.get("damaged"),
    }
    shown = {
        "id": memory["memory_id"],
        **_when(memory.get("occurred_at") or memory["created_at"], texts),
        **_labels(memory),
        **{texts.text(f"export.field.{name}"): value for name, value in derived.items()},
    }
    return _article(memory["text"], shown)


def render_portable_memory(line: Mapping[str, Any], texts: Texts = ENGLISH) -> str:
    """Render a memory of a `portable` export."""
    return _article(line["text"], _when(line["occurred_at"], texts) | _labels(line))


def _when(moment: str, texts: Texts) -> dict[str, str]:
    return {texts.text("export.field.when"): texts.moment(moment)}


def render_foot(
    files: Mapping[str, int],
    recipients: Sequence[Mapping[str, Any]] | None,
    contents: PageContents,
    texts: Texts = ENGLISH,
) -> str:
    """Return the end of the page: recipients, terms, and other files with line counts.

    Args:
        recipients: None leaves out the sections on recipients and terms.
    """
    hosts = "".join(
        f"<dt>{escape(recipient['host'])}</dt><dd>{escape(', '.join(recipient['purposes']))}</dd>"
        for recipient in recipients or ()
    )
    sent = f"<dl>{hosts}</dl>" if hosts else f"<p>{escape(texts.text('export.recipients_none'))}</p>"
    others = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(_describe_file(name, lines, texts))}</dd>" for name, lines in files.items()
    )
    end = "</section>" if contents.sections else ""
    received = f'<h2 id="recipients">{escape(texts.text("export.recipients"))}</h2>{sent}'
    received += f'<h2 id="terms">{escape(texts.text("export.terms"))}</h2>{_render_pairs("export.glossary", texts)}'
    return (
        f"{end}<section>{'' if recipients is None else received}"
        f'<h2 id="files">{escape(texts.text("export.files"))}</h2><dl>{others}</dl></section></html>\n'
    )


def _describe_file(name: str, lines: int, texts: Texts) -> str:
    """Return the contents of a file and its number of lines; files of other versions have no description."""
    key = f"export.file.{name.removesuffix('.jsonl')}"
    return texts.count("export.file_lines", lines, about=texts.text(key if key in texts else "export.file.other"))


def _render_pairs(key: str, texts: Texts) -> str:
    """Return a list of pairs in the texts, such as terms with their meanings."""
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in texts.pairs(key))
    return f"<dl>{''.join(rows)}</dl>"


def _labels(memory: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: memory.get(name) for name in _LABELS}
    return {name: ", ".join(value) if isinstance(value, list) else value for name, value in values.items()}


def _article(text: str, shown: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(f'{value:.3f}' if isinstance(value, float) else str(value))}</dd>"
        for name, value in shown.items()
        if value not in (None, "")
    )
    return f"<article><p>{escape(text)}</p><dl>{rows}</dl></article>\n"
