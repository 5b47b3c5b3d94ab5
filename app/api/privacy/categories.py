"""`GET /v1/privacy/categories`: retention periods of personal memories by category."""

from __future__ import annotations

from fastapi import APIRouter, Response

from app.api.http import responses
from app.api.http.auth import Guardian
from app.services.privacy import categories
from app.settings import settings

router = APIRouter(prefix="/v1/privacy", tags=["privacy"])


@router.get("/categories", summary="List retention periods by category")
def get(caller: Guardian) -> Response:
    """Return each category with its retention period, memory count and next expiry, and the retention of backups."""
    found = categories.count_categories(caller.tenant_id)
    shown = [
        {"category": each.name, **responses.pick(each, "max_days", "memories", "next_expiry_at")}
        for each in found.categories
    ]
    return responses.answer(
        {
            "categories": shown,
            "risk": {
                "above": found.privacy.risk_above,
                "weights": {
                    "pii": found.privacy.pii_weight,
                    "sensitivity": found.privacy.sensitivity_weight,
                    "age": found.privacy.age_weight,
                },
            },
            "backups": {"kept_days": settings().backup_days},
            "complete": found.complete,
        }
    )
