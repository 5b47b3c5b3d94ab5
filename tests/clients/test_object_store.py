"""Cold storage in a local folder and on a real S3-compatible server: same behaviour, same failures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from app.clients.object_store import ColdStore, FailureKind, StoreFailed, cold_store
from app.embedded import free_ports
from app.errors import Misconfigured
from app.secret_files import CLOUD_SECRETS
from app.settings import settings
from tests.buckets import CREDENTIALS, bucket, s3

__all__ = ["s3"]


def opened(monkeypatch: pytest.MonkeyPatch, **values: object) -> ColdStore:
    for name, value in values.items():
        monkeypatch.setenv(f"EBBING_{name.upper()}", str(value))
    settings.cache_clear()
    cold_store.cache_clear()
    return cold_store()


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    settings.cache_clear()
    cold_store.cache_clear()


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ColdStore:
    if request.param == "file":
        return opened(monkeypatch, cold_url=(tmp_path / "a folder").as_uri())
    url = request.getfixturevalue("s3")
    return opened(monkeypatch, **bucket(url, monkeypatch))


def test_what_is_put_is_got_in_whole_or_in_part_and_can_be_deleted(store: ColdStore) -> None:
    data = os.urandom(200_000)
    store.put("segments/t/one", data)
    store.put("segments/t/one", data[::-1])
    store.put("segments/t/one", data)
    assert store.get("segments/t/one") == data
    assert store.get_range("segments/t/one", 1000, 50) == data[1000:1050]
    assert store.get_range("segments/t/one", 199_990, 50) == data[199_990:]
    assert store.size("segments/t/one") == len(data)
    store.put("segments/other", b"x")
    assert [(found.path, found.size) for found in store.list_folder("segments/t")] == [("segments/t/one", len(data))]
    for _ in range(2):
        store.delete("segments/t/one")
    assert store.size("segments/t/one") is None
    assert list(store.list_folder("segments/t")) == []


def test_what_isnt_there_is_missing_and_what_ends_too_early_is_truncated(store: ColdStore) -> None:
    for ask in (lambda: store.get("segments/none"), lambda: store.get_range("segments/none", 0, 5)):
        assert failure(ask) is FailureKind.MISSING
    store.put("short", b"12345")
    assert failure(lambda: store.get_range("short", 9, 5)) is FailureKind.TRUNCATED


def failure(ask: object) -> FailureKind:
    with pytest.raises(StoreFailed) as raised:
        ask()  # type: ignore[operator]
    assert raised.value.lost is not raised.value.is_transient
    return raised.value.failure


def test_a_probe_leaves_nothing(store: ColdStore) -> None:
    store.probe()
    assert list(store.list_folder("probe")) == []


def test_a_store_that_is_away_fails_in_time_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    [port] = free_ports(1)
    store = opened(
        monkeypatch, cold_url="s3://bucket", cold_endpoint=f"http://127.0.0.1:{port}", cold_timeout_seconds=1
    )
    with pytest.raises(StoreFailed, match="unavailable") as raised:
        store.put("one", b"x")
    assert raised.value.is_transient


@pytest.mark.parametrize(
    ("status", "meant"),
    [
        (HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, FailureKind.TRUNCATED),
        (HTTPStatus.INSUFFICIENT_STORAGE, FailureKind.FULL),
        (HTTPStatus.SERVICE_UNAVAILABLE, FailureKind.AWAY),
        (HTTPStatus.FORBIDDEN, FailureKind.REFUSED),
    ],
)
def test_an_answer_means_what_its_status_says_whatever_the_object_is_called(
    monkeypatch: pytest.MonkeyPatch, status: HTTPStatus, meant: FailureKind
) -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status)

        def log_message(self, *_: object) -> None:
            """Suppress logging."""

    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        store = opened(
            monkeypatch,
            cold_url="s3://quota-416-507",
            cold_endpoint=f"http://127.0.0.1:{server.server_port}",
            cold_timeout_seconds=5 if meant is FailureKind.AWAY else 120,  # transient failures are retried until then
        )
        with pytest.raises(StoreFailed) as raised:
            store.get_range("status code: 416 no space left 507", 9, 5)
        server.shutdown()
    assert raised.value.failure is meant


def test_a_bucket_that_isnt_there_is_no_lost_object(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    store = opened(monkeypatch, cold_url="s3://nobodys", cold_endpoint=s3)
    with pytest.raises(StoreFailed, match="refused"):
        store.get("one")


def test_a_full_disk_is_full(store: ColdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("obstore.put", full)
    with pytest.raises(StoreFailed, match="full"):
        store.put("one", b"x")


def test_a_local_folder_is_private_and_in_the_home_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = opened(monkeypatch, home=tmp_path)
    store.put("one", b"x")
    assert (tmp_path / "cold" / "one").read_bytes() == b"x"
    assert (tmp_path / "cold").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("url", ["http://example.com/x", "cold", "s3:///x", "memory:///", "file:relative"])
def test_other_addresses_are_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    with pytest.raises(Misconfigured, match="EBBING_COLD_URL"):
        opened(monkeypatch, cold_url=url)


def test_stores_of_google_and_azure_are_opened_or_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch, cold_url="gs://bucket/some").name == "gs://bucket/some"
    with pytest.raises(Misconfigured, match="AZURE_STORAGE_ACCOUNT_NAME"):
        opened(monkeypatch, cold_url="az://container/some")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "name")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    assert opened(monkeypatch, cold_url="az://container/some").name == "az://container/some"


FILES = {
    "AWS_ACCESS_KEY_ID": ("s3", "access_key_id", "id"),
    "AWS_SECRET_ACCESS_KEY": ("s3", "secret_access_key", "secret"),
    "AWS_SESSION_TOKEN": ("s3", "session_token", "token"),
    "AZURE_STORAGE_ACCOUNT_KEY": ("az", "account_key", "c2VjcmV0"),
    "AZURE_STORAGE_SAS_TOKEN": ("az", "sas_key", "sig=c2VjcmV0"),
    "AZURE_CLIENT_SECRET": ("az", "client_secret", "secret"),
}
"""Credentials that may be in files: their clouds, the library's options, and examples."""


