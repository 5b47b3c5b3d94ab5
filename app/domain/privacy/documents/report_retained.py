"""Render the section of an erasure report about retained data: holds, records that prove the erasure, and texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.domain.privacy.documents import html
from app.domain.privacy.documents.letters import describe_ground
from app.domain.privacy.documents.report_appendix import REQUEST, SYSTEMS
from app.domain.privacy.documents.report_counts import count_outcomes, count_reviews, has_retained_key, sum_holds
from app.domain.privacy.documents.texts import Texts
from app.domain.privacy.erasure_passes import HELD

_OPERATOR: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def render_retained(report: Mapping[str, Any], texts: Texts) -> str:
    """Render what is retained, why and until when."""
    rows = report["kept"]
    lines = [] if any(row["count"] for row in rows) else [texts.text("report.retained.none")]
    lines += [_describe_kept(row, report, texts) for row in rows if row["what"] == HELD]
    counts = count_outcomes(report)
    if counts.held and sum_holds(report) != counts.held:
        lines.append(texts.count("report.retained.several", counts.held))
    if has_retained_key(report):
        lines.append(texts.text("report.retained.key"))
    lines += [_describe_kept(row, report, texts) for row in rows if row["what"] != HELD]
    content = "".join(map(html.paragraph, lines))
    written = report.get("operator_texts") or ()
    if written:
        is_sought = report["status"] == "held" and "subject" in report["pseudonyms"]
        key = "report.retained.texts" if is_sought else "report.retained.texts_done"
        content += html.paragraph(texts.text(key)) + html.items(_describe_text(each, texts) for each in written)
    others = sum(count_reviews(report)) - sum(1 for each in written if each.get("mention"))
    return content + (html.paragraph(texts.count("report.retained.others", others, systems=SYSTEMS)) if others else "")


def describe_author(by: str | None, texts: Texts) -> str:
    """Return the author of a text: an operator if `by` contains a UUID, otherwise an API key; unknown without `by`."""
    if not by:
        return texts.text("report.author.unknown")
    return texts.text("report.author.operator" if _OPERATOR.search(by) else "report.author.key", by=by)


def _describe_text(each: Mapping[str, Any], texts: Texts) -> str:
    """Return a text's author, and what happened to it or until when it is retained."""
    key, state = "report.retained", each.get("state", "retained")
    outcome = texts.text(f"{key}.until_{each['code']}")
    if state != "retained":
        outcome = texts.text(f"{key}.state_{state}", retained=outcome, systems=SYSTEMS, number=each["mention"])
    values = {"at": texts.day(each["at"]), "author": describe_author(each["by"], texts), "hold": each.get("hold")}
    return texts.text(f"{key}.text_{each['code']}", **values, outcome=outcome)


def _describe_kept(row: Mapping[str, Any], report: Mapping[str, Any], texts: Texts) -> str:
    code = row.get("code")
    if code is None:
        values = {name: row[name] for name in ("what", "ground", "until")}
        return texts.text("kept.other.said", **values, number="–" if row["count"] is None else row["count"])
    if code in _COMPOSED:
        return " ".join(_COMPOSED[code](report, texts))
    values = {
        name: texts.day(value) if name.endswith("_at") else value for name, value in row.get("values", {}).items()
    }
    count = values.pop("memories", row["count"])
    key = f"kept.{code}.said"
    ground = describe_ground(report["kind"], values.pop("ground", None), texts) if code == "held" else None
    said = texts.text(key, **values) if count is None else texts.count(key, count, **values)
    if code != "held":
        return said
    stated = texts.text("kept.held.no_ground") if ground is None else texts.text("kept.held.ground", ground=ground)
    return f"{said} {stated}"


def _describe_tombstones(report: Mapping[str, Any], texts: Texts) -> Iterator[str]:
    key, digests = "kept.tombstones", [f"digest_{what}" for what in report["pseudonyms"]]
    parts = [*(["ids"] if report["memories"] else []), *digests, "cut"]
    yield texts.text(f"{key}.said", records=[texts.text(f"{key}.{part}") for part in parts])
    yield texts.text(f"{key}.until_digest" if digests else f"{key}.until")


def _describe_audit(report: Mapping[str, Any], texts: Texts) -> Iterator[str]:
    """Yield the contents and the retention of the erasure's entries in the audit log.

    Reports of earlier versions don't state whether the erasure named a person; its conditions may have named one.
    """
    key, names_person = "kept.audit", report.get("names_person", report.get("scope") == "subject" or None)
    parts = ["dates", "ids", "memories"]
    if names_person or (names_person is None and report.get("scope") not in ("ids", "tenant")):
        parts.append("digest" if names_person else "digest_if")
    yield texts.text(f"{key}.said", contents=[texts.text(f"{key}.{part}") for part in parts])
    yield texts.text(f"{key}.until_digest" if len(parts) > 3 else f"{key}.until")


def _describe_case(report: Mapping[str, Any], texts: Texts) -> Iterator[str]:
    yield texts.text("kept.case.said")
    if report["status"] == "held":
        yield texts.text("kept.case.held", request=REQUEST)


def _describe_request_log(report: Mapping[str, Any], texts: Texts) -> Iterator[str]:
    """Yield the contents of the request log's entry, and which of them the report loses when the entry is deleted."""
    key = "kept.request_log"
    recorded = {"identity": "identity", "extension": "extension", "partial": "partly_answered_at"}
    only_here = [name for name, field in recorded.items() if report.get(field)]
    parts = ["dates", *(["deadlines"] if report["clocks"].get("due_at") else []), *only_here]
    parts += ["answer"] if report["status"] == "verified" else []
    yield texts.text(f"{key}.said", contents=[texts.text(f"{key}.{part}") for part in parts])
    if only_here:
        yield texts.text(f"{key}.gone", gone=[texts.text(f"{key}.{part}") for part in only_here])


_COMPOSED: Final = {
    "tombstones": _describe_tombstones,
    "audit": _describe_audit,
    "case": _describe_case,
    "request_log": _describe_request_log,
}
"""By code of a retained record: the sentences about it, which depend on the report."""
