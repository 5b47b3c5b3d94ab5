"""Find or make the entry of the request log that an erasure or export answers.

An erasure or export has the same id as the request that it answers. The request was recorded on receipt, or it is
recorded together with the erasure or export.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from app.domain.ingest.memory import check_moment
from app.domain.privacy.legal_deadlines import Law, legal_deadlines
from app.domain.privacy.requests import Nature, PrivacyRequest
from app.errors import Conflict, FieldError, Invalid
from app.services.privacy import deadlines, retained_texts
from app.store.core import database
from app.store.erasure import requests
from app.store.privacy import exports, request_log

_NOUNS: Final[dict[Nature, str]] = {"access": "access", "portable": "portability"}
_EXPORTED: Final[tuple[Nature, ...]] = ("access", "portable")

_ANOTHER: Final = (
    ": for another name of the same person, repeat the call without `request_id` (`--request`), with the request's law "
    "and time of receipt (`received_at`, `--received`); it gets an entry of its own in the request log"
)


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Details, given by a caller, of the request that an erasure or export answers.

    Attributes:
        nature: The right. For an export, None means the right of the request in the log, or `access` for a new request.
        law: The law. None means the law of the request in the log, or `user` for a new request.
        law_field: Name of the field with the law, for errors.
        request_id: The request in the log that is carried out; None for a new request.
        received_at: Time of receipt of a new request; None for now.
        controller: Replaces the controller in the log; None leaves it unchanged.
        case_reference: Replaces the case reference in the log; None leaves it unchanged.
    """

    nature: Nature | None
    law: Law | None
    law_field: str
    request_id: UUID | None = None
    received_at: datetime | None = None
    controller: str | None = None
    case_reference: str | None = None


def check_names(tenant_id: UUID, subject: str | None, given: RequestOptions, legal_basis: str | None = None) -> None:
    """Check that none of a request's texts (those in the log included) that outlive an erasure names the subject.

    Raises:
        Invalid: A text names the subject, or the request can't be carried out.
        Conflict: The request is answered, or carried out already.
    """
    with database.tenant(tenant_id) as tx:
        entry = find_entry(tx, tenant_id, given)
        texts = {"controller": entry.controller, "case_reference": entry.case_reference, "legal_basis": legal_basis}
        retained_texts.check_within(tx, tenant_id, subject, **texts)


def find_entry(
    tx: database.Transaction, tenant_id: UUID, given: RequestOptions, *, locked: bool = False
) -> PrivacyRequest:
    """Return the entry of the log that an erasure or export answers, with what the caller says about it.

    Nothing is written: the caller stores the entry with `request_log.put`.

    Args:
        locked: Lock the entry, if it is in the log.

    Raises:
        Invalid: The log has no such request, or it is for another right or under another law; or a time of receipt is
            in the future, or given for a request in the log.
        Conflict: The request is answered, or carried out already.
    """
    if given.request_id is None:
        return _new_entry(tx, tenant_id, given)
    request = request_log.get(tx, tenant_id, given.request_id, locked=locked)
    if request is None:
        raise Invalid(errors=[FieldError("request_id", "isn't the ID of a request in the log", str(given.request_id))])
    errors = list(_find_faults(request, given))
    if errors:
        raise Invalid(errors=errors)
    if request.answer is not None:
        raise Conflict(f"this request is already answered: {request.answer}")
    if requests.get(tx, tenant_id, request.request_id) is not None:
        raise Conflict(f"this request already has its erasure{_ANOTHER}")
    export = exports.get(tx, tenant_id, request.request_id)
    if export is not None and export.status != "failed":
        raise Conflict(f"this request already has its export{_ANOTHER}")
    return replace(
        request,
        controller=given.controller or request.controller,
        case_reference=given.case_reference or request.case_reference,
    )


def past_moment(tx: database.Transaction, moment: datetime | None, field: str) -> datetime:
    """Return a moment, or now if there is none.

    Raises:
        Invalid: The moment is in the future or can't be stored.
    """
    now = database.now(tx)
    if moment is None:
        return now
    check_moment(moment, field)
    if moment > now:
        raise Invalid(errors=[FieldError(field, "is in the future")])
    return moment


def _new_entry(tx: database.Transaction, tenant_id: UUID, given: RequestOptions) -> PrivacyRequest:
    law = given.law or "user"
    received_at = past_moment(tx, given.received_at, "received_at")
    times = legal_deadlines(law, received_at, zone=deadlines.read_zone(tx, tenant_id))
    return PrivacyRequest(
        uuid4(),
        given.nature or "access",
        law,
        "api",
        received_at,
        times.confirm_by,
        times.due_at,
        controller=given.controller,
        case_reference=given.case_reference,
    )


def _find_faults(request: PrivacyRequest, given: RequestOptions) -> list[FieldError]:
    """Return the fields that contradict the request in the log."""
    faults = []
    fits = request.nature in _EXPORTED if given.nature is None else request.nature == given.nature
    if not fits and given.nature != "erasure" and request.nature in _EXPORTED:
        wanted = _NOUNS[request.nature]
        faults.append(FieldError("kind", f"differs from the right in the log, {wanted}: omit it", given.nature))
    elif not fits:
        wanted = "an erasure" if given.nature == "erasure" else "an export"
        faults.append(FieldError("request_id", f"is a request for {request.nature}, which {wanted} doesn't answer"))
    if given.law not in (None, request.law):
        message = f"differs from the law in the log, {request.law}: omit it"
        faults.append(FieldError(given.law_field, message, given.law))
    if given.received_at is not None:
        faults.append(FieldError("received_at", "is stored with the request in the log: omit it"))
    return faults
