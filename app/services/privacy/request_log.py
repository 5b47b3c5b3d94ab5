"""Log data subjects' privacy requests: record, confirm, answer and summarise them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from app.domain.formatting import count_of
from app.domain.privacy.audit_chain import SYSTEM, Action
from app.domain.privacy.documents.letters import (
    ERASING,
    NOT_HELD,
    WAITS,
    ErasureFacts,
    HeldMemories,
    LetterKind,
    OpenErasure,
    PartialErasure,
    describe_ground,
    render_letter_page,
    render_letter_text,
)
from app.domain.privacy.documents.report_counts import count_reviews, count_similar, count_similar_hidden, found_nothing
from app.domain.privacy.legal_deadlines import extended_deadline, legal_deadlines
from app.domain.privacy.requests import (
    Answer,
    Extension,
    IdentityCheck,
    NewRequest,
    Notice,
    PrivacyRequest,
    RequestStatistics,
)
from app.errors import Conflict, FieldError, Invalid, require_found
from app.services.privacy import deadlines, document_texts, retained_texts
from app.services.privacy.recorded_requests import past_moment
from app.services.security import audit
from app.store.core import database
from app.store.erasure import holds_in_scope, requests, same_case
from app.store.privacy import request_log

CATEGORIES_MAX: Final = 500
_OTHERS_MAX: Final = 5
"""Maximum number of other erasures that a warning names."""
_OPEN_STATES: Final = {"grace": "grace period", "running": "running", "held": "delayed by a legal hold"}
_TOO_EARLY: Final = "is before the receipt of the request ({received_at:%Y-%m-%d %H:%M} UTC): give a later time"
_DENY_ERASURE: Final = (
    "its erasure answers this request: to deny it, cancel the erasure during its grace period, then record the request "
    "again and deny it"
)


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """Figures on the requests of a period.

    Attributes:
        categories: Number of currently stored memories in each of the most frequent categories.
        categories_left_out: Number of further categories.
    """

    after: datetime
    before: datetime
    tallies: list[RequestStatistics]
    categories: dict[str, int]
    categories_left_out: int


def create(tenant_id: UUID, given: NewRequest, actor: str = SYSTEM) -> PrivacyRequest:
    """Record a privacy request, which an erasure or export can carry out.

    Erasures and exports without such a request record one themselves.

    Args:
        actor: Id of the caller's key.

    Raises:
        Invalid: The time of receipt is in the future.
    """
    with database.tenant(tenant_id) as tx:
        received_at = past_moment(tx, given.received_at, "received_at")
        times = legal_deadlines(given.law, received_at, zone=deadlines.read_zone(tx, tenant_id))
        fields = (given.nature, given.law, given.manner, received_at)
        new = PrivacyRequest(
            uuid4(),
            *fields,
            times.confirm_by,
            times.due_at,
            controller=given.controller,
            case_reference=given.case_reference,
        )
        request_log.put(tx, tenant_id, new)
        details = {"request": str(new.request_id), "nature": new.nature, "law": new.law}
        details["received_at"] = received_at.astimezone(UTC).isoformat(timespec="seconds")
        audit.append(tx, tenant_id, "request_recorded", actor, items=1, details=details)
    return new


list_requests = database.in_tenant(request_log.list_requests)
"""Return a page of requests, optionally only open ones, latest first, after the given time of receipt and id."""


find = database.in_tenant(request_log.get)
"""Return a request by its id, or None if it doesn't exist."""


def get(tenant_id: UUID, request_id: UUID) -> PrivacyRequest:
    """Return a request.

    Raises:
        NotFound: This tenant has no such request.
    """
    return require_found(find(tenant_id, request_id), "request")


