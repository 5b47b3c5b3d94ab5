"""`GET /v1/privacy/categories`: retention periods of personal memories by category."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Caller, needs
from app.services.privacy import categories
from app.settings import settings

router = APIRouter(prefix="/v1/privacy", tags=["privacy"])


@router.get("/categories", summary="List retention periods by category")
def get(caller: Annotated[Caller, Depends(needs("privacy"))]) -> Response:
    """Return each category with its retention period, memory count and next expiry, and the retention of backups."""
    found = categories.count_categories(caller.tenant_id)
    shown = [
        {
            "category": each.name,
            "max_days": each.max_days,
            "memories": each.memories,
            "next_expiry_at": each.next_expiry_at,
        }
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
