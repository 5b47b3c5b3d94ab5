"""Check the URLs of servers in the settings, so that a process refuses to start with an unusable one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

_HTTP_RULE: Final = "must be an http(s) URL without user name and query, such as https://host/v1"


def check_http_url(given: str | None) -> str | None:
    """Return the URL unchanged; None is valid.

    Raises:
        ValueError: It isn't an http(s) URL with a host, or has a user name or a query. The message doesn't quote it.
    """
    if given is not None and not _is_http_url(given):
        raise ValueError(_HTTP_RULE)
    return given


def _is_http_url(given: str) -> bool:
    try:
        parts = urlsplit(given)
        _ = parts.port  # raises ValueError if it isn't a number up to 65535
    except ValueError:
        return False
    has_login = parts.username is not None or parts.password is not None
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and not has_login and not parts.query


def _require_scheme(*schemes: str) -> Callable[[SecretStr | None], SecretStr | None]:
    prefixes = tuple(f"{scheme}://" for scheme in schemes)

    def check(given: SecretStr | None) -> SecretStr | None:
        """Return the URL unchanged; an empty one counts as unset. The error doesn't quote it: it has a password."""
        if given and not given.get_secret_value().lower().startswith(prefixes):
            raise ValueError(f"must be a URL that begins with {' or '.join(prefixes)}")
        return given

    return check


HTTP_URL: Final = AfterValidator(check_http_url)
POSTGRESQL_URL: Final = AfterValidator(_require_scheme("postgresql", "postgres"))
REDIS_URL: Final = AfterValidator(_require_scheme("redis", "rediss", "unix"))
