"""Settings of log-ins through an OpenID Connect provider, a part of `app.settings`."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

Scope = Literal["ingest", "read", "maintain", "privacy", "admin"]


class LogInRule(BaseModel):
    """Scopes that a value of the access claim grants on these tenants; `admin` extends them to every tenant."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scopes: frozenset[Scope]
    tenants: tuple[UUID, ...] = Field(min_length=1, max_length=100)

    @field_validator("scopes")
    @classmethod
    def _opens_the_dashboard(cls, given: frozenset[Scope]) -> frozenset[Scope]:
        if not given - {"ingest"}:
            raise ValueError("must contain read, maintain, privacy or admin, or nobody could log in")
        return given


class LogInSettings(BaseSettings):
    """Settings of log-ins through a provider; without `EBBING_OIDC_ISSUER`, people log in with API keys only."""

    oidc_client_id: str | None = None
    """Id under which Ebbing is registered at the log-in provider."""
    oidc_client_secret: SecretStr | None = None
    """Ebbing's client secret at the log-in provider; unset for a public client, which only PKCE protects."""
    oidc_requested_scopes: str = Field("openid profile", pattern=r"^openid( [!#-\[\]-~]+)*$")
    """OpenID scopes that a log-in requests; some providers return groups only with a further one, such as `groups`."""
    oidc_access_claim: str = Field("groups", min_length=1)
    """Claim of the ID token whose values `EBBING_OIDC_SCOPES` maps, such as `groups` or `roles`."""
    oidc_name_claim: str = Field("name", min_length=1)
    """Claim of the ID token with the person's name, which the dashboard shows beside what the person did."""
    oidc_scopes: dict[str, LogInRule] = Field({}, max_length=100)
    """Scopes and tenants by value of the access claim, as JSON: `{"ebbing-operators": {"scopes": ["read", "maintain"],
    "tenants": ["TENANT-ID"]}}`. People without one of these values can't log in through the provider."""
    oidc_hosts: Annotated[frozenset[str], NoDecode] = frozenset()
    """Hosts of the provider that the API may call, for its keys and tokens. Default: only the host of
    `EBBING_OIDC_ISSUER`."""
    oidc_private_addresses: bool = False
    """Allow host names of the provider that resolve to private addresses, as in a container network."""
    oidc_session_hours: float = Field(12, gt=0, le=12)
    """Maximum duration of a session after a log-in through the provider; then the person must log in again."""
    oidc_issuer: str | None = None
    """Issuer of the OpenID Connect provider by which people log in to the dashboard, such as
    `https://login.example.com/realms/staff`; it must equal the provider's own spelling. It also requires
    `EBBING_OIDC_CLIENT_ID`, `EBBING_OIDC_SCOPES` and `EBBING_PUBLIC_URL`."""

    @field_validator("oidc_client_id", "oidc_client_secret", "oidc_issuer", mode="before")
    @classmethod
    def _none_if_unset(cls, given: object) -> object:
        return None if given == "" else given

    @field_validator("oidc_hosts", mode="before")
    @classmethod
    def _hosts(cls, given: object) -> object:
        return frozenset(filter(None, map(str.strip, given.split(",")))) if isinstance(given, str) else given

    @field_validator("oidc_issuer")
    @classmethod
    def _is_complete(cls, given: str | None, info: ValidationInfo) -> str | None:
        if given is None:
            return None
        address = urlsplit(given)
        if address.scheme not in ("https", "http") or not address.hostname or address.query or address.fragment:
            raise ValueError("must be an https address without a query")
        # A field that isn't in `info.data` is invalid itself, which pydantic reports separately.
        for name in ("oidc_client_id", "oidc_scopes"):
            if not info.data.get(name, True):
                raise ValueError(f"requires EBBING_{name.upper()}")
        return given

    @property
    def oidc_allowed_hosts(self) -> frozenset[str]:
        """Hosts of the log-in provider that the API may call, in lower case."""
        own = urlsplit(self.oidc_issuer or "").hostname or ""
        return frozenset(map(str.lower, self.oidc_hosts)) or frozenset({own})