def put_secrets(monkeypatch: pytest.MonkeyPatch, folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).write_text(f"{FILES[name][2]}\n")
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(f"{name}_FILE", str(folder / name))


@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_each_credential_can_be_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str) -> None:
    assert {name for names in CLOUD_SECRETS.values() for name in names} == FILES.keys()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "name")
    put_secrets(monkeypatch, tmp_path, FILES)
    options = dict(opened(monkeypatch, cold_url=f"{scheme}://place")._store.config)  # type: ignore[union-attr]
    expected = {option: secret for given, option, secret in FILES.values() if given == scheme}
    assert {name: value for name, value in options.items() if name in expected} == expected


def test_requests_carry_credentials_from_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_error(HTTPStatus.NOT_FOUND)

        def log_message(self, *_: object) -> None:
            """Suppress logging."""

    monkeypatch.setenv("AWS_REGION", "us-east-1")
    put_secrets(monkeypatch, tmp_path, CLOUD_SECRETS["s3"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")  # as Compose passes a variable without a value
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        store = opened(monkeypatch, cold_url="s3://bucket", cold_endpoint=f"http://127.0.0.1:{server.server_port}")
        assert failure(lambda: store.get("one")) is FailureKind.MISSING
        server.shutdown()
    assert "Credential=id/" in seen[0]["authorization"]
    assert seen[0]["x-amz-security-token"] == "token"


@pytest.mark.parametrize(
    ("secret", "value", "fault"),
    [
        (None, "", r"AWS_SECRET_ACCESS_KEY_FILE: .* can't be read \(No such file"),
        ("", "", "AWS_SECRET_ACCESS_KEY_FILE: .* is empty"),
        ("hidden", "elsewhere", "AWS_SECRET_ACCESS_KEY and AWS_SECRET_ACCESS_KEY_FILE are both set"),
    ],
)
def test_a_credential_whose_file_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: str | None, value: str, fault: str
) -> None:
    path = tmp_path / "secret"
    if secret is not None:
        path.write_text(secret)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY_FILE", str(path))
    with pytest.raises(Misconfigured, match=f"cold storage: {fault}") as raised:
        opened(monkeypatch, cold_url="s3://bucket")
    assert "hidden" not in str(raised.value)
    assert opened(monkeypatch, cold_url="gs://bucket").name == "gs://bucket", "another cloud reads other variables"


@pytest.mark.slow
def test_the_api_starts_without_what_cold_storage_needs() -> None:
    heavy = ("obstore", "zstandard", "cryptography.hazmat")
    program = f"import sys, app.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
