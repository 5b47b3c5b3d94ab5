"""Where the API is and which key to show it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.cli.core.failures import Code, Failure
from app.settings import Settings, settings

DEFAULT_URL = "http://127.0.0.1:8000"
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


@dataclass(frozen=True)
class Place:
    """The address of the API, and the key, None where there is none."""

    url: str
    key: str | None

    @property
    def is_here(self) -> bool:
        """Whether the API is on this machine."""
        return (urlsplit(self.url).hostname or "") in LOOPBACK


def configuration() -> Settings:
    """The settings, or a sentence about the one that is wrong."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    try:
        return settings()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        name = "_".join(str(part) for part in wrong["loc"]).upper()
        raise Failure(f"EBBING_{name}: {wrong['msg']}", Code.USAGE) from None
    except SettingsError as error:
        raise Failure(str(error), Code.USAGE) from None


def check_dynamics() -> None:
    """Refuse to start with a model of forgetting that isn't fit; what is slow to import only if there is any.

    Raises:
        Misconfigured: One isn't; names it, and says why.
    """
    from importlib.metadata import entry_points

    if configuration().dynamics_files or entry_points(group="ebbing.dynamics"):
        from app.services.strength import plugins

        plugins.load()


def find(url: str | None = None, home: Path | None = None) -> Place:
    """The API by `url`, EBBING_API_URL, what `ebbing run` noted in the home, or the usual address.

    The key in a home is for that home's service: it isn't shown to another machine.
    """
    config = configuration()
    home = home or config.home
    found = url or config.api_url or noted(home / "api-url") or DEFAULT_URL
    if urlsplit(found).scheme not in {"http", "https"} or not urlsplit(found).hostname:
        raise Failure(f"{found} isn't an address of an API: it looks like {DEFAULT_URL}", Code.USAGE)
    place = Place(found.rstrip("/"), config.api_key.get_secret_value() if config.api_key else None)
    if place.key is None and place.is_here:
        return Place(place.url, noted(home / "api-key"))
    return place


def noted(path: Path) -> str | None:
    """The line in a file of the home; None where there is none."""
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it isn't text"
        raise Failure(f"{path} can't be read ({reason})", Code.NOT_ALLOWED) from None
