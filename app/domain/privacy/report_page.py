"""Render an erasure report as a printable page: one escaped HTML file without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from html import escape
from typing import Any, Final

_CLOCKS: Final = {
    "requested_at": "Requested",
    "confirm_by": "Confirmation deadline (10 business days, CCPA)",
    "due_at": "Legal deadline",
    "grace_until": "Could be cancelled until",
    "started_at": "Started",
    "finished_at": "Finished",
    "verified_at": "Verified",
    "rewrite_by": "Deadline for rewriting cold storage segments",
    "rewritten_at": "Cold storage segments rewritten",
}
STYLE: Final = """
body { font: 14px/1.45 system-ui, sans-serif; color: #1b1f24; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: .2rem }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; break-after: avoid }
table { border-collapse: collapse; width: 100%; font-size: .9em }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid #d0d7de }
td { overflow-wrap: anywhere }
td.number { text-align: right; font-variant-numeric: tabular-nums }
tr { break-inside: avoid }
thead { display: table-header-group }
.bad { color: #b42318; font-weight: 600 }
.small { color: #57606a; font-size: .85em; overflow-wrap: anywhere }
@page { margin: 18mm }
@media print { body { margin: 0; max-width: none; font-size: 10.5pt } }
"""
"""The page's complete style sheet; a Content-Security-Policy can allow it by its digest."""


def render_report(report: Mapping[str, Any]) -> str:
    """Render a report as returned by `GET …/report`."""
    left = sum(report["left"].values())
    retained, backups = report["kept"], report["backups"]
    outcome = "No residue was found" if not left else f"{left} rows remain"
    sections = [
        ("Dates (UTC)", _pairs({text: report["clocks"].get(name) for name, text in _CLOCKS.items()})),
        ("Stores", _stores(report["stores"])),
        *_passes(report),
        ("Retained", _table(["What", "How many", "Ground", "Until"], retained, ["what", "count", "ground", "until"])),
        (
            "Recipients: hosts that this tenant's memories were sent to",
            _table(
                ["Host", "For", "Calls", "First", "Last"],
                report["recipients"],
                ["host", "purposes", "calls", "first", "last"],
            ),
        ),
        (
            "Backups",
            _pairs(
                {
                    "Retained for": f"{backups['kept_days']} days",
                    "Newest affected backup expires": backups["newest_affected_expires"],
                    "Erasures are replayed on a restored backup before it is used": backups["replayed_on_restore"],
                }
            ),
        ),
        ("Outside the reach of queries", _table(["Where", "How it is deleted"], report["elsewhere"], _ELSEWHERE)),
        (
            "Proof",
            _pairs(
                {
                    "Audit entry": (report.get("audit") or {}).get("entry"),
                    "Hash of the audit entry": (report.get("audit") or {}).get("hash"),
                    "Last stream position covered": report["cut"],
                    **{f"Keyed digest of the {what}": digest for what, digest in report["pseudonyms"].items()},
                    **{f"Version of the {what}": which for what, which in report["versions"].items()},
                }
            ),
        ),
    ]
    body = "".join(f"<h2>{escape(title)}</h2>{content}" for title, content in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Erasure {_text(report['erasure_id'])}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>Report of an erasure</h1><p>{_text(report['erasure_id'])} · {_text(report['kind'])} · "
        f'{_text(report["status"])} · {_text(report["memories"])} memories</p><p class="{"bad" if left else "good"}">'
        f"{escape(outcome)}.</p>{body}"
        f'<p class="small">Tenant {_text(report["tenant_id"])}, made {_text(report["made_at"])}.</p></main>'
        "</body></html>\n"
    )


_ELSEWHERE: Final = ["where", "goes"]


def _passes(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the sections on passes and on legal holds between passes; none for reports of earlier versions."""
    if "passes" not in report:
        return []
    heads = ["Pass", "Started", "Finished", "Memories erased", "Memories held", "Legal holds"]
    columns = ["number", "started_at", "finished_at", "memories", "held", "holds"]
    rows = [
        {**each, "number": number, "holds": each["holds"] or None} | _moments(each, "started_at", "finished_at")
        for number, each in enumerate(report["passes"], start=1)
    ]
    sections = [("Passes", _table(heads, rows, columns))]
    if report["holds"]:
        heads, columns = ["Hold", "Placed", "Released", "Memories"], ["hold_id", "placed_at", "released_at", "memories"]
        rows = [{**each} | _moments(each, "placed_at", "released_at") for each in report["holds"]]
        sections.append(("Legal holds that delayed it", _table(heads, rows, columns)))
    return sections


def _moments(row: Mapping[str, Any], *names: str) -> dict[str, datetime | None]:
    return {name: datetime.fromisoformat(row[name]) if row[name] else None for name in names}


def _stores(rows: Iterable[Mapping[str, Any]]) -> str:
    shown = [
        dict(row)
        | ({"method": f"{row['method']}, by {_plain(row['rewritten_by'])}"} if row.get("rewritten_by") else {})
        for row in rows
    ]
    columns = ["store", "method", "found", "removed", "left"]
    return _table(["Store", "How", "Found", "Removed", "Left"], shown, columns)


def _table(heads: Sequence[str], rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{escape(title)}</th>" for title in heads)
    body = "".join("<tr>" + "".join(_cell(row.get(column)) for column in columns) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _pairs(rows: Mapping[str, Any]) -> str:
    body = "".join(f"<tr><th>{escape(name)}</th>{_cell(value)}</tr>" for name, value in rows.items())
    return f"<table><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    return f'<td class="number">{value}</td>' if type(value) is int else f"<td>{_text(value)}</td>"


def _text(value: object) -> str:
    return escape(_plain(value))


def _plain(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M} UTC"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)
