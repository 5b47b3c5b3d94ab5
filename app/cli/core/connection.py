"""Find the API's address and the API key for the commands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.cli.core.errors import Code, CommandFailure
from app.settings import Settings, settings

DEFAULT_URL = "http://127.0.0.1:8000"
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


@dataclass(frozen=True)
class ApiConnection:
    """Address of the API and the API key; the key is None if none is configured."""

    url: str
    key: str | None

    @property
    def is_here(self) -> bool:
        """True if the API runs on this machine."""
        return (urlsplit(self.url).hostname or "") in LOOPBACK


def load_settings() -> Settings:
    """Return the settings; raise a one-line `CommandFailure` that names an invalid one."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    try:
        return settings()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        name = "_".join(str(part) for part in wrong["loc"]).upper()
        raise CommandFailure(f"EBBING_{name}: {wrong['msg']}", Code.USAGE) from None
    except SettingsError as error:
        raise CommandFailure(str(error), Code.USAGE) from None


def check_dynamics() -> None:
    """Check custom forgetting profiles before a start; slow imports happen only if any are configured.

    Raises:
        Misconfigured: A profile is unusable; the message names it and the reason.
    """
    from importlib.metadata import entry_points

    if load_settings().dynamics_files or entry_points(group="ebbing.dynamics"):
        from app.services.strength import dynamics_plugins

        dynamics_plugins.load()


def find_connection(url: str | None = None, home: Path | None = None) -> ApiConnection:
    """Return the API address and key: `url`, EBBING_API_URL, the address recorded in the home, or the default address.

    The key in a home belongs to the local service of that home and is never sent to another machine.
    """
    config = load_settings()
    home = home or config.home
    found = url or config.api_url or read_note(home / "api-url") or DEFAULT_URL
    if urlsplit(found).scheme not in {"http", "https"} or not urlsplit(found).hostname:
        raise CommandFailure(f"{found} isn't a valid API address: expected a URL such as {DEFAULT_URL}", Code.USAGE)
    place = ApiConnection(found.rstrip("/"), config.api_key.get_secret_value() if config.api_key else None)
    if place.key is None and place.is_here:
        return ApiConnection(place.url, read_note(home / "api-key"))
    return place


def read_note(path: Path) -> str | None:
    """Return the content of a one-line file in the home; None if the file is missing or empty."""
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a text file"
        raise CommandFailure(f"{path} can't be read ({reason})", Code.NOT_ALLOWED) from None
