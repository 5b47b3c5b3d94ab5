"""Memories that arrive while an erasure hides their subject, and are back once it is cancelled."""

from __future__ import annotations

from app.domain.privacy.legal_hold import Scope
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from tests.service import Service


def test_a_memory_that_arrived_hidden_is_scored_once_it_is_back(service: Service) -> None:
    tenant = service.tenant()
    asked = requests.request(tenant.tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 7), "key")
    [memory_id] = service.send(tenant.tenant_id, {"text": "Ann moved to Bern", "subject": "ann"})
    service.work()
    requests.cancel(tenant.tenant_id, asked.erasure_id, "key")
    service.work()
    row = service.rows("SELECT tier, salience FROM memory_state WHERE memory_id = %s", memory_id)
    assert row[0][0] == "active"
    assert row[0][1] is not None
