"""Render an erasure report as a printable page: a letter in sections, then the technical appendix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app.domain.privacy.case_details import GDPR_GROUNDS
from app.domain.privacy.documents import html
from app.domain.privacy.documents.report_appendix import (
    CHECK,
    COPIES,
    DONE,
    HOSTS,
    OUTSIDE,
    PROOF,
    RETAINED,
    SYSTEMS,
    TERMS,
    render_appendices,
)
from app.domain.privacy.documents.report_counts import (
    count_outcomes,
    count_retained,
    count_reviews,
    count_similar,
    count_similar_hidden,
    count_unlisted,
    found_nothing,
    group_same_case,
    has_removed_records,
    has_retained_key,
    is_all_held,
    list_same_case,
)
from app.domain.privacy.documents.report_retained import describe_author, render_retained
from app.domain.privacy.documents.texts import ENGLISH, Texts

STYLE: Final = html.STYLE
_NO_COPIES: Final = ("recipients", "mentions", "jobs")
"""Entries of `elsewhere` that aren't copies: the section on recipients covers the first two, and jobs copy no data."""


def render_report(report: Mapping[str, Any], texts: Texts = ENGLISH) -> str:
    """Render a report as returned by `GET …/report`."""
    sections = ("request", "done", "check", "retained", "copies", "recipients")
    letter = "".join(
        html.heading(f"{number}. {texts.text(f'report.{name}.title')}") + _SECTIONS[name](report, texts)
        for number, name in enumerate(sections, start=1)
    )
    title = texts.text("report.title")
    body = (
        f"{html.heading(title, 1)}{_head(report, texts)}{_summary(report, texts)}{letter}{_signatures(report, texts)}"
        f"{render_appendices(report, texts)}"
    )
    case = report.get("case_reference") or report["erasure_id"]
    return html.page(texts, f"{title} {case}", body)


def describe_basis(law: str, legal_basis: str | None, texts: Texts) -> str:
    """Return the legal basis of an erasure in words: a point of GDPR Art. 17(1) is quoted with its ground."""
    if legal_basis is None:
        return texts.text(f"basis.{law}")
    return texts.text(f"basis.gdpr_{legal_basis}") if law == "gdpr" and legal_basis in GDPR_GROUNDS else legal_basis


def _head(report: Mapping[str, Any], texts: Texts) -> str:
    rows: dict[str, object] = {
        texts.text("report.controller"): texts.value(report.get("controller")),
        texts.text("report.case_reference"): texts.value(report.get("case_reference")),
        texts.text("report.request_id"): report["erasure_id"],
        texts.text("report.result"): _describe_result(report, texts),
    }
    if report["clocks"].get("verified_at"):
        rows[texts.text("report.verified_at")] = texts.moment(report["clocks"]["verified_at"])
    rows[texts.text("report.made_at")] = texts.moment(report["made_at"])
    return html.pairs(texts, rows, "box")


def _describe_result(report: Mapping[str, Any], texts: Texts) -> str:
    name, waiting = report["status"], count_reviews(report).open
    if is_all_held(report):
        name = "held_memories" if has_removed_records(report) else "held_all"
    status = texts.text(f"status.{name}")
    return texts.count("status.reviews", waiting, status=status) if waiting else status


def _summary(report: Mapping[str, Any], texts: Texts) -> str:
    """Return the summary: numbers of memories by outcome, with references to other sections and to the terms."""
    counts = count_outcomes(report)
    lines = [texts.text("report.summary.nothing")]
    if counts.in_scope:
        values = {"erased": counts.erased, "held": counts.held}
        key = "memories_held" if is_all_held(report) else "memories"
        lines = [texts.count(f"report.summary.{key}", counts.in_scope, **values)]
    if counts.left:
        lines.append(texts.count("report.summary.left", counts.left, check=CHECK))
    if counts.systems:
        key = "systems_person" if report.get("scope") == "subject" else "systems"
        lines.append(texts.text(f"report.summary.{key}", done=DONE))
    if counts.anonymised:
        lines.append(texts.count("report.summary.anonymous", counts.anonymised, retained=RETAINED))
    summed = {
        "similar": count_similar(report),
        "similar_hidden": count_similar_hidden(report),
        "reviews": count_reviews(report).open,
    }
    for name, count in summed.items():
        if count:
            lines.append(texts.count(f"report.summary.{name}", count, done=DONE))
    for state, others in group_same_case(report)._asdict().items():
        if others:
            memories = texts.count("count.memories", sum(each["memories"] for each in others))
            key = f"report.summary.same_case_{state}"
            lines.append(texts.count(key, len(others), outside=OUTSIDE, memories=memories))
    terms = texts.text("report.summary.terms", terms=TERMS)
    return html.paragraph(" ".join(lines), "lead") + html.paragraph(terms)


