"""The data of a deleted tenant that remains, for the report of its deletion."""

from __future__ import annotations

from typing import Any, Final

from app.domain.privacy.requests import KEPT_MONTHS

NOT_LIMITED: Final = "the operator deletes the installation"
RETAINED: Final[tuple[dict[str, Any], ...]] = (
    {
        "what": "the tenant's id with the dates of its creation and deletion, and the erasure ledger with ids of "
        "erased memories and positions in the queue",
        "count": None,
        "ground": "so that a restored backup or a late retry doesn't bring anything back",
        "until": NOT_LIMITED,
        "code": "tenant_tombstone",
    },
    {
        "what": "audit entries",
        "count": None,
        "ground": "proof of what was done: they contain dates, numbers, ids and digests, but no text and no name; "
        "the key of their digests of names is destroyed",
        "until": NOT_LIMITED,
        "code": "tenant_audit",
    },
    {
        "what": "entries of the request log: kinds, dates and answers of privacy requests",
        "count": None,
        "ground": "proof that requests were answered; texts of operators are deleted",
        "until": f"at least {KEPT_MONTHS} months after the answer",
        "code": "tenant_requests",
    },
    {
        "what": "calls and costs of models by day and host",
        "count": None,
        "ground": "for invoices and for the list of recipients; they contain no content",
        "until": NOT_LIMITED,
        "code": "tenant_usage",
    },
    {
        "what": "the dates of this deletion, and this report",
        "count": None,
        "ground": "proof that the tenant was deleted",
        "until": NOT_LIMITED,
        "code": "tenant_case",
    },
)
