"""Fixtures: the dashboard in this process, and visitors with API keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from app.clients import oidc_provider as client
from app.dashboard import login, provider_login
from app.dashboard.login_limit import LoginFailures
from app.domain.policy.api_keys import SCOPES
from app.services.monitoring import status
from app.services.tenants import tenants
from tests.api.caller import Api
from tests.api.conftest import api
from tests.dashboard.oidc import FakeOidc, oidc_provider
from tests.dashboard.visitor import Visitor

__all__ = ["api"]


@pytest.fixture(autouse=True)
def no_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear this process's counts of failed log-ins, so that tests don't depend on their order."""
    monkeypatch.setattr(login, "failures", LoginFailures("log-in"))
    monkeypatch.setattr(provider_login, "bad_codes", LoginFailures("code"))


@pytest.fixture
def visit(api: Api) -> Callable[..., Visitor]:
    """Function that logs in with a new key of these scopes; without scopes, of every scope except `admin`."""
    status.forget()

    def visitor(*scopes: str) -> Visitor:
        wanted = scopes or tuple(scope for scope in SCOPES if scope != "admin")
        return Visitor(api, tenants.issue_key(api.tenant.tenant_id, "visitor", wanted))

    return visitor


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOidc]:
    """A log-in provider of this module."""
    with oidc_provider() as fake:
        yield fake


@pytest.fixture
def fake(server: FakeOidc, api: Api) -> FakeOidc:
    """The log-in provider in its initial state, with the service configured for it."""
    server.reset()
    client._provider.cache_clear()
    server.configure(api.service, api.tenant.tenant_id)
    return server
