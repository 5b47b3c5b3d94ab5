"""The client's retries: when, after which wait, and when it gives up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.cli.core.client import Api, ApiRefusal, pages
from app.cli.core.connection import ApiConnection
from app.cli.core.errors import Code, CommandFailure
from tests.cli.stub import Reply, Request, Stub, problem

FULL = Reply(429, problem(429, "backlog-full"), {"Retry-After": "2"})
AWAY = Reply(503, problem(503, "unavailable"))
ACCEPTED = Reply(202, {"ids": ["a"], "request_id": "r"})

Client = Callable[..., Api]


@pytest.fixture
def client(stub: Stub, pauses: list[float]) -> Client:
    """Factory for clients of the stub that record waits instead of performing them."""

    def make(patience_seconds: float = 0) -> Api:
        return Api(ApiConnection(stub.url, "k"), patience_seconds=patience_seconds)

    return make


def test_it_waits_as_long_as_the_api_says(stub: Stub, client: Client, pauses: list[float]) -> None:
    stub.replies["POST /v1/memories"] = [FULL, FULL, ACCEPTED]
    with client(60) as api:
        assert api.add(b"{}\n", "key").body["ids"] == ["a"]
    assert pauses == [2, 2]
    assert {asked.headers["idempotency-key"] for asked in stub.asked} == {"key"}


def test_without_a_word_from_the_api_the_pauses_grow_to_a_limit(
    stub: Stub, client: Client, pauses: list[float]
) -> None:
    stub.replies["GET /v1/stats"] = [AWAY] * 8 + [Reply(200, {})]
    with client(1000) as api:
        api.stats()
    bounds = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(pauses, bounds, strict=True))


def test_a_broken_connection_is_tried_again_where_that_is_safe(stub: Stub, client: Client) -> None:
    stub.replies["POST /v1/memories"] = [Reply(None), ACCEPTED]
    stub.replies["POST /v1/admin/tenants"] = Reply(None)
    with client(60) as api:
        assert api.add(b"{}\n", "key").status == 202
        with pytest.raises(CommandFailure, match="can't be reached") as raised:
            api.call("POST", "/v1/admin/tenants", json={"name": "acme"})
    assert raised.value.code == Code.UNREACHABLE
    assert [asked.path for asked in stub.asked] == ["/v1/memories"] * 2 + ["/v1/admin/tenants"]


@pytest.mark.parametrize(
    ("reply", "tries"),
    [
        (FULL, 2),
        (Reply(503, problem(503, "unavailable"), {"Retry-After": "1"}), 2),
        (AWAY, 1),  # without an invitation to repeat
        (Reply(503, {"error": "maintenance"}, {"Retry-After": "1"}), 1),  # from a proxy
        (Reply(502, {}, {"Retry-After": "1"}), 1),
        (Reply(504, {}), 1),
    ],
)
def test_an_unsafe_call_is_repeated_only_if_the_api_invites_it(
    stub: Stub, client: Client, reply: Reply, tries: int
) -> None:
    stub.replies["POST /v1/admin/tenants"] = [reply, Reply(201, {"name": "acme"})]
    with client(60) as api:
        if tries == 1:
            with pytest.raises(ApiRefusal, match=str(reply.status)):
                api.call("POST", "/v1/admin/tenants", json={"name": "acme"})
        else:
            assert api.call("POST", "/v1/admin/tenants", json={"name": "acme"}).status == 201
    assert len(stub.asked) == tries


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_safe_call_is_repeated_after_every_passing_status(stub: Stub, client: Client, status: int) -> None:
    stub.replies["POST /v1/memories"] = [Reply(status, {}), ACCEPTED]
    with client(60) as api:
        assert api.add(b"{}\n", "key").status == 202
    assert len(stub.asked) == 2


def test_patience_ends(stub: Stub, client: Client) -> None:
    stub.replies["GET /v1/stats"] = Reply(
        503, problem(503, "unavailable", detail="Redis is away"), {"Retry-After": "9"}
    )
    with client(5) as api, pytest.raises(ApiRefusal, match="Redis is away") as raised:
        api.stats()
    assert raised.value.code == Code.UNREACHABLE
    assert len(stub.asked) == 1  # nine seconds exceed its budget


def test_what_another_try_cannot_help_is_not_tried_again(stub: Stub, client: Client) -> None:
    wrong = {"field": "query", "message": "is too long", "value": 9000, "limit": 8192}
    stub.replies["POST /v1/search"] = Reply(422, problem(422, "invalid", wrong))
    with client(60) as api, pytest.raises(ApiRefusal, match=r"query is too long \(value 9000, limit 8192\)"):
        api.search("x")
    assert len(stub.asked) == 1


def test_a_list_is_read_to_its_end(stub: Stub, client: Client) -> None:
    def page(asked: Request) -> Reply:
        if "cursor=c1" in asked.path:
            return Reply(200, {"tenants": [{"name": "b"}], "next_cursor": None})
        return Reply(200, {"tenants": [{"name": "a"}], "next_cursor": "c1"})

    stub.replies["GET /v1/admin/tenants"] = page
    with client() as api:
        assert [row["name"] for row in pages(api, "/v1/admin/tenants", "tenants")] == ["a", "b"]


def test_a_refusal_names_the_id_that_the_log_of_the_service_has(stub: Stub, client: Client) -> None:
    earlier_version = {name: value for name, value in problem(404, "not-found").items() if name != "call_id"}
    for body, call_id in (problem(404, "not-found"), "r1"), (earlier_version, "of-a-proxy"):
        stub.replies["GET /v1/stats"] = Reply(404, body)
        with client() as api, pytest.raises(ApiRefusal, match=rf"\(call ID {call_id}\)"):
            api.stats()
