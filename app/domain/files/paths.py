"""Check paths of the memory tool: absolute, below `/memories`, and with only one interpretation."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NoReturn
from urllib.parse import unquote

from app.domain.ingest.memory import NAME_MAX_CHARACTERS
from app.errors import FieldError, Invalid

ROOT: Final = "/memories"
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\\u2028\u2029\ud800-\udfff]")
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")


def read_path(given: str, field: str = "path") -> str:
    """Return the path without repeated and trailing slashes.

    A path is refused if it could be interpreted as another path: if it contains `..` or `.`, percent-encoded characters
    (also encoded twice), backslashes, control characters, or characters that Unicode's compatibility form turns into
    dots or slashes. There are no links between files, so no other path can lead elsewhere.

    Raises:
        Invalid: The path is outside of `/memories`, ambiguous, or too long.
    """
    if len(given) > NAME_MAX_CHARACTERS:
        raise Invalid(errors=[FieldError(field, "is too long in characters", len(given), NAME_MAX_CHARACTERS)])
    if _UNSAFE.search(given):
        _refuse(field, "contains a control character or a backslash")
    if _ENCODED.search(given):
        _refuse(field, "contains percent-encoded characters: write them as they are")
    plain = unicodedata.normalize("NFKC", given)
    if plain.count("/") != given.count("/") or plain.count(".") != given.count("."):
        _refuse(field, "contains characters that look like dots or slashes")
    if unquote(plain) != plain:
        _refuse(field, "contains percent-encoded characters: write them as they are")
    segments = [segment for segment in given.split("/") if segment]
    if {segment.strip() for segment in segments} & {".", "..", ""}:
        _refuse(field, "must not contain `.` or `..`")
    if not given.startswith("/") or segments[:1] != [ROOT[1:]]:
        _refuse(field, f"must start with {ROOT}")
    return "/" + "/".join(segments)


def _refuse(field: str, message: str) -> NoReturn:
    raise Invalid(errors=[FieldError(field, message)])


def list_parents(path: str) -> list[str]:
    """Return the directories that contain a path, below the root and from the outermost."""
    segments = path.split("/")
    return ["/".join(segments[:count]) for count in range(3, len(segments))]
