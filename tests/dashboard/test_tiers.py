"""The tiers page: tiers, moves with their reasons, the forecast on its own, and the latest moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.domain.policy.policy import Policy
from app.services.tiers import forecast, tier_report
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said
from tests.services import archived_memories
from tests.services.mergeable import LIKE, Alike

pytestmark = pytest.mark.usefixtures("whole_day")

Visit = Callable[..., Visitor]


def faded(api: Api, *texts: str) -> list[str]:
    ids = api.remember(*texts)
    archived_memories.fade(api.service, list(map(UUID, ids)))
    archived_memories.archive_all(api.tenant.tenant_id)
    return ids


def test_an_empty_ladder_is_a_page(visit: Visit) -> None:
    html = said(visit().page("/ladder"))
    assert "No moves in the last 30 days" in html
    assert "active 0" in html
    assert "No memory has changed its tier yet." in html


def test_what_moved_is_shown_by_day_with_why_and_one_by_one(api: Api, visit: Visit) -> None:
    ids = faded(api, "one", "two", "three")
    archived_memories.act_on(api.tenant.tenant_id, UUID(ids[0]), "use")
    html = visit("read").page("/ladder")
    text = said(html)
    assert "archived strength below the archive threshold 3 3 3" in text
    assert "restored used 1 1 1" in text
    assert html.count("<rect") >= 3 + 2
    assert re.findall(r"<title>[^<]+ archived: 3</title>", html)
    listed = re.findall(r'href="/ops/memories/([0-9a-f-]{36})"', html)
    assert listed[0] == ids[0]
    assert sorted(listed) == sorted([*ids, ids[0]])
    assert "decayed to strength 0." in text
    assert "active 1" in text


def test_a_merge_is_why_and_is_led_to(api: Api, visit: Visit) -> None:
    alike = Alike(api.service, tenant_id=api.tenant.tenant_id)
    alike.remember(*LIKE, subject="ann")
    alike.run()
    html = visit().page("/ladder")
    assert f"merged merged by a consolidation run {len(LIKE) - 1}" in said(html)
    assert html.count(f'href="/ops/consolidation/{alike.merge_id()}"') == len(LIKE) - 1


def test_moves_of_memories_that_are_gone_are_said_to_be_that(api: Api, visit: Visit) -> None:
    today = datetime.now(UTC).date()
    api.service.rows("INSERT INTO tier_moves VALUES (%s, %s, 'deleted', 'decay', 3)", api.tenant.tenant_id, today)
    text = said(visit().page("/ladder"))
    assert "No visible memory was moved to another tier." in text
    assert "No memory has changed its tier yet" not in text


def test_days_before_today_have_their_own_columns_and_sums(api: Api, visit: Visit) -> None:
    today = datetime.now(UTC).date()
    for days, memories in ((0, 1), (6, 20), (7, 300), (30, 4000)):
        api.service.rows(
            "INSERT INTO tier_moves VALUES (%s, %s, 'expired', 'risk', %s)",
            *(api.tenant.tenant_id, today - timedelta(days=days), memories),
        )
    html = visit().page("/ladder")
    assert "retention period for its privacy risk expired 1 21 321" in said(html)
    assert f"{today - timedelta(days=7)} – – – – 300 – –" in said(html)
    assert str(today - timedelta(days=30)) not in html


def test_the_first_paint_looks_at_no_memory_and_the_forecast_comes_by_itself(
    api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    faded(api, "one", "two")
    visitor = visit()

    def fail(*_: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(tier_report, "cached_outlook", fail)
        patch.setattr(forecast, "forecast_tiers", fail)
        html = visitor.page("/ladder")
    assert 'hx-get="/ops/ladder/ahead" hx-trigger="load"' in html
    part = visitor.page("/ladder/ahead")
    assert "<html" not in part
    assert part.count("<polyline") == 4
    assert "today 0 2 0 0" in said(part)
    assert "No archived vectors" not in part
    assert "uncompressed" in part


def test_a_forecast_that_cant_be_made_says_so(api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    api.remember("one")
    monkeypatch.setattr(forecast, "SECONDS_MAX", -1.0)
    assert "No forecast: days takes more than -1 s for so many memories" in said(visit().page("/ladder/ahead"))


def test_the_room_is_told_against_the_quota(api: Api, visit: Visit) -> None:
    api.tenant = api.service.tenant(Policy(quota_bytes=400))
    api.remember("x" * 350)
    text = said(visit().page("/ladder"))
    assert "over the quota" in text
    assert "% used" in text


def test_the_last_moves_go_on_by_cursor(api: Api, visit: Visit) -> None:
    ids = faded(api, *(f"memory {number}" for number in range(30)))
    visitor = visit()
    found = []
    place = "/ladder"
    while place:
        html = visitor.page(place)
        found += re.findall(r'href="/ops/memories/([0-9a-f-]{36})"', html)
        following = re.search(r'href="/ops(/ladder\?cursor=[^"]+)"', html)
        place = following[1] if following else ""
    assert sorted(found) == sorted(ids)
    assert visitor.get("/ladder?cursor=nonsense").status_code == 422
