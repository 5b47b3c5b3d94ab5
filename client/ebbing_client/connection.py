"""Find the address of the service and the API key."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ebbing_client.errors import Misconfigured

URL_VARIABLE: Final = "EBBING_API_URL"
KEY_VARIABLE: Final = "EBBING_API_KEY"
KEY_FILE_VARIABLE: Final = "EBBING_API_KEY_FILE"
HOME_VARIABLE: Final = "EBBING_HOME"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True)
class Connection:
    """Address of a service and the API key, which no representation shows."""

    url: str
    key: str = field(repr=False)

    @property
    def is_local(self) -> bool:
        """True if the service runs on this machine."""
        return _is_local(self.url)


def find_connection(url: str | None = None, key: str | None = None) -> Connection:
    """Return the connection: the arguments, `EBBING_API_URL` and `EBBING_API_KEY`, or the notes of `ebbing run`.

    `EBBING_API_KEY_FILE` names a file with the key instead, without the newline at its end.
    `ebbing run` notes its address and key in its home, `.ebbing` or `EBBING_HOME`. The key of a home is only sent to
    a service on this machine.

    Raises:
        Misconfigured: The address is invalid, the address or the key is missing, the key is given twice, or its file
            can't be used.
    """
    home = Path(os.environ.get(HOME_VARIABLE) or ".ebbing")
    found = url or os.environ.get(URL_VARIABLE) or _read_note(home / "api-url")
    if not found:
        raise Misconfigured(
            f"no address: pass `url`, set {URL_VARIABLE}, or start a service with `ebbing run` (no {home / 'api-url'})"
        )
    if urlsplit(found).scheme not in {"http", "https"} or not urlsplit(found).hostname:
        raise Misconfigured("the address isn't a URL such as http://127.0.0.1:8000")
    secret = key or _read_key() or (_read_note(home / "api-key") if _is_local(found) else None)
    if not secret:
        raise Misconfigured(f"no API key: pass `key`, or set {KEY_VARIABLE} or {KEY_FILE_VARIABLE}")
    if not secret.isascii() or not secret.isprintable():
        raise Misconfigured("the API key contains characters that no key has")
    return Connection(found.rstrip("/"), secret)


def _is_local(url: str) -> bool:
    return (urlsplit(url).hostname or "") in LOOPBACK


def _read_key() -> str | None:
    """Return the key of the environment, or of the file that it names."""
    key, path = os.environ.get(KEY_VARIABLE), os.environ.get(KEY_FILE_VARIABLE)
    if not path:
        return key
    if key:
        raise Misconfigured(f"{KEY_VARIABLE} and {KEY_FILE_VARIABLE} are both set: remove one")
    try:
        key = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{KEY_FILE_VARIABLE}: {path} can't be read ({type(error).__name__})") from None
    if not key:
        raise Misconfigured(f"{KEY_FILE_VARIABLE}: {path} is empty")
    return key


def _read_note(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} can't be read ({type(error).__name__})") from None
