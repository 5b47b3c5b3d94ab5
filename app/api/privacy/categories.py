"""`GET /v1/privacy/categories`: how long personal memories are kept, as it is in force."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.services.privacy import categories
from app.settings import settings

router = APIRouter(prefix="/v1/privacy", tags=["privacy"])


@router.get("/categories", summary="How long each category is kept")
def get(caller: Annotated[Caller, Depends(needs("privacy"))]) -> Response:
    """Each category with its limit, how many memories it has, when the first goes by it; how long backups are kept."""
    found = categories.running(caller.tenant_id)
    shown = [
        {
            "category": each.name,
            "max_days": each.max_days,
            "memories": each.memories,
            "next_expiry_at": each.next_expiry_at,
        }
        for each in found.categories
    ]
    return shapes.answer(
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
