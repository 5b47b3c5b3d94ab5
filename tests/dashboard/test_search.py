"""The search page explains its results and leaves no trace in the stores."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from app.clients.redis.connection import LATEST_TURN, PROBE
from app.dashboard.pages.search import break_down_score, build_request
from app.domain.policy.policy import Policy
from app.services.search import search
from tests.api.caller import Api
from tests.dashboard.odd import EVIL, RICH, assert_inert
from tests.dashboard.visitor import Visitor, said
from tests.service import Service
from tests.variants import variants

Visit = Callable[..., Visitor]


def asked(visitor: Visitor, **form: str) -> str:
    answer = visitor.send("/search", {"query": "tea", "limit": "10", "tier_active": "on"} | form)
    assert answer.status_code == 200, answer.text
    return answer.text


def everything(service: Service) -> dict[str, Any]:
    """Snapshot all rows of all tables and everything in Redis, except two keys that expire."""
    tables = [name for (name,) in service.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    rows = {
        name: service.rows(f"SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {name} AS t")  # noqa: S608 - catalogue names
        for name in tables
    }
    passing = {PROBE.encode(), LATEST_TURN.encode()}  # the second one expires by itself after a few seconds
    held = {key: service.redis.dump(key) for key in service.redis.scan_iter() if key not in passing}
    return rows | {str(key): value for key, value in held.items()}


def test_what_it_finds_is_shown_with_the_parts_of_its_score(api: Api, visit: Visit) -> None:
    ids = api.remember("Ann likes her tea green", {"text": "Bob drinks tea", "subject": "bob"}, "the sun rises")
    html = asked(visit("read"), query="what tea does Ann like?")
    assert f"/ops/memories/{ids[0]}" in html
    assert html.index(ids[0]) < html.index(ids[1])
    shown = said(html)
    for word in ("words", "meaning", "strength", "importance", "Matching words (rarity): "):
        assert word in shown
    assert 'class="meter"' in html


def test_every_number_of_a_result_is_explained(api: Api, visit: Visit) -> None:
    api.remember({"text": "Ann likes her tea green", "speaker": "Ann", "thread": "a"}, {"text": "yes", "thread": "a"})
    html = asked(visit("read"), query="what tea does Ann like?")
    legend = re.findall(r"<dt>(.*?)</dt>", html)
    for number in ("score", "strength", "Why", "Matching words", "Strength values"):
        assert number in legend
        assert number in said(html.partition("<article")[2]), "the legend explains what the results show"
    names = re.findall(r"<li><span>(.*?)</span>", html)
    assert "similar words" in names
    assert not [name for name in names if "_" in name], "parts have names for people"
    assert "What the numbers mean" not in asked(visit("read"), query="zebra", tier_active="", tier_archived="on")


def test_the_shares_are_all_of_the_score(api: Api) -> None:
    api.remember({"text": "Ann likes her tea green", "speaker": "Ann", "thread": "a"}, "tea is green", "no more of it")
    for mode in ("", "lexical", "dense"):
        results = search.search(
            api.tenant.tenant_id, build_request({"query": "Ann's tea", "tier_active": "1", "mode": mode})
        )
        assert results
        for result in results:
            found = break_down_score(result)
            assert sum(signal.value for signal in found) == pytest.approx(result.score)
            assert sum(signal.share for signal in found) == pytest.approx(1)


def test_it_narrows_by_what_the_form_says(api: Api, visit: Visit) -> None:
    api.remember({"text": "tea for ann", "subject": "ann"}, {"text": "tea for bob", "subject": "bob", "tags": ["x"]})
    visitor = visit("read")
    assert "tea for bob" not in asked(visitor, subject="ann")
    assert "tea for ann" not in asked(visitor, tags="x")
    assert "1 result" in said(asked(visitor, limit="1"))
    api.service.rows("UPDATE memory_state SET tier = 'archived'")
    assert "No results." in asked(visitor, tier_active="", tier_archived="on", as_of="2020-01-01")


@pytest.mark.parametrize("profile", variants(["spec", "mnemex", "cmm", "memory_decay"], {"spec"}))
def test_nothing_is_changed_by_a_search_or_a_look(
    api: Api, visit: Visit, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy.model_validate({"forgetting": {"profile": profile}, "reinforcement": {"by_search": True}})
    tenant = api.service.tenant(policy)
    monkeypatch.setitem(api.__dict__, "tenant", tenant)
    ids = api.remember({"text": "Ann likes her tea green", "salience": 0.8}, {"text": "tea and cake", "salience": 0.8})
    visitor = visit("read", "ingest")
    visitor.page("/search")
    before = everything(api.service)
    for more in ({}, {"tier_archived": "on"}, {"mode": "cmm"}, {"mode": "memory_decay"}, {"mode": "lexical"}):
        assert "tea" in said(asked(visitor, **more))
    for path in (f"/memories/{ids[0]}", "/search", "/reviews"):
        visitor.page(path)
    api.service.work()
    assert everything(api.service) == before


def test_a_caller_s_search_would_be_seen_by_that(api: Api) -> None:
    """The snapshot that the test above compares does change after a caller's search."""
    api.remember("Ann likes her tea green")
    before = everything(api.service)
    assert api.post("/v1/search", json={"query": "tea"}).status_code == 200
    assert everything(api.service) != before


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"query": " "}, "query must be given"),
        ({"limit": "101"}, "limit is too large: 101 (limit 100)"),
        ({"limit": "ten"}, "limit must be a whole number (limit 100)"),
        ({"limit": "²"}, "limit must be a whole number (limit 100)"),
        ({"tier_active": ""}, "tiers must not be empty"),
        ({"subject": "s" * 513}, "subject is too long: 513 (limit 512)"),
        ({"as_of": "yesterday"}, "as_of"),
        ({"mode": "<b>"}, "mode"),
        ({"query": "q" * 32_769}, "query is too long: 32769 (limit 32768)"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told_in_the_form(visit: Visit, form: dict[str, str], field: str) -> None:
    given = {"query": "tea", "limit": "10", "tier_active": "on", "thread": 'kept "so"'} | form
    answer = visit("read").send("/search", given)
    assert answer.status_code == 422
    assert field in said(answer.text)
    assert 'value="kept &#34;so&#34;"' in answer.text
    assert_inert(answer.text)


def test_a_query_is_in_no_address(api: Api, visit: Visit) -> None:
    api.remember("Ann likes her tea green")
    html = asked(visit("read"), query="a very private query about tea")
    assert re.findall(r'<form method="(\w+)" action="/ops/search"', html) == ["post"]
    assert not re.search(r'(href|src|action)="[^"]*private', html)


def test_needs_the_scope_read(visit: Visit) -> None:
    visitor = visit("maintain")
    assert visitor.get("/search").status_code == 403
    assert visitor.send("/search", {"query": "tea", "tier_active": "on"}).status_code == 403
    assert visitor.get("/reviews").status_code == 403


def test_what_memories_say_is_inert(api: Api, visit: Visit) -> None:
    api.remember(RICH)
    html = asked(visit("read"), query=EVIL)
    assert "<script>alert(1)</script>" in said(html)
    assert "⟨U+202E⟩turned" in html
    assert_inert(html)


def test_what_is_flagged_for_review_is_listed(api: Api, visit: Visit) -> None:
    visitor = visit("read")
    assert "No memory is flagged." in visitor.page("/reviews")
    lost, fine = api.remember(RICH, "fine")
    assert api.post(f"/v1/reviews/{lost}", json={"result": "failed"}).status_code == 200
    assert api.post(f"/v1/reviews/{fine}", json={"result": "passed"}).status_code == 200
    html = visitor.page("/reviews")
    assert f"/ops/memories/{lost}" in html
    assert fine not in html
    assert_inert(html)
    assert api.delete(f"/v1/memories/{lost}").status_code == 202
    assert "No memory is flagged." in visitor.page("/reviews")
