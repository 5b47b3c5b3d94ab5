"""Store objects for cold storage in a local folder, S3, Google Cloud Storage or Azure, as configured by the operator.

Failures are classified by their consequence: the object is missing or truncated (permanent), the store is unavailable
or full (transient), or access is refused (an operator must act). The library's messages are never shown because they
may contain URLs with keys.
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
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from app import secret_files
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
"""Environment variables with the credentials; roles and machine identities work too. Secrets may be in files."""
CONNECT_SECONDS: Final = 5
RETRIES: Final = 2
PROBE_BYTES: Final = 64
_FULL: Final = ("no space left", "quota", "storage full", "insufficientstorage", "os error 28)", "os error 122)")
_STATUS: Final = re.compile(r"status code: (\d{3})\b")
_ADDRESS: Final = re.compile(r"https?://\S+")
"""URLs are removed before matching a message, since object names may contain any number and bucket names any word."""


class FailureKind(StrEnum):
    """Classes of failures."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    AWAY = "away"
    FULL = "full"
    REFUSED = "refused"


class StoreFailed(EbbingError):
    """A store operation failed. The message names the operation and the class of the failure."""

    status, type, title = 503, "cold-storage", "Cold storage can't be used"

    def __init__(self, failure: FailureKind, message: str) -> None:
        super().__init__(message)
        self.failure = failure

    @property
    def is_transient(self) -> bool:
        """True if the same operation may succeed later."""
        return self.failure in {FailureKind.AWAY, FailureKind.FULL}

    @property
    def lost(self) -> bool:
        """True if only this object is affected and others may be intact."""
        return self.failure in {FailureKind.MISSING, FailureKind.TRUNCATED}


class ObjectInfo(NamedTuple):
    """An object in a listing."""

    path: str
    size: int
    modified_at: datetime


class ColdStore:
    """Objects by path. Each call, with retries, ends within `EBBING_COLD_TIMEOUT_SECONDS` or raises `StoreFailed`."""

    def __init__(self, store: ObjectStore, name: str, folder: Path | None = None) -> None:
        """Wrap a store.

        Args:
            store: The library's store.
            name: Its location, without secrets.
            folder: Path of a local store, so that `put` can flush files to disk.
        """
        import obstore  # noqa: PLC0415 - heavy and not needed at startup

        self.name = name
        self._library = obstore
        self._store = store
        self._folder = folder

    def put(self, path: str, data: bytes) -> None:
        """Write an object atomically."""
        with self._translate_errors("write"):
            self._library.put(self._store, path, data)
            if self._folder is not None:
                _flush(self._folder / path)

    def get(self, path: str) -> bytes:
        """Return an object's content."""
        with self._translate_errors("read"):
            return bytes(self._library.get(self._store, path).bytes())

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return a range of an object; shorter if the object ends within the range."""
        with self._translate_errors("read"):
            return bytes(self._library.get_range(self._store, path, start=start, length=length))

    def size(self, path: str) -> int | None:
        """Return an object's size; None if it doesn't exist."""
        try:
            with self._translate_errors("read the size of"):
                return int(self._library.head(self._store, path)["size"])
        except StoreFailed as failed:
            if failed.failure is FailureKind.MISSING:
                return None
            raise

    def delete(self, path: str) -> None:
        """Delete an object; a missing object is not an error."""
        try:
            with self._translate_errors("delete"):
                self._library.delete(self._store, path)
        except StoreFailed as failed:
            if failed.failure is not FailureKind.MISSING:
                raise

    def list_folder(self, folder: str) -> Iterator[ObjectInfo]:
        """List the objects in a folder, recursively."""
        listing = iter(self._library.list(self._store, prefix=folder))
        while True:
            with self._translate_errors("list"):
                part = next(listing, None)
            if part is None:
                return
            for found in part:
                yield ObjectInfo(found["path"], found["size"], found["last_modified"])

    def probe(self) -> None:
        """Test the store: write an object, read a range of it, list it and delete it.

        Raises:
            StoreFailed: An operation failed or returned different data.
        """
        path, data = f"probe/{uuid4()}", os.urandom(PROBE_BYTES)
        self.put(path, data)
        try:
            if self.get_range(path, 1, PROBE_BYTES) != data[1:] or path not in {
                each.path for each in self.list_folder("probe")
            }:
                raise StoreFailed(FailureKind.REFUSED, "cold storage returned different data than was written")
        finally:
            self.delete(path)

    @contextmanager
    def _translate_errors(self, verb: str) -> Iterator[None]:
        """Translate the library's errors into classified failures."""
        from obstore.exceptions import BaseError  # noqa: PLC0415 - as above

        try:
            yield
        except (BaseError, OSError) as error:
            failure = _failure(error)
            state = "unavailable" if failure is FailureKind.AWAY else failure
            raise StoreFailed(failure, f"cold storage can't {verb} an object: {state}") from None


