"""The consolidation pages: runs, pending and finished merges, supersessions, and every manual action on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from app.domain.consolidation.parameters import Consolidation
from app.domain.consolidation.supersession import SupersessionPair
from app.domain.policy.policy import Policy
from app.services.consolidation import supersession
from app.services.security import operator_log
from app.services.strength import current_policy
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.store.core import database
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said
from tests.services import nights
from tests.services.due_deletions import worked
from tests.services.mergeable import LIKE, Alike

Visit = Callable[..., Visitor]
ASKING = Policy(consolidation=Consolidation(rule="cohesion", merged_from=1.0, asked_from=0.5))
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def merged(api: Api) -> Alike:
    alike = Alike(api.service, tenant_id=api.tenant.tenant_id)
    alike.remember(*LIKE[:-1], f"{LIKE[-1]} {SCRIPT}", subject="ann")
    alike.run()
    return alike


@pytest.fixture
def waiting(api: Api) -> Alike:
    api.tenant = api.service.tenant(ASKING)
    alike = Alike(api.service, tenant_id=api.tenant.tenant_id)
    alike.remember(*LIKE[:-1], f"{LIKE[-1]} {SCRIPT}", subject="ann")
    assert alike.run()["waiting"] == 1
    return alike


def test_an_empty_page_says_so(visit: Visit) -> None:
    text = said(visit().page("/consolidation"))
    for each in ("No merges are waiting", "No proposals", "No runs yet", "No merges yet"):
        assert each in text


def test_runs_and_what_was_merged_are_shown(merged: Alike, visit: Visit) -> None:
    html = visit("maintain").page("/consolidation")
    text = said(html)
    assert f"manual medium done {len(LIKE)} 1 0 {len(LIKE) - 1} 1 extraction" in text
    assert f"{len(LIKE) - 1} memories, one summary" in text
    [summary_id] = merged.summaries()
    assert f'href="/ops/memories/{summary_id}"' in html


def test_a_merge_shows_what_it_says_to_who_may_read_alone(merged: Alike, visit: Visit) -> None:
    place = f"/consolidation/{merged.merge_id()}"
    html = visit("read").page(place)
    assert "boat" in said(html)
    assert "Undo" not in said(html)
    assert SCRIPT not in html
    assert "&lt;script&gt;" in html
    assert "kept separately" in said(html)
    blind = visit("maintain").page(place)
    assert "boat" not in blind
    assert "requires a key with the scope read" in said(blind)
    assert "Undo" in said(blind)


def test_what_waits_says_what_it_is_of_to_who_may_read(waiting: Alike, visit: Visit) -> None:
    html = visit("read").page("/consolidation")
    assert f"example: {LIKE[0]}" in said(html)
    assert SCRIPT not in html
    assert "example:" not in said(visit("maintain").page("/consolidation"))
    waiting.service.rows("DELETE FROM memories WHERE text = %s", LIKE[0])
    assert "example:" not in said(visit("read").page("/consolidation"))


def test_a_merge_is_undone(api: Api, merged: Alike, visit: Visit) -> None:
    place = f"/consolidation/{merged.merge_id()}"
    visitor = visit()
    assert visitor.act(f"{place}/undo") == "/consolidation?done=undone"
    assert merged.merges() == [("summary", "undone", len(LIKE) - 1)]
    [act] = operator_log.list_actions(api.tenant.tenant_id)
    assert (act.act, act.target) == ("undo_merge", str(merged.merge_id()))
    assert visitor.send(f"{place}/undo").status_code == 409
    assert "Undo" not in said(visitor.page(place))


def test_one_that_waits_is_shown_with_its_summary_on_request_and_approved(waiting: Alike, visit: Visit) -> None:
    merge_id = waiting.merge_id()
    visitor = visit()
    assert f'href="/ops/consolidation/{merge_id}"' in visitor.page("/consolidation")
    html = visitor.page(f"/consolidation/{merge_id}")
    assert "Preview the summary" in html
    assert "boat" in html
    shown = said(visitor.page(f"/consolidation/{merge_id}?summary=true"))
    assert "Preview only, not stored" in shown
    assert not waiting.summaries()
    assert "Preview only" not in said(visit("maintain").page(f"/consolidation/{merge_id}?summary=true"))
    assert visitor.act(f"/consolidation/{merge_id}/approve") == "/consolidation?done=approved"
    worked(waiting.service)
    [(_, status, _)] = waiting.merges()
    assert status == "done"
    assert len(waiting.summaries()) == 1


def test_one_that_waits_is_refused(waiting: Alike, visit: Visit) -> None:
    visitor = visit("maintain")
    assert visitor.act(f"/consolidation/{waiting.merge_id()}/reject") == "/consolidation?done=rejected"
    assert [status for _, status, _ in waiting.merges()] == ["rejected"]
    assert "No merges are waiting" in said(visitor.page("/consolidation"))
    assert visitor.send(f"/consolidation/{waiting.merge_id()}/approve").status_code == 409


@pytest.mark.parametrize("level", ["", "light"])
def test_a_run_by_hand(api: Api, visit: Visit, level: str) -> None:
    alike = Alike(api.service, tenant_id=api.tenant.tenant_id)
    alike.remember(*LIKE, subject="ann")
    assert visit().act("/consolidation/run", {"level": level}) == "/consolidation?done=run"
    worked(api.service)
    found = api.service.rows("SELECT started_by, level FROM consolidation_runs")
    assert found == [("hand", level or "medium")]
    assert visit().send("/consolidation/run", {"level": "cruel"}).status_code == 422


def test_it_is_paused_and_resumed_by_the_policy(api: Api, visit: Visit) -> None:
    tenant_id = api.tenant.tenant_id
    alike = Alike(api.service, tenant_id=tenant_id)
    alike.remember(*LIKE, subject="ann")
    visitor = visit("maintain")
    assert visitor.act("/consolidation/pause", {"reason": "the model is odd"}) == "/consolidation?done=paused"
    assert current_policy.read(tenant_id).consolidation.paused
    html = said(visitor.page("/consolidation"))
    assert "Consolidation is paused" in html
    assert "Resume" in html
    nights.run(tenant_id)
    assert not alike.summaries()
    assert visitor.act("/consolidation/resume") == "/consolidation?done=resumed"
    assert "Consolidation runs every night" in said(visitor.page("/consolidation"))
    nights.run(tenant_id)
    assert len(alike.summaries()) == 1
    assert [act.act for act in operator_log.list_actions(tenant_id)] == ["resume_consolidation", "pause_consolidation"]


def test_a_policy_that_waits_is_named_before_it_is_called_off(api: Api, visit: Visit) -> None:
    later = datetime.now(UTC) + timedelta(days=3)
    policy_versions.write_change(api.tenant.tenant_id, RequestedChange({"quota_bytes": 10}, effective_at=later))
    visitor = visit("maintain")
    assert "This cancels scheduled policy changes: version 2" in said(visitor.page("/consolidation"))
    visitor.act("/consolidation/pause")
    assert "This cancels" not in said(visitor.page("/consolidation"))
    assert policy_versions.get(api.tenant.tenant_id, 2).status == "superseded"


def proposal(api: Api) -> tuple[UUID, list[str]]:
    ids = api.remember(f"Ann lives in Oslo {SCRIPT}", "Ann lives in Rome")
    with database.tenant(api.tenant.tenant_id) as tx:
        supersession.propose_pairs(tx, api.tenant.tenant_id, [SupersessionPair(*map(UUID, ids))], approved=[])
    [proposed] = supersession.list_supersessions(api.tenant.tenant_id, "proposed", None, None, 1)
    return proposed.supersession_id, ids


@pytest.mark.parametrize(("way", "status"), [("approve", "active"), ("reject", "rejected")])
def test_a_proposed_supersession_is_decided(api: Api, visit: Visit, way: str, status: str) -> None:
    found, ids = proposal(api)
    html = visit("read").page("/consolidation")
    assert "Ann lives in Rome" in html
    assert SCRIPT not in html
    blind = visit("maintain").page("/consolidation")
    assert "Ann lives" not in blind
    assert all(f'href="/ops/memories/{memory_id}"' in blind for memory_id in ids)
    assert "Decisions require a key with the scope ingest" in said(blind)
    assert visit("maintain").send(f"/consolidation/supersessions/{found}/{way}").status_code == 403
    visitor = visit("read", "ingest")
    done = "superseded" if way == "approve" else "rejected"
    assert visitor.act(f"/consolidation/supersessions/{found}/{way}") == f"/consolidation?done={done}"
    [decided] = supersession.list_supersessions(api.tenant.tenant_id, None, None, None, 2)
    assert decided.status == status
    assert "No proposals" in said(visitor.page("/consolidation"))


def test_what_is_done_goes_on_by_cursor(api: Api, visit: Visit) -> None:
    for _ in range(30):
        api.service.rows(
            "INSERT INTO merges (tenant_id, merge_id, run_id, action, status, level, cohesion, sources, created_at) "
            "VALUES (%s, gen_random_uuid(), gen_random_uuid(), 'link', 'done', 'medium', 0.8, 2, clock_timestamp())",
            api.tenant.tenant_id,
        )
    visitor = visit()
    html = visitor.page("/consolidation")
    following = re.search(r'href="/ops(/consolidation\?cursor=[^"]+)"', html)
    assert following
    rest = visitor.page(following[1])
    assert (html.count("2 memories, links"), rest.count("2 memories, links")) == (25, 5)


def test_ids_that_are_none_are_not_found(visit: Visit) -> None:
    visitor = visit()
    for place in ("/consolidation/nobody", f"/consolidation/{uuid4()}"):
        assert visitor.get(place).status_code == 404
    for place in ("/consolidation/nobody/undo", f"/consolidation/{uuid4()}/approve"):
        assert visitor.send(place).status_code == 404
    assert visitor.send("/consolidation/supersessions/x/approve").status_code == 404
