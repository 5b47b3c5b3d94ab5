"""Render the technical appendices of an erasure report: systems, passes, dates, recipients, proof and terms."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.domain.privacy.documents import html
from app.domain.privacy.documents.report_counts import (
    count_deleted_before,
    count_retained,
    count_unplanned,
    is_all_held,
)
from app.domain.privacy.documents.texts import Texts, read_moment

REQUEST, DONE, CHECK, RETAINED, COPIES, OUTSIDE = 1, 2, 3, 4, 5, 6
"""Numbers of the sections that sections and appendices refer to."""
SYSTEMS, PASSES, DATES, HOSTS, PROOF, TERMS = "ABCDEF"
"""Letters of the appendices."""


def render_appendices(report: Mapping[str, Any], texts: Texts) -> str:
    """Render the technical appendices of a report."""
    contents = {
        "systems": _systems(report, texts),
        "passes": _passes(report, texts),
        "dates": _dates(report, texts),
        "hosts": html.table(
            texts,
            [texts.text(f"report.hosts.{name}") for name in ("host", "purposes", "calls", "first", "last")],
            [_describe_host(row, texts) for row in report["recipients"]],
        ),
        "proof": _proof(report, texts),
        "glossary": html.pairs(texts, dict(texts.pairs("report.glossary.terms"))),
    }
    shown = []
    for letter, (name, content) in zip((SYSTEMS, PASSES, DATES, HOSTS, PROOF, TERMS), contents.items(), strict=True):
        title = texts.text("report.appendix", letter=letter, title=texts.text(f"report.{name}.title"))
        shown.append(html.heading(title, kind="first" if letter == SYSTEMS else "") + content)
    return f'<section class="appendix">{"".join(shown)}</section>'


def _describe_host(row: Mapping[str, Any], texts: Texts) -> list[object]:
    purposes = [
        texts.text(f"purposes.{name}") if f"purposes.{name}" in texts else name.replace("_", " ")
        for name in (each.replace(" ", "_") for each in row["purposes"])
    ]
    return [row["host"], purposes, row["calls"], row.get("first"), row.get("last")]


def _systems(report: Mapping[str, Any], texts: Texts) -> str:
    """Return the table of systems with data in scope, its notes, and a list of the systems without such data."""
    stores, counted = report["stores"], ("found", "removed", "left")
    found = [row for row in stores if row.get("code") is None or any(map(row.get, counted))]
    has_retained = any(map(count_retained, found))
    names = ("store", "method", "found", "removed", *(["retained"] if has_retained else []), "left")
    rows = [[*_name_store(row, report, texts), *(_figure(row, name) for name in names[2:])] for row in found]
    notes = [texts.text("report.systems.note")]
    if len(report.get("passes") or ()) > 1:
        notes.append(texts.text("report.systems.passes", passes=PASSES))
    unplanned = count_unplanned(report)
    if unplanned:
        notes.append(texts.count("report.systems.held", unplanned))
    if deleted := count_deleted_before(report):
        notes.append(texts.count("report.systems.deleted_before", deleted))
    if has_retained:
        notes.append(texts.text("report.systems.kept", retained=RETAINED))
    table = html.table(texts, [texts.text(f"report.systems.{name}") for name in names], rows)
    empty = [row for row in stores if row not in found]
    more = [texts.text("report.systems.empty_held" if unplanned else "report.systems.empty")] if empty else []
    systems = [_name_system(row["code"], report, texts) for row in empty if row["code"] != "table"]
    tables = [row["table"] for row in empty if row["code"] == "table"]
    listed = [*systems, *([texts.text("report.systems.tables", tables=tables)] if tables else [])]
    indexes = texts.text("report.systems.indexes", done=DONE)
    return "".join(
        [
            *map(html.paragraph, notes),
            *(table, *map(html.paragraph, more), html.items(listed), html.paragraph(indexes)),
            _mentions(report, texts),
        ]
    )


def _mentions(report: Mapping[str, Any], texts: Texts) -> str:
    """Return the records of texts that may mean the person, with the decisions about them."""
    found = report.get("mentions") or {"texts": (), "more": 0}
    lines = []
    for number, each in enumerate(found["texts"], start=1):
        key, at = f"report.systems.{each.get('decision') or 'undecided'}", texts.day(each.get("at"))
        values = {"number": number, "record": texts.text(f"records.{each['table']}_{each['column']}")}
        values |= {"record_id": each["key"], "decision": texts.text(key, at=at)}
        name = "mention_ground" if each["table"] == "anonymised" else "mention"
        lines.append(texts.text(f"report.systems.{name}", **values))
    content = html.paragraph(texts.text("report.systems.mentions")) + html.items(lines) if lines else ""
    if found["more"]:
        content += html.paragraph(texts.count("report.systems.mentions_more", found["more"]))
    return content


def _figure(row: Mapping[str, Any], name: str) -> int:
    return count_retained(row) if name == "retained" else int(row[name])


def _name_system(code: str, report: Mapping[str, Any], texts: Texts) -> str:
    """Return the name of a system.

    The name of the store `records` depends on the scope, because operators' texts are compared with names only if a
    person is erased.
    """
    is_texts = code == "records" and report.get("scope") == "subject"
    return texts.text("stores.records.name_person" if is_texts else f"stores.{code}.name")


def _name_store(row: Mapping[str, Any], report: Mapping[str, Any], texts: Texts) -> tuple[str, str]:
    """Return the name and the method of a system; reports of earlier versions contain them in English."""
    code, by, rewritten_at = row.get("code"), row.get("rewritten_by"), report["clocks"].get("rewritten_at")
    if code is None:
        return row["store"], row["method"]
    if code == "table":
        method = row["method_code"]
        return texts.text("stores.table.name", table=row["table"]), texts.text(f"methods.{method}")
    name = _name_system(code, report, texts)
    if by and rewritten_at:
        return name, texts.text(f"stores.{code}.method_done", rewritten_at=texts.moment(rewritten_at))
    if by:
        return name, texts.text(f"stores.{code}.method_by", rewrite_by=texts.moment(by))
    return name, texts.text(f"stores.{code}.method")


def _passes(report: Mapping[str, Any], texts: Texts) -> str:
    """Return the tables of the passes and of the legal holds between them; reports of earlier versions have none."""
    names = ("number", "started_at", "finished_at", "memories", "held", "holds")
    rows = [
        [
            number,
            *(_moment(each[name]) for name in ("started_at", "finished_at")),
            *(each[name] for name in ("memories", "held", "holds")),
        ]
        for number, each in enumerate(report.get("passes", ()), start=1)
    ]
    content = html.table(texts, [texts.text(f"report.passes.{name}") for name in names], rows)
    if report.get("holds"):
        heads = [texts.text(f"report.passes.{name}") for name in ("hold", "placed_at", "released_at", "delayed")]
        delays = [
            [each["hold_id"], _moment(each["placed_at"]), _moment(each["released_at"]), each["memories"]]
            for each in report["holds"]
        ]
        content += html.table(texts, heads, delays)
        if len(delays) > 1:
            content += html.paragraph(texts.text("report.passes.several"))
    return content


def _dates(report: Mapping[str, Any], texts: Texts) -> str:
    clocks = dict(report["clocks"])
    if report["status"] == "held":
        clocks["stopped_at" if is_all_held(report) else "pass_finished_at"] = clocks.pop("finished_at")
    if clocks["grace_until"] == clocks["requested_at"]:
        del clocks["grace_until"]
    names = (name for name in texts.keys("report.dates") if name != "title")
    shown = {texts.text(f"report.dates.{name}"): clocks[name] for name in names if clocks.get(name)}
    return html.pairs(texts, shown)


def _proof(report: Mapping[str, Any], texts: Texts) -> str:
    audit = report.get("audit") or {}
    shown: dict[str, object] = {name: report[name] for name in ("erasure_id", "tenant_id")}
    shown |= {"recorded_by": report.get("recorded_by"), "requested_by": report["requested_by"]}
    shown["grace_ended_by"] = (report.get("grace_ended") or {}).get("by")
    shown |= {"audit_entry": audit.get("entry"), "audit_hash": audit.get("hash"), "cut": report["cut"]}
    shown["digest_audit"] = audit_digest = report.get("audit_digest")
    shown |= {f"digest_{what}": digest for what, digest in report["pseudonyms"].items()}
    shown |= {f"version_{what}": version for what, version in report["versions"].items()}
    content = html.pairs(texts, {texts.text(f"report.proof.{name}"): value for name, value in shown.items() if value})
    notes = ["digests_differ"] if audit_digest and "subject" in report["pseudonyms"] else []
    notes += ["digest_command"] if audit_digest else []
    return (
        content + html.paragraph(" ".join(texts.text(f"report.proof.{name}") for name in notes)) if notes else content
    )


def _moment(moment: str | None) -> datetime | None:
    return None if moment is None else read_moment(moment)
