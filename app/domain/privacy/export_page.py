"""Render the human-readable page of an export: one self-contained, escaped HTML file without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from app.domain.ingest.memory import COLUMNS

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}"
    "h1{font-size:1.5rem}article{border-top:1px solid #ccc;padding:1rem 0}"
    "p{white-space:pre-wrap;overflow-wrap:anywhere}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem;margin:0;font-size:.85rem;color:#555}"
    "dd{margin:0;overflow-wrap:anywhere}"
)
_LEAD: Final = {
    "access": "Everything that is held on this person, with what was worked out about it.",
    "portable": "What was given about this person, to be taken elsewhere.",
}

_FIRST: Final = ("thread", "speaker", "role", "kind", "external_id")
_ELSEWHERE: Final = frozenset({"text", "subject", "occurred_at", "metadata"})
_LABELS: Final = (*dict.fromkeys((*_FIRST, *(field.name for field in COLUMNS if field.name not in _ELSEWHERE))),)
"""The fields listed below a memory's text."""


def render_head(kind: str, subject: str, made_at: str) -> str:
    """Return the beginning of the page."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Export of {escape(subject)}</title><style>{_STYLE}</style>"
        f"<h1>Export of {escape(subject)}</h1><p>{_LEAD[kind]} Made {escape(made_at)}.</p>\n"
    )


def render_access_memory(line: Mapping[str, Any]) -> str:
    """Render a memory of an `access` export."""
    memory, state = line["memory"], line.get("state") or {}
    damage = line.get("damaged")
    shown = {
        "id": memory["memory_id"],
        "when": memory.get("occurred_at") or memory["created_at"],
        **_labels(memory),
        "kept": "hidden: its erasure was asked for" if line["hidden"] else state.get("tier"),
        "strength": line.get("strength"),
        "importance": line.get("importance"),
        "salience": state.get("salience"),
        "cues, in a model's words": ", ".join((line.get("score") or {}).get("inferred_cues") or ()),
        "why it is kept": (line.get("retention") or {}).get("why"),
        "next change": (line.get("retention") or {}).get("next_change_at"),
        "legal hold": "yes" if line["held"] else None,
        "not readable any more": damage,
    }
    return _article(memory["text"], shown)


def render_portable_memory(line: Mapping[str, Any]) -> str:
    """Render a memory of a `portable` export."""
    return _article(line["text"], {"when": line["occurred_at"], **_labels(line)})


def render_foot(files: Mapping[str, int], recipients: Sequence[Mapping[str, Any]]) -> str:
    """Return the end of the page: the recipients of memories, and the other files in the zip with their line counts."""
    hosts = "".join(
        f"<dt>{escape(recipient['host'])}</dt><dd>{escape(', '.join(recipient['purposes']))}</dd>"
        for recipient in recipients
    )
    sent = f"<h2>Hosts that memories were sent to, and what for</h2><dl>{hosts}</dl>" if hosts else ""
    others = "".join(f"<dt>{escape(name)}</dt><dd>{lines}</dd>" for name, lines in files.items())
    return f"{sent}<h2>Files, and their lines</h2><dl>{others}</dl></html>\n"


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
