"""Read secrets from files: `…_FILE` names the file of a secret, as containers and systemd provide them.

This module imports only the standard library, because commands that only call the API read their key here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

SUFFIX: Final = "_FILE"
MAX_BYTES: Final = 64 * 1024
_OTHERS_MAY_READ: Final = 0o004
CLOUD_SECRETS: Final = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "az": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET"),
}
"""Variables of cloud credentials that may be in files, by scheme of the cold store's URL."""


class UnusableSecret(Exception):
    """A secret's file can't be used. The message names the variable, the file and the reason, never the content."""


def find_file(variables: Mapping[str, str | None], name: str) -> Path | None:
    """Return the file that `NAME_FILE` gives for a secret; None if the variable is missing or empty.

    Args:
        variables: Environment variables, or the content of a `.env` file, by name, in the same letter case as `name`.
        name: Name of the secret's own variable.

    Raises:
        UnusableSecret: The variable itself has a value, too.
    """
    suffix = SUFFIX if name.isupper() else SUFFIX.lower()
    given = variables.get(name + suffix)
    if not given:
        return None
    if variables.get(name):
        shown = name.upper()
        raise UnusableSecret(f"{shown} and {shown}{SUFFIX} are both set: remove one")
    return Path(given)


def read(path: Path, name: str) -> str:
    """Return the content of a secret's file without the newline at its end.

    Args:
        path: The file.
        name: Name of the variable that names the file, for errors.

    Raises:
        UnusableSecret: The file can't be read, is empty, too large or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
        raise UnusableSecret(f"{name}: {path} can't be read ({reason})") from None
    except UnicodeDecodeError:
        raise UnusableSecret(f"{name}: {path} isn't UTF-8") from None
    if len(content) > MAX_BYTES:
        raise UnusableSecret(f"{name}: {path} has more than {MAX_BYTES} bytes")
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise UnusableSecret(f"{name}: {path} is empty")
    return secret


def list_cloud_files() -> Iterator[tuple[str, Path]]:
    """Yield the variables that name the file of a cloud credential, with the files."""
    for variables in CLOUD_SECRETS.values():
        for variable in variables:
            if path := os.environ.get(variable + SUFFIX):
                yield variable + SUFFIX, Path(path)


def is_exposed(path: Path) -> bool:
    """Return whether every user of this machine may read a file."""
    try:
        return bool(path.stat().st_mode & _OTHERS_MAY_READ)
    except OSError:
        return False
