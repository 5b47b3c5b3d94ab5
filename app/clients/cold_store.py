"""Cold storage: objects in a local folder, or in S3, Google Cloud Storage or Azure by URL; only operators choose it.

Failures are told apart by what they mean for the work: the object is missing or ends too early, which is final; the
store is away or full, which passes; or it refuses us, which an operator must set right. No message holds a secret: the
library's own may hold addresses with keys in them, and isn't shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from app.errors import EbbingError, Misconfigured
from app.settings import settings

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

T = TypeVar("T")

SCHEMES: Final = ("file", "s3", "gs", "az")
CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "gs": "GOOGLE_SERVICE_ACCOUNT, the path of its key",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""What names them in the environment; there are other ways, by role or by the machine."""
CONNECT_SECONDS: Final = 5
RETRIES: Final = 2
PROBE_BYTES: Final = 64
_FULL: Final = ("no space left", "quota", "storage full", "insufficientstorage", "os error 28)", "os error 122)")
_STATUS: Final = re.compile(r"status code: (\d{3})\b")
_ADDRESS: Final = re.compile(r"https?://\S+")
"""In a message, but not of it: an object's name may hold any number, and a bucket's any word."""


class Failure(StrEnum):
    """What a failure means."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    AWAY = "away"
    FULL = "full"
    REFUSED = "refused"


class StoreFailed(EbbingError):
    """The store couldn't do it. The message says what was asked, and what that means."""

    status, type, title = 503, "cold-storage", "Cold storage can't be used"

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure

    @property
    def passing(self) -> bool:
        """Whether the same may succeed later as it is."""
        return self.failure in {Failure.AWAY, Failure.FULL}

    @property
    def lost(self) -> bool:
        """Whether it is the object that is at fault, so that others may be well."""
        return self.failure in {Failure.MISSING, Failure.TRUNCATED}


class Found(NamedTuple):
    """An object in a list."""

    path: str
    size: int
    modified_at: datetime


class ColdStore:
    """Objects by path. Each call ends within `COLD_TIMEOUT_SECONDS`, tries included, or raises `StoreFailed`."""

    def __init__(self, store: ObjectStore, name: str, folder: Path | None = None) -> None:
        """Take a store.

        Args:
            store: The library's.
            name: Where it is, without secrets.
            folder: Of a local one, so that what is written is on disk when `put` returns.
        """
        self.name = name
        self._store = store
        self._folder = folder

    def put(self, path: str, data: bytes) -> None:
        """Write an object, whole or not at all."""
        import obstore  # noqa: PLC0415 - heavy, and not needed to start

        with self._meaning("write"):
            obstore.put(self._store, path, data)
            if self._folder is not None:
                _flush(self._folder / path)

    def get(self, path: str) -> bytes:
        """All of an object."""
        import obstore  # noqa: PLC0415 - as above

        with self._meaning("read"):
            return bytes(obstore.get(self._store, path).bytes())

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """A range of an object; shorter where the object ends before it does."""
        import obstore  # noqa: PLC0415 - as above

        with self._meaning("read"):
            return bytes(obstore.get_range(self._store, path, start=start, length=length))

    def size(self, path: str) -> int | None:
        """How large an object is; None where there is none."""
        import obstore  # noqa: PLC0415 - as above

        try:
            with self._meaning("look at"):
                return int(obstore.head(self._store, path)["size"])
        except StoreFailed as failed:
            if failed.failure is Failure.MISSING:
                return None
            raise

    def delete(self, path: str) -> None:
        """Delete an object; one that isn't there is no failure."""
        import obstore  # noqa: PLC0415 - as above

        try:
            with self._meaning("delete"):
                obstore.delete(self._store, path)
        except StoreFailed as failed:
            if failed.failure is not Failure.MISSING:
                raise

    def under(self, folder: str) -> Iterator[Found]:
        """The objects in a folder, and in those inside of it."""
        import obstore  # noqa: PLC0415 - as above

        listing = iter(obstore.list(self._store, prefix=folder))
        while True:
            with self._meaning("list"):
                part = next(listing, None)
            if part is None:
                return
            for found in part:
                yield Found(found["path"], found["size"], found["last_modified"])

    def probe(self) -> None:
        """Write an object, read a range of it, list and delete it.

        Raises:
            StoreFailed: One of these didn't work, or something else came back.
        """
        path, data = f"probe/{uuid4()}", os.urandom(PROBE_BYTES)
        self.put(path, data)
        try:
            if self.get_range(path, 1, PROBE_BYTES) != data[1:] or path not in {
                each.path for each in self.under("probe")
            }:
                raise StoreFailed(Failure.REFUSED, "cold storage doesn't give back what was written to it")
        finally:
            self.delete(path)

    @contextmanager
    def _meaning(self, verb: str) -> Iterator[None]:
        """Errors of the library as what they mean."""
        from obstore.exceptions import BaseError  # noqa: PLC0415 - as above

        try:
            yield
        except (BaseError, OSError) as error:
            failure = _failure(error)
            raise StoreFailed(failure, f"cold storage can't {verb} an object: {failure}") from None


