"""Create the first tenant and API key of an installation directly in the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from app.errors import Unavailable

TENANT: Final = "default"


class FirstKey(NamedTuple):
    """New key with all scopes for the tenant `default`; `text` is not stored and can't be recovered."""

    tenant_id: str
    text: str


def make_key() -> FirstKey:
    """Create a key with all scopes, and the tenant `default` if it doesn't exist.

    Raises:
        Unavailable: The database can't be reached.
    """
    from app.domain.policy.api_keys import SCOPES
    from app.services.tenants import tenants

    with _answering():
        tenant = tenants.find_tenant(TENANT)
        if tenant is None:
            tenant, text = tenants.create(TENANT, scopes=SCOPES)
        else:
            text = tenants.issue_key(tenant.tenant_id, "ebbing run", SCOPES)
    return FirstKey(str(tenant.tenant_id), text)


def keep_key(path: Path) -> None:
    """Ensure that `path` contains a valid key; create the file with mode 0600 if needed.

    Raises:
        Unavailable: The database can't be reached.
    """
    from app.embedded.data_dirs import write_private

    with _answering():
        if path.is_file() and _is_valid(path.read_text(encoding="utf-8").strip()):
            return
    write_private(path, f"{make_key().text}\n")


def _is_valid(text: str) -> bool:
    """Return True if the key exists, matches and is neither revoked nor expired."""
    from app.domain.policy import api_keys
    from app.services.tenants import tenants

    presented = api_keys.parse(text)
    stored = tenants.find_key(presented.key_id) if presented else None
    if presented is None or stored is None or stored.revoked_at is not None:
        return False
    in_time = stored.expires_at is None or stored.expires_at > datetime.now(UTC)
    return in_time and api_keys.matches_digest(presented.secret, stored.digest)


@contextmanager
def _answering() -> Iterator[None]:
    from app.services.transient_errors import is_transient

    try:
        yield
    except Exception as error:
        if not is_transient(error):
            raise
        raise Unavailable(
            f"PostgreSQL is unavailable ({type(error).__name__}): check EBBING_DATABASE_URL and run `ebbing migrate`"
        ) from None
