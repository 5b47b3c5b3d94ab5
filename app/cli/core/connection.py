"""Find the API's address and the API key for the commands.

Commands that only call the API read three settings here: loading all of them takes pydantic a sixth of a second.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from app import secret_files
from app.cli.core.errors import Code, CommandFailure

if TYPE_CHECKING:
    from app.settings import Settings

HOME: Final = "EBBING_HOME"
PORT: Final = "EBBING_PORT"
API_URL: Final = "EBBING_API_URL"
API_KEY: Final = "EBBING_API_KEY"
DEFAULT_HOME: Final = ".ebbing"
ENV_FILE: Final = ".env"

PORT_MAX: Final = 65_535
DEFAULT_URL = "http://127.0.0.1:8000"
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


@dataclass(frozen=True)
class ApiConnection:
    """Address of the API and the API key.

    Attributes:
        key: None if none is configured.
        home: Home whose service must be running when a request is sent, because another program may use its port after
            a stop. None unless the address or the key is from the home, and neither `url` nor EBBING_API_URL is given.
    """

    url: str
    key: str | None
    home: Path | None = None

    @property
    def is_here(self) -> bool:
        """True if the API runs on this machine."""
        return (urlsplit(self.url).hostname or "") in LOOPBACK


def load_settings() -> Settings:
    """Return the settings; raise a one-line `CommandFailure` that names an invalid one."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from app.settings import settings

    try:
        return settings()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        name, *parts = map(str, wrong["loc"] or [""])
        place = f"EBBING_{name.upper()}{''.join(f'[{part}]' for part in parts)}: " if name else ""
        raise CommandFailure(f"{place}{wrong['msg'].removeprefix('Value error, ')}", Code.USAGE) from None
    except SettingsError as error:
        raise CommandFailure(str(error), Code.USAGE) from None


def use_home() -> None:
    """Use the database and the master key of a service that runs in the home, unless others are configured."""
    from app.settings import settings
    from app.supervisor.service_children import running_database

    config = load_settings()
    if config.database_url is not None or (url := running_database(config.home)) is None:
        return
    os.environ["EBBING_DATABASE_URL"] = url
    master_key = config.home / "master-key"
    if config.master_key is None and master_key.is_file():
        os.environ["EBBING_MASTER_KEY_FILE"] = str(master_key)
    settings.cache_clear()


def check_dynamics() -> None:
    """Check custom forgetting profiles before a start; slow imports happen only if any are configured.

    Raises:
        Misconfigured: A profile is unusable; the message names it and the reason.
    """
    from importlib.metadata import entry_points

    if load_settings().dynamics_files or entry_points(group="ebbing.dynamics"):
        from app.services.strength import dynamics_plugins

        dynamics_plugins.load()


def find_connection(url: str | None = None) -> ApiConnection:
    """Return the API address and key: `url`, EBBING_API_URL, EBBING_PORT on this machine, or the recorded address.

    `ebbing run` records the address in the home. It reads EBBING_PORT from the `.env` file, too, so a recorded address
    takes precedence over this port. The key in a home belongs to the local service of that home: it is never sent to
    another machine. If `url` and EBBING_API_URL are missing, the key is sent only while that service runs.
    """
    given = _read_client_settings()
    home = Path(given.get(HOME) or DEFAULT_HOME)
    named = url or given.get(API_URL)
    noted = None if named else read_note(home / "api-url")
    found = named or _find_local_url(given, noted) or DEFAULT_URL
    if urlsplit(found).scheme not in {"http", "https"} or not urlsplit(found).hostname:
        raise CommandFailure(f"{found} isn't a valid API address: expected a URL such as {DEFAULT_URL}", Code.USAGE)
    place = ApiConnection(found.rstrip("/"), given.get(API_KEY) or None)
    needs_service = noted is not None and found == noted
    if place.key is None and place.is_here:
        place = replace(place, key=read_note(home / "api-key"))
        needs_service |= not named and place.key is not None
    return replace(place, home=home) if needs_service else place


def _find_local_url(given: Mapping[str, str], noted: str | None) -> str | None:
    """Return the address of an API on this machine, from EBBING_PORT or recorded in the home; None if neither exists.

    The port 0 means any free port; only the recorded address contains it.
    """
    port = given.get(PORT) or "0"
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise CommandFailure(f"{PORT} must be a port from 0 to {PORT_MAX}, not {port!r}", Code.USAGE)
    by_port = f"http://127.0.0.1:{int(port)}" if int(port) else None
    if by_port and any(name.upper() == PORT for name in os.environ):
        return by_port
    return noted or by_port


def _read_client_settings() -> dict[str, str]:
    """Return the settings for calls of the API, from the environment or the `.env` file, as `app.settings` reads them.

    Names ignore case; the environment takes precedence. The key may be in a file.
    """
    wanted = {HOME, PORT, API_URL, API_KEY, API_KEY + secret_files.SUFFIX}
    found: dict[str, str] = {}
    for source in (_read_env_file(), os.environ):
        given = {name.upper(): value for name, value in source.items() if name.upper() in wanted}
        try:
            path = secret_files.find_file(given, API_KEY)
            if path is not None:
                given[API_KEY] = secret_files.read(path, API_KEY + secret_files.SUFFIX)
        except secret_files.UnusableSecret as error:
            raise CommandFailure(str(error), Code.USAGE) from None
        found |= given
    return found


def _read_env_file() -> Mapping[str, str]:
    if not Path(ENV_FILE).is_file():
        return {}
    from dotenv import dotenv_values

    return {name: value for name, value in dotenv_values(ENV_FILE).items() if value is not None}


def read_note(path: Path) -> str | None:
    """Return the content of a one-line file in the home; None if the file is missing or empty."""
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a text file"
        raise CommandFailure(f"{path} can't be read ({reason})", Code.NOT_ALLOWED) from None