def _failure(error: Exception) -> FailureKind:
    from obstore import exceptions  # noqa: PLC0415 - as above

    if isinstance(error, exceptions.NotFoundError | FileNotFoundError):
        # A missing bucket doesn't mean that the object is lost.
        return FailureKind.REFUSED if "nosuchbucket" in str(error).lower() else FailureKind.MISSING
    if isinstance(
        error,
        exceptions.PermissionDeniedError
        | exceptions.UnauthenticatedError
        | exceptions.InvalidPathError
        | PermissionError,
    ):
        return FailureKind.REFUSED
    message = _ADDRESS.sub("", str(error).lower())
    found = _STATUS.search(message)
    status = int(found[1]) if found else None
    if status == HTTPStatus.INSUFFICIENT_STORAGE or any(sign in message for sign in _FULL):
        return FailureKind.FULL
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or "requested range was invalid" in message:
        return FailureKind.TRUNCATED
    return FailureKind.AWAY


def _flush(path: Path) -> None:
    """Sync a file and its directory entry, so that they survive a power failure."""
    for each in (path, path.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@lru_cache(maxsize=1)
def cold_store() -> ColdStore:
    """Return the process's cold storage according to the settings; opened on first use.

    Raises:
        Misconfigured: `EBBING_COLD_URL` isn't a supported address, or the store can't be opened.
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
    """Open a remote store; its credentials come from the environment variables of its vendor's tools, or from files."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - as above
    from obstore.store import from_url  # noqa: PLC0415 - as above

    config = settings()
    endpoint = config.cold_endpoint
    seconds = timedelta(seconds=config.cold_timeout_seconds)
    client: ClientConfig = {
        "timeout": seconds,
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        # Records are encrypted before upload; plain HTTP is only for stores on this machine or its network.
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
    }
    options = _read_secrets(scheme)
    if endpoint is not None:
        options["endpoint"] = endpoint
    retry = {"max_retries": RETRIES, "retry_timeout": seconds}
    make: Callable[..., ObjectStore] = from_url
    try:
        return ColdStore(make(url, client_options=client, retry_config=retry, config=options), name)
    except (BaseError, ValueError) as error:
        detail = (
            f"EBBING_COLD_URL: {name} can't be used as {scheme} ({type(error).__name__}): "
            f"check the URL, and the variables with the credentials, such as {CREDENTIALS[scheme]}"
        )
        raise Misconfigured(detail) from None


def _read_secrets(scheme: str) -> dict[str, str]:
    """Return the credentials that are in files, as options of the library, which have its variables' names.

    Raises:
        Misconfigured: A credential is given twice, or its file can't be used.
    """
    try:
        return {
            variable.lower(): secret_files.read(path, variable + secret_files.SUFFIX)
            for variable in secret_files.CLOUD_SECRETS.get(scheme, ())
            if (path := secret_files.find_file(os.environ, variable)) is not None
        }
    except secret_files.UnusableSecret as error:
        raise Misconfigured(f"cold storage: {error}") from None


os.register_at_fork(after_in_child=cold_store.cache_clear)