def confirm_receipt(tenant_id: UUID, request_id: UUID, actor: str = SYSTEM) -> PrivacyRequest:
    """Record that the requester has been sent a confirmation of receipt; only the first confirmation counts.

    Args:
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request is already answered.
    """
    with database.tenant(tenant_id) as tx:
        request = _lock_open(tx, tenant_id, request_id)
        if request.confirmed_at is not None:
            return request
        request_log.store_confirmation(tx, tenant_id, request_id)
        return _audit_letter(tx, tenant_id, request, "receipt_confirmed", actor)


def check_identity(tenant_id: UUID, request_id: UUID, check: IdentityCheck, actor: str) -> PrivacyRequest:
    """Record a check of the requester's identity; a later check replaces it.

    Args:
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request is already answered.
        Invalid: The time of the check is in the future, before the receipt of the request, or can't be stored.
    """
    with database.tenant(tenant_id) as tx:
        request = _lock_open(tx, tenant_id, request_id)
        checked_at = past_moment(tx, check.checked_at, "checked_at")
        if checked_at < request.received_at:
            raise Invalid(errors=[FieldError("checked_at", _TOO_EARLY.format(received_at=request.received_at))])
        fields = {"method": check.method, "checked_at": checked_at, "checked_by": actor, "note": check.note}
        request_log.store_identity_check(tx, tenant_id, request_id, **fields)
        checked_request = _get_or_404(tx, tenant_id, request_id)
        details = {"request": str(request_id), "method": check.method}
        audit.append(tx, tenant_id, "identity_checked", actor, items=1, details=details)
    return checked_request


def extend(tenant_id: UUID, request_id: UUID, extension: Extension, actor: str) -> PrivacyRequest:
    """Extend the legal deadline of a request, and of its erasure. With `extension.dry_run`, store nothing.

    The notice to the requester is recorded with the extension if it was sent already, otherwise by `record_notice`.

    Args:
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request is answered, extended already, or has no legal deadline.
        Invalid: The reason names the subject; the notice was sent in the future, before the receipt or after the first
            deadline; no notice was sent and the first deadline has passed; or the law doesn't allow this extension.
    """
    with database.tenant(tenant_id) as tx:
        # The erasure's row is locked first, as in its verification, which also answers the request.
        requests.get(tx, tenant_id, request_id, locked=True)
        request = _lock_open(tx, tenant_id, request_id)
        if request.extended_at is not None:
            raise Conflict("this request is already extended, and the law allows one extension")
        retained_texts.check_about_within(tx, tenant_id, request_id, reason=extension.reason)
        zone = deadlines.read_zone(tx, tenant_id)
        due_at = extended_deadline(request.law, request.received_at, extension.months, zone)
        if due_at is None or request.due_at is None:
            raise Conflict("this request has no legal deadline to extend")
        sent_at = None
        if extension.notified_at is not None:
            sent_at = _sending_moment(tx, request, extension.notified_at, "notified_at")
        if (sent_at or database.now(tx)) > request.due_at:
            fault = "is after the first deadline" if sent_at else "is missing, and the first deadline has passed"
            raise Invalid(errors=[FieldError("notified_at", f"{fault}: too late for an extension")])
        if extension.dry_run:
            return replace(request, due_at=due_at, first_due_at=request.due_at, extension_reason=extension.reason)
        request_log.store_extension(tx, tenant_id, request_id, due_at=due_at, reason=extension.reason, actor=actor)
        if sent_at is not None:
            request_log.store_notice(tx, tenant_id, request_id, sent_at, actor)
        extended_request = _get_or_404(tx, tenant_id, request_id)
        details = {"request": str(request_id), "law": request.law}
        audit.append(tx, tenant_id, "request_extended", actor, items=1, details=details)
    return extended_request


