"""Decide what people who log in through the provider may do: settings map values of a claim to scopes and tenants."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Final
from uuid import UUID

from app.errors import EbbingError
from app.log_in_settings import LogInRule
from app.settings import settings

CALLBACK_PATH: Final = "/ops/log-in/oidc/callback"


class ProviderAway(EbbingError):
    """The log-in provider can't be used; API keys still work."""

    status, type, title = 503, "log-in-provider-away", "The log-in provider can't be used"


class LogInRefused(EbbingError):
    """The provider's answer doesn't prove who the person is."""

    status, type, title = 401, "log-in-refused", "The log-in failed"


class NoAccess(EbbingError):
    """The person is known, but no rule grants them access."""

    status, type, title = 403, "no-access", "No access"


def is_offered() -> bool:
    """Return whether people may log in through a provider."""
    return settings().oidc_issuer is not None


def find_access(granted: Collection[str]) -> dict[UUID, frozenset[str]]:
    """Return the scopes that a person's rules grant, by tenant; rules removed from the settings grant nothing.

    The first tenant is the one to show after a log-in.
    """
    everywhere, scopes = find_fleet_scopes(granted), dict[UUID, frozenset[str]]()
    for rule in _find_rules(granted):
        for tenant_id in rule.tenants:
            scopes[tenant_id] = scopes.get(tenant_id, everywhere) | rule.scopes
    return scopes


def find_fleet_scopes(granted: Collection[str]) -> frozenset[str]:
    """Return the scopes that a person has on every tenant: all scopes of the person's rules with the scope `admin`."""
    return frozenset(scope for rule in _find_rules(granted) if "admin" in rule.scopes for scope in rule.scopes)


def digest_rules(values: Collection[str]) -> tuple[str, ...]:
    """Return the digests of the rules for these values of the access claim; sessions store these digests."""
    return tuple(_digest_rule(value) for value in settings().oidc_scopes if value in values)


def _find_rules(granted: Collection[str]) -> list[LogInRule]:
    return [rule for value, rule in settings().oidc_scopes.items() if _digest_rule(value) in granted]


def _digest_rule(value: str) -> str:
    """Return a digest of a claim's value that also depends on the provider, the client and the name of the claim."""
    config = settings()
    parts = (config.oidc_issuer, config.oidc_client_id, config.oidc_access_claim, value)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
