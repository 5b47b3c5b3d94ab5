"""Log data subjects' privacy requests: record, confirm, answer and summarise them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from app.domain.ingest.memory import check_moment
from app.domain.privacy.clocks import clocks
from app.domain.privacy.requests import Answer, NewRequest, Request, Tally
from app.errors import Conflict, FieldError, Invalid, NotFound
from app.services.security import audit
from app.store.core import database
from app.store.core.paging import Page, Place
from app.store.erasure import requests
from app.store.privacy import privacy_requests as rows

CATEGORIES_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures on the requests of a period.

    Attributes:
        categories: Number of memories currently stored, by category, for the most frequent categories.
        categories_left_out: Number of categories beyond those.
    """

    after: datetime
    before: datetime
    tallies: list[Tally]
    categories: dict[str, int]
    categories_left_out: int


def create(tenant_id: UUID, given: NewRequest) -> Request:
    """Record a privacy request that no API call has recorded automatically.

    Raises:
        Invalid: The time of receipt is in the future.
    """
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        received_at = given.received_at or now
        check_moment(received_at, "received_at")
        if received_at > now:
            raise Invalid(errors=[FieldError("received_at", "is in the future")])
        times = clocks(given.law, received_at)
        asked = (given.nature, given.law, given.manner, received_at)
        new = Request(uuid4(), *asked, times.confirm_by, times.due_at)
        rows.add(tx, tenant_id, new)
    return new


def page(tenant_id: UUID, older_than: Place | None, limit: int, *, is_open: bool) -> Page[Request]:
    """Return a page of requests, optionally only open ones, latest first, after the given time of receipt and id."""
    with database.tenant(tenant_id) as tx:
        return rows.page(tx, tenant_id, older_than, limit, is_open=is_open)


def confirm(tenant_id: UUID, request_id: UUID) -> Request:
    """Record that receipt of the request was confirmed to the person.

    Raises:
        NotFound: This tenant has no such request.
    """
    with database.tenant(tenant_id) as tx:
        _found(tx, tenant_id, request_id)
        rows.confirm(tx, tenant_id, request_id)
        return _found(tx, tenant_id, request_id)


def answer(tenant_id: UUID, request_id: UUID, answered: Answer, basis: str | None, actor: str) -> Request:
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
        there = _found(tx, tenant_id, request_id, locked=True)
        if there.answer is not None:
            raise Conflict(f"this request is answered: it is {there.answer}")
        if requests.get(tx, tenant_id, request_id) is not None:
            raise Conflict("this request's erasure answers it: cancel that first, and enter the request by itself")
        rows.answer(tx, tenant_id, [request_id], answered, basis)
        found = _found(tx, tenant_id, request_id)
        details = {"request": str(request_id), "nature": found.nature, "law": found.law, "answer": answered}
        audit.append(tx, tenant_id, "request_answered", actor, items=1, details=details)
    return found


def summary(tenant_id: UUID, after: datetime, before: datetime) -> Summary:
    """Summarise the requests received from `after` until `before`, and count the stored memories by category."""
    with database.tenant(tenant_id) as tx:
        tallies = rows.tallies(tx, tenant_id, after, before)
        return Summary(after, before, tallies, *rows.categories(tx, tenant_id, CATEGORIES_MAX))


def _found(tx: database.Transaction, tenant_id: UUID, request_id: UUID, *, locked: bool = False) -> Request:
    there = rows.get(tx, tenant_id, request_id, locked=locked)
    if there is None:
        raise NotFound("this tenant has no such request")
    return there