def record_notice(tenant_id: UUID, request_id: UUID, notice: Notice, actor: str) -> PrivacyRequest:
    """Record that the notice of an extension was sent to the requester.

    A notice after the first deadline is recorded too: it is a fact, although the law doesn't allow it.

    Args:
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request isn't extended, or its notice is already recorded.
        Invalid: The notice was sent in the future or before the receipt of the request.
    """
    with database.tenant(tenant_id) as tx:
        requests.get(tx, tenant_id, request_id, locked=True)  # locked first, as in the erasure's verification
        request = _get_or_404(tx, tenant_id, request_id, locked=True)
        if request.extended_at is None:
            raise Conflict("this request has no extension: record the extension first")
        if request.notice_sent_at is not None:
            raise Conflict(f"the notice is already recorded: sent on {request.notice_sent_at:%Y-%m-%d}")
        sent_at = _sending_moment(tx, request, notice.sent_at, "sent_at")
        request_log.store_notice(tx, tenant_id, request_id, sent_at, actor)
        return _audit_letter(tx, tenant_id, request, "extension_notified", actor)


def record_partial_answer(tenant_id: UUID, request_id: UUID, notice: Notice, actor: str) -> PrivacyRequest:
    """Record that the requester was sent the letter `partial`, which meets the deadline of a held erasure.

    The request remains open until the legal holds are released and the rest of the data is erased.

    Args:
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request has no erasure that a legal hold delays, or its letter is already recorded.
        Invalid: The letter was sent in the future or before the receipt of the request.
    """
    with database.tenant(tenant_id) as tx:
        erasure = requests.get(tx, tenant_id, request_id, locked=True)
        request = _get_or_404(tx, tenant_id, request_id, locked=True)
        if request.partial_sent_at is not None:
            raise Conflict(f"the partial answer is already recorded: sent on {request.partial_sent_at:%Y-%m-%d}")
        if erasure is None or erasure.status != "held":
            raise Conflict(NOT_HELD)
        sent_at = _sending_moment(tx, request, notice.sent_at, "sent_at")
        request_log.store_partial_answer(tx, tenant_id, request_id, sent_at, actor)
        return _audit_letter(tx, tenant_id, request, "request_partly_answered", actor)


def _audit_letter(
    tx: database.Transaction, tenant_id: UUID, request: PrivacyRequest, action: Action, actor: str
) -> PrivacyRequest:
    """Record in the audit log that a letter was sent, and return the request as it is now."""
    details = {"request": str(request.request_id), "law": request.law}
    audit.append(tx, tenant_id, action, actor, items=1, details=details)
    return _get_or_404(tx, tenant_id, request.request_id)


def _sending_moment(tx: database.Transaction, request: PrivacyRequest, moment: datetime | None, field: str) -> datetime:
    """Return the time at which a letter was sent, by default now.

    Raises:
        Invalid: The time is in the future or before the receipt of the request.
    """
    sent_at = past_moment(tx, moment, field)
    if sent_at < request.received_at:
        raise Invalid(errors=[FieldError(field, "is before the receipt of the request")])
    return sent_at


@dataclass(frozen=True, slots=True)
class Letter:
    """An answer to a request.

    Attributes:
        text: The letter as plain text or as a printable page.
        open_work: What remains to be done before the letter is sent; empty if nothing remains.
    """

    text: str
    open_work: Sequence[str]


def write_letter(tenant_id: UUID, request_id: UUID, letter: LetterKind, *, as_page: bool) -> Letter:
    """Return an answer to a request, as plain text or as a printable page; Ebbing doesn't send it.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request isn't in the state that the letter is about.
    """
    with database.tenant(tenant_id) as tx:
        request, now = _get_or_404(tx, tenant_id, request_id), database.now(tx)
        erasure = requests.get(tx, tenant_id, request_id)
        found = holds_in_scope.holds_in(tx, tenant_id, erasure.scope) if erasure and erasure.status == "held" else []
        others = same_case.list_unfinished(tx, tenant_id, request.case_reference, request_id)
        report = retained_texts.mark_gone(tx, tenant_id, (erasure and erasure.report) or {})
    texts = document_texts.read()
    partial = None
    if erasure is not None and erasure.status == "held":
        held = [
            HeldMemories(each.hold_id, each.placed_at, each.memories, describe_ground(erasure.kind, each.ground, texts))
            for each in found
        ]
        partial = PartialErasure(report.get("memories", 0), erasure.finished_at, held)
    render = render_letter_page if as_page else render_letter_text
    facts = ErasureFacts(
        erasure is not None,
        erasure is not None and erasure.status == "verified" and found_nothing({**report, "status": erasure.status}),
        report.get("scope") == "subject",
        count_similar(report) + count_similar_hidden(report),
        count_reviews(report).open,
        [OpenErasure(*each) for each in others],
        partial,
    )
    states_open = request.nature == "erasure" and letter in ("completion", "partial")
    return Letter(render(letter, request, now, texts, facts), _list_open_work(facts) if states_open else ())


