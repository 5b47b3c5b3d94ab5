"""Touches: which uses callers may report, and what is put into the stream."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.ingest import uses
from app.domain.ingest.uses import Touches, Use
from app.errors import Invalid, Unreadable

TENANT = UUID(int=7)
ID = UUID("01920000-0000-7000-8000-000000000000")


def read(**given: Any) -> Touches:
    return uses.parse_observation(json.dumps(given).encode(), TENANT)


def test_an_observation_names_memories_alone_or_with_their_moment() -> None:
    at = "2026-11-20T18:00:00+01:00"
    found = read(memories=[str(ID), {"id": str(ID)}, {"id": str(ID), "used_at": at}])
    assert found.uses == [Use(ID), Use(ID), Use(ID, datetime.fromisoformat(at).timestamp())]
    assert (found.boost, found.context_tags) == (False, ())
    more = read(memories=[str(ID)], boost=True, context_tags=["a"], session="s")
    assert (more.boost, more.context_tags) == (True, ("a",))
    assert more.session != found.session == uses.session_digest(TENANT, None)


@pytest.mark.parametrize(
    ("given", "field", "limit"),
    [
        ({"memories": []}, "memories", 1),
        ({"memories": [str(ID)] * 1001}, "memories", 1000),
        ({"memories": ["x"]}, "memories[0]", None),
        ({"memories": [{"used_at": None}]}, "memories[0].id", None),
        ({"memories": [{"id": str(ID), "used_at": "2026-11-20T18:00:00"}]}, "memories[0].used_at", None),
        ({"memories": [str(ID), {"id": str(ID), "used_at": "0001-01-01T00:00:00+14:00"}]}, "memories[1].used_at", None),
        ({"memories": [str(ID)], "context_tags": ["x"] * 65}, "context_tags", 64),
        ({"memories": [str(ID)], "context_tags": [""]}, "context_tags[0]", 1),
        ({"memories": [str(ID)], "session": "x" * 513}, "session", 512),
        ({"memories": [str(ID)], "tags": []}, "tags", None),
        ({}, "ids", None),
        ({"memories": [str(ID)], "ids": [str(ID)]}, "memories", None),
        ({"ids": [str(ID)] * 1001}, "ids", 1000),
        ({"ids": [{"id": str(ID)}]}, "ids[0]", None),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], field: str, limit: int | None) -> None:
    with pytest.raises(Invalid) as refused:
        read(**given)
    [error] = refused.value.errors
    assert (error.field, error.limit) == (field, limit)


def test_one_touch_needs_no_body() -> None:
    plain = uses.parse_touch(b"", TENANT, ID)
    assert plain == uses.parse_touch(b"{}", TENANT, ID)
    assert plain.uses == [Use(ID)]
    at = uses.parse_touch(b'{"used_at": "2026-11-20T18:00:00Z", "boost": true}', TENANT, ID)
    assert (at.uses[0].at, at.boost) == (1_795_197_600, True)
    with pytest.raises(Invalid, match="field"):
        uses.parse_touch(b'{"used_at": "9999-12-31T23:59:59-14:00"}', TENANT, ID)


def test_what_travels_comes_back_and_holds_no_session_name() -> None:
    sent = Touches(
        [Use(uuid4(), 1.5, 3, -0.25, lexical=True), Use(ID)], uses.session_digest(TENANT, "Ann"), True, ("t",)
    )
    body = uses.encode(sent)
    assert uses.decode(body) == sent
    assert b"Ann" not in body
    assert len(uses.encode(Touches([Use(ID)] * 100, 0))) < 100 * 50


@pytest.mark.parametrize("body", [b"", b"[]", b'{"uses":[{"id":"x"}],"session":0}', b'{"uses":[],"session":9e99}'])
def test_what_the_door_never_let_in_is_refused(body: bytes) -> None:
    with pytest.raises((Invalid, Unreadable)):
        uses.decode(body)


def test_a_session_is_told_by_a_digest_of_its_own_tenant() -> None:
    digests = {uses.session_digest(tenant, name) for tenant in (TENANT, ID) for name in ("a", "b", None)}
    assert len(digests) == 6
    assert all(-(2**63) <= digest < 2**63 for digest in digests)
