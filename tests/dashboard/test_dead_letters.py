"""Dead letters on the dashboard: listed without their content, replayed, discarded."""

from __future__ import annotations

from collections.abc import Callable

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
