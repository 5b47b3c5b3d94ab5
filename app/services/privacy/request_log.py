"""Log data subjects' privacy requests: record, confirm, answer and summarise them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from app.domain.ingest.memory import check_moment
from app.domain.privacy.legal_deadlines import legal_deadlines
from app.domain.privacy.requests import Answer, NewRequest, PrivacyRequest, RequestStatistics
from app.errors import Conflict, FieldError, Invalid, require_found
from app.services.security import audit
from app.store.core import database
from app.store.erasure import requests
from app.store.privacy import request_log

CATEGORIES_MAX: Final = 500


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


def create(tenant_id: UUID, given: NewRequest) -> PrivacyRequest:
    """Record a privacy request; requests for exports and erasures through the API are recorded automatically.

    Raises:
        Invalid: The time of receipt is in the future.
    """
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        received_at = given.received_at or now
        check_moment(received_at, "received_at")
        if received_at > now:
            raise Invalid(errors=[FieldError("received_at", "is in the future")])
        deadlines = legal_deadlines(given.law, received_at)
        fields = (given.nature, given.law, given.manner, received_at)
        new = PrivacyRequest(uuid4(), *fields, deadlines.confirm_by, deadlines.due_at)
        request_log.add(tx, tenant_id, new)
    return new


list_requests = database.in_tenant(request_log.list_requests)
"""Return a page of requests, optionally only open ones, latest first, after the given time of receipt and id."""


def confirm_receipt(tenant_id: UUID, request_id: UUID) -> PrivacyRequest:
    """Record that the requester has been sent a confirmation of receipt.

    Raises:
        NotFound: This tenant has no such request.
    """
    with database.tenant(tenant_id) as tx:
        _get_or_404(tx, tenant_id, request_id)
        request_log.store_confirmation(tx, tenant_id, request_id)
        return _get_or_404(tx, tenant_id, request_id)


def answer_request(
    tenant_id: UUID, request_id: UUID, answered: Answer, basis: str | None, actor: str
) -> PrivacyRequest:
    """Record the outcome of a request.

    Args:
        answered: `done` or `denied`.
        basis: The legal ground of a denial.
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such request.
        Conflict: The request is already answered, or its erasure is still in progress.
    """
    with database.tenant(tenant_id) as tx:
        request = _get_or_404(tx, tenant_id, request_id, locked=True)
        if request.answer is not None:
            raise Conflict(f"this request is already answered: {request.answer}")
        if requests.get(tx, tenant_id, request_id) is not None:
            raise Conflict("its erasure answers this request: cancel the erasure, then record the request separately")
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