# --- Sections of the letter ---


def _request(report: Mapping[str, Any], texts: Texts) -> str:
    clocks, law = report["clocks"], report["kind"]
    scope = report.get("scope") or next(iter(report["pseudonyms"]), "other")
    received_at = texts.day(clocks.get("received_at") or clocks["requested_at"])
    key = "made" if received_at == texts.day(clocks["requested_at"]) else "received"
    values = {"requested_at": clocks["requested_at"], "scope": texts.text(f"scope.{scope}")}
    values |= {"received_at": received_at, "law": texts.text(f"law.{law}")}
    if clocks.get("recorded_at"):
        key, values = "recorded", values | {"recorded_at": clocks["recorded_at"]}
    lines = [
        texts.text(f"report.request.{key}", **values),
        texts.text("report.request.basis", basis=describe_basis(law, report.get("legal_basis"), texts)),
    ]
    identity, extension = report.get("identity"), report.get("extension")
    if identity:
        method = texts.text(f"identity.{identity['method']}")
        checked_at = texts.moment(identity["checked_at"])
        lines.append(texts.text("report.request.identity", checked_at=checked_at, method=method))
    elif law != "user" and any(row.get("code") == "request_log" for row in report["kept"]):
        lines.append(texts.text("report.request.identity_none"))
    lines.append(_describe_grace(report, texts))
    if clocks.get("due_at"):
        lines.append(texts.text("report.request.due", due_at=texts.day(clocks["due_at"])))
    if extension:
        days = {name: texts.day(extension[name]) for name in ("first_due_at", "notified_at")}
        key = "extended" if extension["notified_at"] else "extended_unnoticed"
        lines.append(texts.text(f"report.request.{key}", **days))
        lines.append(texts.text("report.request.extension_reason", reason=extension["reason"]))
    if report.get("partly_answered_at"):
        sent_at = texts.day(report["partly_answered_at"])
        lines.append(texts.text("report.request.partly_answered", sent_at=sent_at))
    if report["status"] == "held":
        lines.append(texts.text("report.request.name_stored"))
        if report["pseudonyms"]:
            lines.append(texts.text("report.request.name_stored_holds"))
    elif report["pseudonyms"]:
        key = "name_removed_both" if report.get("audit_digest") else "name_removed"
        lines.append(texts.text(f"report.request.{key}", proof=PROOF))
    return "".join(map(html.paragraph, lines))


def _describe_grace(report: Mapping[str, Any], texts: Texts) -> str:
    clocks, ended = report["clocks"], report.get("grace_ended")
    if ended:
        return texts.text(
            "report.request.grace_ended", ended_at=texts.moment(ended["at"]), by=describe_author(ended["by"], texts)
        )
    if texts.moment(clocks["grace_until"]) == texts.moment(clocks["requested_at"]):
        return texts.text("report.request.no_grace")
    return texts.text("report.request.grace", grace_until=texts.moment(clocks["grace_until"]))


def _done(report: Mapping[str, Any], texts: Texts) -> str:
    clocks, memories = report["clocks"], report["memories"]
    parts = []
    if report["hidden"]:
        parts.append(html.paragraph(texts.count("report.done.hidden", report["hidden"])))
        total = count_outcomes(report).in_scope
        if total != report["hidden"]:
            change = "rose" if total > report["hidden"] else "fell"
            values = {"count": abs(total - report["hidden"]), "total": total}
            parts.append(html.paragraph(texts.text(f"report.done.{change}", **values)))
    if memories:
        times = {name: texts.moment(clocks[name]) for name in ("started_at", "finished_at")}
        key = "erased" if times["started_at"] != times["finished_at"] else "erased_at_once"
        parts.append(html.paragraph(texts.count(f"report.done.{key}", memories, **times)))
    elif is_all_held(report):
        held = count_outcomes(report).held
        parts.append(html.paragraph(texts.count("report.done.nothing_yet", held, retained=RETAINED)))
    elif not report["hidden"]:
        parts.append(html.paragraph(texts.text("report.done.nothing")))
    passes = report.get("passes") or []
    if len(passes) > 1:
        parts.append(html.paragraph(texts.text("report.done.passes", count=len(passes))))
        parts.append(html.items(_describe_pass(number, each, texts) for number, each in enumerate(passes, start=1)))
    redacted = report.get("texts_redacted") or 0
    also = list(_describe_stores(report["stores"], redacted, texts))
    if redacted:
        also.append(texts.count("report.done.texts", redacted))
    if also:
        parts += [html.paragraph(texts.text("report.done.also")), html.items(also)]
    parts.append(_describe_reviews(report, texts))
    parts.append(html.paragraph(texts.text("report.done.rest", systems=SYSTEMS)))
    if similar := count_similar(report):
        parts.append(html.paragraph(texts.count("report.done.similar", similar)))
    parts.append(_describe_similar_hidden(report, texts))
    return "".join(parts)