def _list_open_work(facts: ErasureFacts) -> list[str]:
    """Return what remains to be done after an erasure or is missing, for the caller who prints its letter."""
    texts = count_of(facts.reviews, "text", "texts")
    reviews = [f"{texts} with a part of the person's name still to review"] if facts.reviews else []
    others = [
        f"another erasure with the same case reference, {each.erasure_id}: {_OPEN_STATES[each.status]}"
        for each in facts.others[:_OTHERS_MAX]
    ]
    more = len(facts.others) - len(others)
    held = facts.partial.held if facts.partial else ()
    reviews += [f"legal hold {each.hold_id} without a legal ground" for each in held if each.ground is None]
    return reviews + others + ([count_of(more, "further erasure", "further erasures")] if more else [])


def _lock_open(tx: database.Transaction, tenant_id: UUID, request_id: UUID) -> PrivacyRequest:
    """Return an open request with its row locked.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request is already answered.
    """
    request = _get_or_404(tx, tenant_id, request_id, locked=True)
    if request.answer is not None:
        raise Conflict(f"this request is already answered: {request.answer}")
    return request


def answer_request(
    tenant_id: UUID, request_id: UUID, answered: Answer, basis: str | None, actor: str, *, dry_run: bool = False
) -> PrivacyRequest:
    """Record the outcome of a request. With `dry_run`, only check that it can be recorded.

    Args:
        answered: `done` or `denied`.
        basis: The legal ground of a denial.
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request is already answered, or its erasure is still in progress.
        Invalid: The basis names the subject.
    """
    with database.tenant(tenant_id) as tx:
        request = _lock_open(tx, tenant_id, request_id)
        retained_texts.check_about_within(tx, tenant_id, request_id, basis=basis)
        erasure = requests.get(tx, tenant_id, request_id)
        if erasure is not None and erasure.status == "held":
            raise Conflict(WAITS)
        if erasure is not None:
            raise Conflict(ERASING if answered == "done" else _DENY_ERASURE)
        if dry_run:
            return replace(request, answer=answered, basis=basis)
        request_log.store_answer(tx, tenant_id, [request_id], answered, basis)
        answered_request = _get_or_404(tx, tenant_id, request_id)
        details = {
            "request": str(request_id),
            "nature": answered_request.nature,
            "law": answered_request.law,
            "answer": answered,
        }
        audit.append(tx, tenant_id, "request_answered", actor, items=1, details=details)
    return answered_request


def summarise_requests(tenant_id: UUID, after: datetime, before: datetime) -> RequestSummary:
    """Summarise the requests received from `after` until `before`; count the currently stored memories by category."""
    with database.tenant(tenant_id) as tx:
        tallies = request_log.count_by_nature(tx, tenant_id, after, before)
        return RequestSummary(after, before, tallies, *request_log.count_by_category(tx, tenant_id, CATEGORIES_MAX))


def _get_or_404(tx: database.Transaction, tenant_id: UUID, request_id: UUID, *, locked: bool = False) -> PrivacyRequest:
    return require_found(request_log.get(tx, tenant_id, request_id, locked=locked), "request")
