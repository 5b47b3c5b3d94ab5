"""Outbound requests: allowed hosts, addresses, redirects, time limits and size limits."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpcore2
import httpx2
import pytest

from app.clients.llm import egress
from app.clients.llm.egress import Allowed, AnswerRefused, HostRefused
from tests.provider.server import FakeProvider, provider
from tests.waiting import PATIENCE_SECONDS

LOCAL = frozenset({"127.0.0.1"})
BODY = {"model": "m", "input": ["hello"], "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeProvider]:
    with provider() as opened:
        yield opened


@pytest.fixture
def fake(server: FakeProvider) -> Iterator[FakeProvider]:
    yield server
    server.control.set()


def client(
    hosts: frozenset[str] = LOCAL,
    *,
    private: bool = False,
    seconds: float = PATIENCE_SECONDS,
    size: int = 1_000_000,
    leads_to: str = "",
) -> httpx2.Client:
    def resolve(_host: str, _port: int) -> Sequence[str]:
        return [leads_to]

    return egress.client(
        Allowed(hosts, private),
        timeout_seconds=seconds,
        answer_max_bytes=size,
        connections=4,
        resolve=resolve if leads_to else None,
    )


def post(http: httpx2.Client, url: str) -> httpx2.Response:
    with http:
        return http.post(f"{url}/embeddings", json=BODY)


def test_an_allowed_host_answers(fake: FakeProvider) -> None:
    assert post(client(), fake.url).status_code == 200


def test_another_host_is_not_even_resolved(fake: FakeProvider) -> None:
    with pytest.raises(HostRefused, match=r"localhost isn't one of the allowed hosts: 127\.0\.0\.1"):
        post(client(), fake.url.replace("127.0.0.1", "localhost"))
    assert post(client(frozenset({"localhost"})), fake.url.replace("127.0.0.1", "localhost")).status_code == 200


def test_a_redirect_is_not_followed(fake: FakeProvider) -> None:
    fake.control.set(mode="redirect", times=1)
    before = fake.calls
    assert post(client(frozenset({"127.0.0.1", "localhost"})), fake.url).status_code == 307
    assert fake.calls == before + 1


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
        "0.0.0.0",  # noqa: S104 - must be refused
        "::",
        "224.0.0.1",
    ],
)
def test_metadata_and_link_local_addresses_are_never_asked(address: str) -> None:
    allowed = Allowed(frozenset({"models.example", address}), private=True)
    for host in ("models.example", address):
        with pytest.raises(HostRefused, match="metadata address"):
            allowed.check_address(host, address, plain=False)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.5", "192.168.1.1", "172.16.0.1", "::1", "::ffff:127.0.0.1", "fd12::1", "100.64.0.1"],
)
def test_a_name_leads_to_a_private_address_only_where_that_is_allowed(address: str) -> None:
    names = frozenset({"models.example", "2130706433", "0x7f.1", "localhost.example"})
    for name in names:
        with pytest.raises(HostRefused, match="a private address"):
            Allowed(names).check_address(name, address, plain=False)
    Allowed(names, private=True).check_address("models.example", address, plain=True)


def test_an_address_that_is_itself_allowed_may_be_private() -> None:
    for host in ("10.0.0.5", "[::1]", "localhost"):
        Allowed(frozenset({host})).check_address(host, "10.0.0.5", plain=True)


def test_memories_cross_the_internet_encrypted_only() -> None:
    allowed = Allowed(frozenset({"models.example"}))
    allowed.check_address("models.example", "93.184.215.14", plain=False)
    with pytest.raises(HostRefused, match="plain HTTP"):
        allowed.check_address("models.example", "93.184.215.14", plain=True)


def test_a_name_that_changes_its_mind_is_refused_at_the_connection(fake: FakeProvider) -> None:
    http = client(frozenset({"models.example"}), leads_to="127.0.0.1")
    with pytest.raises(HostRefused, match="a private address"):
        post(http, f"http://models.example:{fake.port}/v1")


def test_the_connection_goes_to_the_address_that_was_checked(fake: FakeProvider) -> None:
    http = client(frozenset({"models.example"}), private=True, leads_to="127.0.0.1")
    assert post(http, f"http://models.example:{fake.port}/v1").status_code == 200
    assert fake.control.headers[-1]["host"] == f"models.example:{fake.port}"


def test_a_name_without_address_is_unreachable() -> None:
    with pytest.raises(httpx2.ConnectError):
        post(client(frozenset({"no.such.invalid"})), "https://no.such.invalid/v1")


@pytest.mark.parametrize("mode", ["hang", "trickle", "trickle_head"])
def test_the_whole_exchange_fits_in_its_time(fake: FakeProvider, mode: str) -> None:
    fake.control.set(mode=mode)
    started = time.monotonic()
    with pytest.raises(httpx2.ReadTimeout):
        post(client(seconds=0.4), fake.url)
    assert time.monotonic() - started > 0.3


def test_a_late_answer_is_too_late_for_one_request_alone(fake: FakeProvider) -> None:
    with client(seconds=PATIENCE_SECONDS) as http:
        fake.control.set(mode="hang")
        with pytest.raises(httpx2.ReadTimeout):
            http.post(f"{fake.url}/embeddings", json=BODY, timeout=0.3)
        fake.control.set()
        assert http.post(f"{fake.url}/embeddings", json=BODY).status_code == 200


def test_connections_are_kept_and_shared(fake: FakeProvider) -> None:
    with client() as http:
        before = fake.control.connections
        for _ in range(5):
            http.post(f"{fake.url}/embeddings", json=BODY)
        assert fake.control.connections == before + 1
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _: http.post(f"{fake.url}/embeddings", json=BODY), range(40)))
        assert {answer.status_code for answer in answers} == {200}
        assert fake.control.connections <= before + 5


def test_a_large_answer_is_refused(fake: FakeProvider) -> None:
    fake.control.set(mode="long")
    with pytest.raises(AnswerRefused, match="too large"):
        post(client(size=10_000), fake.url)


def test_a_path_can_have_a_lower_limit(fake: FakeProvider) -> None:
    def limited(path: str) -> httpx2.Client:
        return egress.client(
            Allowed(LOCAL),
            timeout_seconds=PATIENCE_SECONDS,
            answer_max_bytes=10**8,
            less_by_path={path: 10_000},
            connections=1,
        )

    fake.control.set(mode="long")
    assert post(limited("/chat/completions"), fake.url).status_code == 200
    with pytest.raises(AnswerRefused, match="too large"):
        post(limited("/embeddings"), fake.url)


def test_an_answer_that_grows_while_it_comes_is_refused_too() -> None:
    transport = client(size=100)._transport
    assert isinstance(transport, egress._Transport)
    parts = transport.parts([b"x" * 60, b"x" * 60], time.monotonic() + PATIENCE_SECONDS, 100)
    assert next(parts) == b"x" * 60
    with pytest.raises(AnswerRefused, match="too large"):
        next(parts)


def test_a_compressed_answer_is_refused(fake: FakeProvider) -> None:
    fake.control.set(mode="compressed")
    with pytest.raises(AnswerRefused, match="compressed"):
        post(client(), fake.url)
    assert fake.control.headers[-1]["accept-encoding"] == "identity"


def test_broken_connections_are_errors_of_the_transport(fake: FakeProvider) -> None:
    fake.control.set(mode="reset")
    with pytest.raises(httpx2.TransportError):
        post(client(), fake.url)


def test_an_encrypted_connection_keeps_the_time_too() -> None:
    deadline = egress._Deadline()
    deadline.at = 10.0
    now = [0.0]
    stream = egress._Stream(httpcore2.MockStream([b"a", b"b"]), deadline, lambda: now[0])
    encrypted = stream.start_tls(ssl.create_default_context(), "models.example", 5)
    assert encrypted.read(1, 5) == b"a"
    now[0] = 10.0
    with pytest.raises(httpcore2.ReadTimeout):
        encrypted.read(1, 5)
    with pytest.raises(httpcore2.ReadTimeout):
        encrypted.write(b"x", 5)