def _failure(error: Exception) -> Failure:
    from obstore import exceptions  # noqa: PLC0415 - as above

    if isinstance(error, exceptions.NotFoundError | FileNotFoundError):
        # A bucket that isn't there isn't an object that is lost.
        return Failure.REFUSED if "nosuchbucket" in str(error).lower() else Failure.MISSING
    if isinstance(
        error,
        exceptions.PermissionDeniedError
        | exceptions.UnauthenticatedError
        | exceptions.InvalidPathError
        | PermissionError,
    ):
        return Failure.REFUSED
    message = _ADDRESS.sub("", str(error).lower())
    found = _STATUS.search(message)
    status = int(found[1]) if found else None
    if status == HTTPStatus.INSUFFICIENT_STORAGE or any(sign in message for sign in _FULL):
        return Failure.FULL
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or "requested range was invalid" in message:
        return Failure.TRUNCATED
    return Failure.AWAY


def _flush(path: Path) -> None:
    """Let a file, and its name in its folder, survive a loss of power."""
    for each in (path, path.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@lru_cache(maxsize=1)
def cold_store() -> ColdStore:
    """The process's cold storage, as the settings name it; opened when it is first used.

    Raises:
        Misconfigured: `COLD_URL` isn't an address of a store that we know.
    """
    config = settings()
    url = config.cold_url or (config.home.resolve() / "cold").as_uri()
    parts = urlsplit(url)
    is_named = parts.path.startswith("/") and not parts.netloc if parts.scheme == "file" else bool(parts.hostname)
    if parts.scheme not in SCHEMES or not is_named:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise Misconfigured(f"EBBING_COLD_URL must begin with one of {known}, and name a folder or a bucket")
    if parts.scheme == "file":
        return _local(Path(unquote(parts.path)))
    return _remote(url, parts.scheme, f"{parts.scheme}://{parts.hostname}{parts.path}")


def _local(folder: Path) -> ColdStore:
    from obstore.store import LocalStore  # noqa: PLC0415 - as above

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"cold storage: {folder} can't be made: {error.strerror}; set EBBING_COLD_URL") from None
    return ColdStore(LocalStore(folder), str(folder), folder)


def _remote(url: str, scheme: str, name: str) -> ColdStore:
    """A store in the network. What names its credentials is what its own tools read from the environment."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - as above
    from obstore.store import from_url  # noqa: PLC0415 - as above

    config = settings()
    endpoint = config.cold_endpoint
    seconds = timedelta(seconds=config.cold_timeout_seconds)
    client: ClientConfig = {
        "timeout": seconds,
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        # Records are encrypted before they leave; plain HTTP is for stores on this machine or in its network.
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
    }
    options: dict[str, Any] = {} if endpoint is None else {"config": {"endpoint": endpoint}}
    retry = {"max_retries": RETRIES, "retry_timeout": seconds}
    make: Callable[..., ObjectStore] = from_url
    try:
        return ColdStore(make(url, client_options=client, retry_config=retry, **options), name)
    except (BaseError, ValueError) as error:
        detail = (
            f"EBBING_COLD_URL: {name} can't be used as {scheme} ({type(error).__name__}): "
            f"check it, and what names its credentials, such as {CREDENTIALS[scheme]}"
        )
        raise Misconfigured(detail) from None


os.register_at_fork(after_in_child=cold_store.cache_clear)