def _describe_similar_hidden(report: Mapping[str, Any], texts: Texts) -> str:
    """Return a list of the erasures and quarantines that hide memories stored under another spelling of the name.

    It is empty if there are none.
    """
    hidden = count_similar_hidden(report)
    if not hidden:
        return ""
    listed = report["similar_names"]["hidden_by"]
    lines = [
        texts.text(
            f"report.done.similar_{each['status']}",
            id=each["id"],
            memories=texts.count("count.memories", each["memories"]),
            **{"erase_after": texts.moment(each["erase_after"])} if each["erase_after"] else {},
        )
        for each in listed
    ]
    if further := hidden - sum(each["memories"] for each in listed):
        lines.append(texts.count("report.done.similar_more", further))
    return html.paragraph(texts.count("report.done.similar_hidden", hidden)) + html.items(lines)


def _describe_reviews(report: Mapping[str, Any], texts: Texts) -> str:
    """Return a paragraph about the texts with a part of the person's name; empty if there are none."""
    reviews = count_reviews(report)
    decided = {name: number for name, number in reviews._asdict().items() if number}
    unlisted, found = count_unlisted(report), texts.count("report.done.mentions", sum(reviews), systems=SYSTEMS)
    if not decided:
        lines = []
    elif sum(reviews) == 1:
        lines = [found, texts.text(f"report.done.mentions_only_{next(iter(decided))}")]
    else:
        decisions = [texts.count(f"report.done.mentions_{name}", number) for name, number in decided.items()]
        lines = [found, texts.text("report.done.mentions_decided", decisions=decisions)]
    if unlisted:
        lines.append(texts.count("report.done.mentions_more", unlisted, systems=SYSTEMS))
    return html.paragraph(" ".join(lines)) if lines else ""


def _describe_pass(number: int, each: Mapping[str, Any], texts: Texts) -> str:
    values = {"number": number, "finished_at": texts.moment(each["finished_at"])}
    values["memories"] = texts.count("count.memories", each["memories"])
    if each["held"]:
        held = texts.count("count.memories", each["held"])
        return texts.text("report.done.pass_held", **values, held=held)
    return texts.text("report.done.pass", **values)


def _describe_stores(stores: Sequence[Mapping[str, Any]], redacted: int, texts: Texts) -> Iterator[str]:
    """Yield a line for each system with data in scope; memories, tables and redacted texts have their own lines."""
    for row in stores:
        code = row.get("code")
        removed = max(row["removed"] - redacted, 0) if code == "records" else row["removed"]
        kinds = row.get("kinds") or {}
        if removed and sum(kinds.values()) == removed:
            yield from (texts.count(f"stores.records.done_{kind}", count) for kind, count in kinds.items())
        elif removed and code not in (None, "memories", "table"):
            yield texts.count(f"stores.{code}.done", removed)
        if code == "keys" and count_retained(row):
            yield texts.count("stores.keys.kept", count_retained(row), retained=RETAINED)


def _check(report: Mapping[str, Any], texts: Texts) -> str:
    counts = count_outcomes(report)
    left, held = counts.left, counts.held
    values = {"systems": SYSTEMS, "made_at": texts.moment(report["made_at"]), "retained": RETAINED}
    if left:
        line = texts.count("report.check.left", left, **values)
    elif held:
        line = texts.text("report.check.held", **values, held=texts.count("count.memories", held))
    else:
        line = texts.text("report.check.clean", **values)
    if has_retained_key(report):
        line = f"{line} {texts.text('report.check.key', retained=RETAINED)}"
    if waiting := count_reviews(report).open:
        line = f"{line} {texts.count('report.check.reviews', waiting, done=DONE)}"
    exceptions = texts.text("report.check.exceptions", retained=RETAINED, copies=COPIES)
    return html.paragraph(line, "bad" if left else "") + html.paragraph(exceptions)


