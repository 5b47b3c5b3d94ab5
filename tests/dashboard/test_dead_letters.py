"""Dead letters on the dashboard: listed without their content, replayed, discarded."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest

from app.services.ingest import dead_letter_replay
from app.store.ingest.dead_letters import LetterFilter
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said

Visit = Callable[..., Visitor]


def spoiled(api: Api, count: int = 1) -> list[str]:
    """Create dead letters from requests that can't be parsed, and return their ids."""
    for _ in range(count):
        api.service.post(api.tenant.tenant_id, b'{"text": "a secret of ann\'s')
    api.service.work()
    found, _ = dead_letter_replay.list_letters(
        api.tenant.tenant_id, LetterFilter(), discarded=False, older_than=None, limit=50
    )
    return [str(one.letter_id) for one in found]


def test_they_are_listed_by_reason_without_their_content(api: Api, visit: Visit) -> None:
    visitor = visit()
    assert "No dead letters." in said(visitor.page("/letters"))
    spoiled(api, 2)
    html = visitor.page("/letters")
    assert "drain 2" in said(html)
    assert "secret" not in html


def test_one_or_all_are_discarded_for_a_reason(api: Api, visit: Visit) -> None:
    visitor = visit()
    letter, *_ = spoiled(api, 3)
    assert visitor.act(f"/letters/{letter}/discard", {"reason": "it was a test"}) == "/letters?done=discarded"
    [(stage, reason, count, *_)] = dead_letter_replay.list_letters(
        api.tenant.tenant_id, LetterFilter(), discarded=False, older_than=None, limit=50
    )[1]
    assert count == 2
    visitor.act("/letters/discard", {"stage": stage, "which": reason, "reason": "so were these"})
    assert "No dead letters." in said(visitor.page("/letters"))
    words = said(visitor.page("/letters?discarded=true"))
    assert words.count("it was a test") == 1
    assert words.count("so were these") == 2


def test_one_or_all_are_replayed(api: Api, visit: Visit) -> None:
    visitor = visit()
    letter, *_ = spoiled(api, 2)
    visitor.act(f"/letters/{letter}/replay")
    _, [(stage, reason, *_)] = dead_letter_replay.list_letters(
        api.tenant.tenant_id, LetterFilter(), discarded=False, older_than=None, limit=50
    )
    visitor.act("/letters/replay", {"stage": stage, "which": reason})
    assert "No dead letters." in said(visitor.page("/letters"))
    api.service.work()
    assert "drain 2" in said(visitor.page("/letters"))  # the replayed letters fail again


def test_what_remains_of_a_bulk_action_is_shown_and_continued(
    api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visit()
    spoiled(api, 3)
    monkeypatch.setattr(dead_letter_replay, "ENTRIES_A_CALL", 1)
    monkeypatch.setattr(dead_letter_replay, "LETTERS_A_CALL", 1)
    monkeypatch.setattr(dead_letter_replay, "REPEAT_SECONDS", 0)
    for act, done in (("replay", "replayed"), ("discard", "discarded")):
        to = visitor.act(f"/letters/{act}", {"stage": "drain", "which": "Unreadable"})
        html = visitor.page(to)
        page = said(html)
        assert f"dead letters remain to be {done}" in page or f"1 dead letter remains to be {done}" in page
        [form] = re.findall(rf'action="/ops/letters/{act}">(?:(?!</form>).)*name="before".*?</form>', html, re.DOTALL)
        fields = dict(re.findall(r'name="(stage|which|before)" value="([^"]*)"', form))
        assert fields["stage"] == "drain"
        monkeypatch.setattr(dead_letter_replay, "REPEAT_SECONDS", 300)
        assert "remain" not in said(visitor.page(visitor.act(f"/letters/{act}", unescape_all(fields))))
        assert "No dead letters." in said(visitor.page("/letters"))
        monkeypatch.setattr(dead_letter_replay, "REPEAT_SECONDS", 0)
        api.service.work()
    assert visitor.send("/letters/replay", {"which": "x", "before": "yesterday"}).status_code == 422


def unescape_all(fields: dict[str, str]) -> dict[str, str]:
    return {name: unescape(value) for name, value in fields.items()}


def test_what_cannot_be_replayed_is_not_said_to_be(api: Api, visit: Visit) -> None:
    spoiled(api)
    api.service.rows("UPDATE dead_letters SET payload = NULL, header = NULL, stage = 'embed', memory_ids = '{}'")
    [(stage, reason, *_)] = dead_letter_replay.list_letters(
        api.tenant.tenant_id, LetterFilter(), discarded=False, older_than=None, limit=50
    )[1]
    visitor = visit()
    assert visitor.act("/letters/replay", {"stage": stage, "which": reason}) == "/letters?done=unreplayable"
    assert "Nothing was replayed" in said(visitor.page("/letters?done=unreplayable"))


def test_others_letters_are_not_there(api: Api, visit: Visit) -> None:
    [letter] = spoiled(api)
    visitor = visit()
    other = Visitor(api, api.service.tenant().key)
    assert "No dead letters." in said(other.page("/letters"))
    assert other.send(f"/letters/{letter}/replay").status_code == 404
    assert visitor.send("/letters/x/replay").status_code == 404
    assert visit("read").get("/letters").status_code == 403


def test_a_reason_is_explained_with_a_link_to_its_section(api: Api, visit: Visit) -> None:
    visitor = visit()
    spoiled(api)
    html = visitor.page("/letters")
    assert "Another program wrote this entry" in said(html)
    assert 'href="/ops/runbook#unreadable"' in html
    assert 'id="unreadable"' in visitor.page("/runbook")
    api.service.rows("UPDATE dead_letters SET reason = 'SomeError'")
    assert 'href="/ops/runbook#the-name-of-an-error"' in visitor.page("/letters")


def test_letters_that_come_back_after_a_replay_say_so(api: Api, visit: Visit) -> None:
    visitor = visit()
    spoiled(api, 2)
    assert "replayed before" not in said(visitor.page("/letters"))
    for replays in (1, 2):
        to = visitor.act("/letters/replay", {"stage": "drain", "which": "Unreadable"})
        words = said(visitor.page(to))
        assert "2 dead letters were queued for a retry." in words
        assert ("2 of them had been replayed before and failed again: fix the cause" in words) == (replays > 1)
        api.service.work()
        words = said(visitor.page("/letters"))
        assert "came back 2 were replayed before and failed again" in words
        assert ("up to 2 times" in words) == (replays == 2)
    letter, *_ = spoiled(api)
    [first, *_] = [one for one in visitor.get("/letters").text.split("<tr>") if letter in one]
    assert "Unreadable" in first
    assert visitor.act(f"/letters/{letter}/replay") == "/letters?done=replayed&queued=1&came_back=0"


def test_the_number_of_memories_that_a_broken_entry_claims_is_not_shown(api: Api, visit: Visit) -> None:
    api.service.push(api.tenant.tenant_id, {b"n": b"99", b"h": b"not a header", b"e": b"{}"})
    api.service.work()
    words = said(visit().page("/letters"))
    assert "unknown envelope version 1 0 unknown 2" in words
    assert " 99 " not in words
