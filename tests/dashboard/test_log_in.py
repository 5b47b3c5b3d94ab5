"""Log-in and log-out: the limit on failures, addresses behind proxies, and sessions that end on the server."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi import Request

from app.clients.redis.connection import ENDED_SESSION_PREFIX, FAILED_LOGINS_PREFIX, RedisError
from app.dashboard import login, sessions
from app.dashboard.caller_address import caller_address
from app.dashboard.login_limit import TRIES_SECONDS, LoginFailures
from app.services.erasure import ledger
from app.services.jobs import schedule
from app.services.security import operator_log
from tests.api.caller import Api
from tests.dashboard.visitor import ORIGIN, Visitor, log_in, said
from tests.service import Service

Visit = Callable[..., Visitor]


def test_log_ins_that_fail_again_and_again_are_refused(api: Api, visit: Visit) -> None:
    answers = [log_in(api, "ebb_not a key").status_code for _ in range(12)]
    assert answers == [401] * 10 + [429] * 2
    assert log_in(api, api.tenant.key).status_code == 303, "a valid key is never locked out"


def test_a_restored_copy_says_before_its_replay_why_it_does_not_know_a_key(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_known_clear", -1)
    api.service.rows("UPDATE ebbing_keys.request_mark SET seq = seq + 1")
    known, unknown = api.tenant.key, f"{api.tenant.key[:-4]}aaaa"
    [found] = [each["detail"] for each in api.get("/readyz", key=None).json()["dependencies"] if not each["well"]]
    reason = found.partition(". ")[0]
    assert "older copy" in reason
    answer = log_in(api, unknown)
    assert (answer.status_code, reason in said(answer.text)) == (503, True), said(answer.text)
    assert "doesn't contain this key" in said(answer.text)
    assert reason in said(api.get("/ops/log-in", key=None).text)
    assert log_in(api, known).status_code == 303, "a key of the copy shows the overview, which names the next step"
    assert "ebbing_erasure_replay_due 1.0" in api.get("/metrics", key=None).text
    api.service.rows("UPDATE ebbing_keys.request_mark SET seq = seq - 1")
    assert log_in(api, unknown).status_code == 401
    assert "older copy" not in api.get("/ops/log-in", key=None).text


def test_failed_log_ins_at_once_are_counted_one_by_one(api: Api) -> None:
    with ThreadPoolExecutor(30) as pool:
        answers = Counter(pool.map(lambda _: log_in(api, "ebb_not a key").status_code, range(30)))
    assert answers == {401: 10, 429: 20}


def test_failed_log_ins_are_counted_by_the_networks_of_their_addresses(api: Api) -> None:
    api.service.configure(trusted_proxies="127.0.0.1")

    def log_in_from(address: str, key: str = "ebb_not a key") -> int:
        headers = {"origin": ORIGIN, "x-forwarded-for": address}
        return api.post("/ops/log-in", key=None, data={"key": key}, headers=headers).status_code

    answers = [log_in_from(f"2001:db8:0:1:{number:x}::{number:x}") for number in range(12)]
    assert answers == [401] * 10 + [429] * 2
    assert [log_in_from(address) for address in ("2001:db8:0:2::1", "203.0.113.9", "203.0.113.10")] == [401] * 3
    assert log_in_from("2001:db8:0:1::1", api.tenant.key) == 303, "a valid key is never locked out"


def test_all_processes_share_the_count_of_failed_log_ins(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    for _ in range(4):
        monkeypatch.setattr(login, "failures", LoginFailures("log-in"))  # that of another process
        answers += [log_in(api, "ebb_not a key").status_code for _ in range(3)]
    assert answers == [401] * 10 + [429] * 2
    assert log_in(api, api.tenant.key).status_code == 303, "a valid key is never locked out"
    [stored] = api.service.redis.scan_iter(f"{FAILED_LOGINS_PREFIX}*")
    assert 0 < api.service.redis.pttl(stored) <= TRIES_SECONDS * 1000
    assert b"127.0.0.1" not in stored
    api.service.redis.delete(stored)
    assert log_in(api, "ebb_not a key").status_code == 401


def test_each_process_counts_failed_log_ins_while_redis_is_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def away(digest: str, *_: object, **__: object) -> None:
        calls.append(digest)
        raise RedisError("away")

    monkeypatch.setattr("app.clients.redis.failed_logins.count", away)
    answers = [log_in(api, "ebb_not a key").status_code for _ in range(12)]
    assert answers == [401] * 10 + [429] * 2
    assert len(calls) < 10, "after a failure, Redis isn't called for a while"


@pytest.mark.parametrize(
    ("trusted", "peer", "lines", "expected"),
    [
        ("", "10.1.2.3", ["203.0.113.9"], "10.1.2.3"),
        ("10.0.0.0/8", "10.1.2.3", [], "10.1.2.3"),
        ("10.0.0.0/8", "10.1.2.3", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.0/8", "10.1.2.3", ["198.51.100.7, 203.0.113.9, 10.4.4.4"], "203.0.113.9"),
        ("10.0.0.0/8", "10.1.2.3", ["203.0.113.9, not an address"], "10.1.2.3"),
        ("10.0.0.0/8", "10.1.2.3", ["203.0.113.9, not an address, 10.4.4.4"], "10.4.4.4"),
        ("10.0.0.0/8", "10.1.2.3", ["203.0.113.9,"], "10.1.2.3"),
        ("192.168.0.0/16,2001:db8::/32", "10.1.2.3", ["203.0.113.9"], "10.1.2.3"),
        ("10.0.0.0/8", "10.1.2.3", ["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.0/8", "10.1.2.3", ["198.51.100.7", "203.0.113.9, 10.4.4.4", "10.5.5.5"], "203.0.113.9"),
        ("10.0.0.0/8", "10.1.2.3", ["203.0.113.9", "not an address"], "10.1.2.3"),
        ("10.0.0.0/8", "::ffff:10.1.2.3", ["203.0.113.9"], "203.0.113.9"),
        ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.0/8", "10.1.2.3", ["203.0.113.9, ::ffff:10.4.4.4"], "203.0.113.9"),
        ("10.0.0.0/8", "10.1.2.3", ["198.51.100.7, ::FFFF:203.0.113.9"], "203.0.113.9"),
        ("10.0.0.0/8", "10.1.2.3", ["203.0.113.9:4711, 10.4.4.4:80"], "203.0.113.9"),
        ("10.0.0.0/8", "10.1.2.3", ['"[2001:db8:0::1]:443"'], "2001:db8::1"),
        ("10.0.0.0/8", "10.1.2.3", ["[2001:db8::1]"], "2001:db8::1"),
        ("10.0.0.0/8", "10.1.2.3", ["[203.0.113.9"], "10.1.2.3"),
        ("10.0.0.0/8", "testclient", ["203.0.113.9"], "testclient"),
    ],
)
def test_a_forwarded_address_counts_only_from_a_trusted_proxy(
    service: Service, trusted: str, peer: str, lines: list[str], expected: str
) -> None:
    service.configure(trusted_proxies=trusted)
    headers = [(b"x-forwarded-for", line.encode()) for line in lines]
    request = Request({"type": "http", "client": (peer, 4711), "headers": headers})
    assert caller_address(request) == expected


def test_a_log_out_ends_the_session_on_the_server(api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor, other = visit(), visit()
    assert visitor.send("/log-out").status_code == 303
    assert visitor.get("/").headers["location"] == "/ops/log-in"
    monkeypatch.setattr(sessions, "_ended_here", OrderedDict())  # another process knows it from Redis
    assert visitor.get("/").headers["location"] == "/ops/log-in"
    assert other.get("/").status_code == 200
    stored = list(api.service.redis.scan_iter(f"{ENDED_SESSION_PREFIX}*"))
    assert len(stored) == 1
    assert 0 < api.service.redis.ttl(stored[0]) <= sessions.SESSION_SECONDS


def test_a_log_out_holds_in_this_process_while_redis_is_away(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise RedisError("away")

    visitor, other = visit(), visit()
    monkeypatch.setattr("app.clients.redis.ended_sessions.add", away)
    monkeypatch.setattr("app.clients.redis.ended_sessions.contains", away)
    assert visitor.send("/log-out").status_code == 303
    assert visitor.get("/").status_code == 303
    assert other.get("/").status_code == 200


def test_a_name_that_isnt_a_schedule_enters_no_log(api: Api, visit: Visit) -> None:
    visitor = visit()
    assert schedule.list_schedules(api.tenant.tenant_id)
    for name in ("orla.smith", "4111111111111111", "orla@example.com", "a%20b", "x" * 65):
        for act in ("run", "pause", "resume"):
            assert visitor.send(f"/schedule/{name}/{act}").status_code == 404
    assert not operator_log.list_actions(api.tenant.tenant_id)
    assert not api.service.rows("SELECT FROM audit WHERE action = 'operator_acted'")