def _copies(report: Mapping[str, Any], texts: Texts) -> str:
    backups, clocks = report["backups"], report["clocks"]
    expires = texts.day(backups["newest_affected_expires"])
    days = texts.count("count.days", backups["kept_days"])
    sentences = [texts.text("report.copies.backups", days=days)]
    if not is_all_held(report) and not found_nothing(report):
        sentences.append(texts.text("report.copies.backups_erased", expires=expires))
    if report["status"] == "held":
        sentences.append(texts.text("report.copies.backups_held", days=days))
    lines = [" ".join(sentences), texts.text("report.copies.replay")]
    if clocks.get("rewritten_at"):
        lines.append(texts.text("report.copies.segments_done", rewritten_at=texts.day(clocks["rewritten_at"])))
    elif clocks.get("rewrite_by"):
        lines.append(texts.text("report.copies.segments_pending", rewrite_by=texts.moment(clocks["rewrite_by"])))
    lines.append(texts.text("report.copies.technical"))
    rows = [row for row in report["elsewhere"] if row.get("code") not in _NO_COPIES]
    return "".join(map(html.paragraph, lines)) + html.items(_describe_copy(row, texts) for row in rows)


def _describe_copy(row: Mapping[str, Any], texts: Texts) -> str:
    code = row.get("code")
    if code is None:
        return f"{row['where']}: {row['goes']}."
    values = {"at": texts.moment(row["at"])} if "at" in row else {}
    return f"{texts.text(f'elsewhere.{code}.where')}: {texts.text(f'elsewhere.{code}.goes', **values)}."


def _recipients(report: Mapping[str, Any], texts: Texts) -> str:
    count = len(report["recipients"])
    line = texts.text("report.recipients.none")
    if count:
        hosts = texts.count("count.hosts", count)
        line = texts.text("report.recipients.some", hosts=hosts, recipients=HOSTS)
        line = f"{line} {texts.text('report.recipients.notify_' + report['kind'])}"
    return html.paragraph(line) + html.paragraph(_describe_mentioned(report, texts)) + _list_same_case(report, texts)


def _list_same_case(report: Mapping[str, Any], texts: Texts) -> str:
    """Return a list of the other erasures with the same case reference; empty if there are none."""
    others = [
        texts.text(
            f"report.recipients.same_case_{each['status']}",
            erasure_id=each["erasure_id"],
            memories=texts.count("count.memories", each["memories"]),
            **{name: texts.moment(each[name]) for name in ("erase_after", "ended_at") if each[name]},
        )
        for each in list_same_case(report)
    ]
    if not others:
        return ""
    return html.paragraph(
        texts.text("report.recipients.same_case", at=texts.moment(report["same_case"]["at"]))
    ) + html.items(others)


def _describe_mentioned(report: Mapping[str, Any], texts: Texts) -> str:
    """Return sentences on memories outside the scope that mention the person; old reports lack their numbers."""
    mentioned = report.get("mentioned")
    if mentioned is None:
        return texts.text("report.recipients.mentions")
    memories, subjects = mentioned["memories"], texts.count("count.subjects", mentioned["subjects"])
    lines = [texts.count("report.recipients.mentioned", memories, subjects=subjects)]
    if not memories:
        lines = [texts.text("report.recipients.unmentioned")]
    if not mentioned["complete"]:
        lines.append(texts.text("report.recipients.mentioned_partly"))
    if similar := report.get("similar_names"):
        if not similar["memories"] and not count_similar_hidden(report):
            lines.append(texts.text("report.recipients.no_similar"))
        if not similar["complete"]:
            lines.append(texts.text("report.recipients.similar_partly"))
    return " ".join(lines)


_SECTIONS: Final = {
    "request": _request,
    "done": _done,
    "check": _check,
    "retained": render_retained,
    "copies": _copies,
    "recipients": _recipients,
}


def _signatures(report: Mapping[str, Any], texts: Texts) -> str:
    audit = report.get("audit")
    version = report["versions"].get("code")
    if audit:
        line = texts.text("report.signature.statement", version=version, entry=audit["entry"], proof=PROOF)
    else:
        key = "incomplete_all" if is_all_held(report) else "incomplete"
        line = texts.text(f"report.signature.{key}", version=version)
    fields = [texts.text(f"report.signature.{name}") for name in ("name", "place", "signature")]
    blocks = "".join(
        html.paragraph(texts.text(f"report.signature.{role}")) + html.pairs(texts, dict.fromkeys(fields, ""))
        for role in ("prepared", "approved")
    )
    title = html.heading(texts.text("report.signature.title"))
    return f'<section class="sign">{title}{html.paragraph(line)}{blocks}</section>'
