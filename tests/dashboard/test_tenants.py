"""The tenants page: tenants by age of their backlog, their figures, and search by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from sqlalchemy import text

from app.clients.llm.responses import Usage
from app.clients.redis.connection import BACKLOG, RING, stream_key
from app.domain.policy.budget import BudgetState
from app.domain.policy.policy import Budget, Policy
from app.services.erasure import tenant_deletion
from app.services.jobs import schedule
from app.services.monitoring import tenant_comparison
from app.services.tenants import budget, quota, tenants
from app.store.core import database
from app.store.tenants import policies
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, cookie_of, said
from tests.service import Service
from tests.services.due_deletions import worked
from tests.statements import watched
from tests.waiting import PATIENCE_SECONDS

Visit = Callable[..., Visitor]

NUMBERS = text("SELECT tenant, active, dead_letters, budget_tokens FROM tenants_abreast(CAST(:ids AS uuid[]))")


def names(found: list[tenant_comparison.ComparedTenant]) -> list[str]:
    return [one.numbers.name for one in found]


def test_who_waits_longest_comes_first(service: Service) -> None:
    made = {name: tenants.create(name)[0].tenant_id for name in ("a quiet one", "busy", "busier")}
    service.send(made["busy"], "x", "y")
    oldest = service.redis.time()[0] * 1000 - 400_000
    service.redis.xadd(stream_key(made["busier"]), {b"n": b"1"}, id=f"{oldest}-0")
    for key, value in (("memories", 5), ("bytes", 100)):
        service.redis.hset(BACKLOG, f"{made['busier']}:{key}", value)
    service.redis.rpush(RING, str(made["busier"]))
    found = tenant_comparison.waiting_longest()
    assert names(found) == ["busier", "busy", "a quiet one"]
    first, second, third = found
    assert (first.queue.requests, first.queue.memories, first.queue.size_bytes) == (1, 5, 100)
    assert 400 <= (first.oldest_seconds or 0) < 400 + PATIENCE_SECONDS
    assert (second.queue.requests, second.queue.memories) == (1, 2)
    assert (third.oldest_seconds, third.queue.requests, third.room) == (None, 0, "free")


def test_what_waits_after_being_stored_counts_too(service: Service) -> None:
    quiet, busy = (tenants.create(name)[0].tenant_id for name in ("a", "b"))
    service.rows("INSERT INTO tenant_work (stage, tenant_id, memory_ids, created_at) VALUES "
                 "('embed', %s, ARRAY[gen_random_uuid(), gen_random_uuid()], now() - interval '1 hour')",
                 busy)  # fmt: skip
    first, second = tenant_comparison.waiting_longest()
    assert (first.numbers.tenant_id, first.numbers.enriching) == (busy, 2)
    assert 3600 <= (first.oldest_seconds or 0) < 3600 + PATIENCE_SECONDS
    assert (second.numbers.tenant_id, second.numbers.enriching) == (quiet, 0)


@pytest.mark.parametrize(
    ("requests", "size", "memories", "room"),
    [
        (10, 900_000, 50, "free"),
        (2, 1100, 50, "near"),
        (1, 900_000, 50, "full"),
        (10, 1024, 50, "full"),
        (10, 900_000, 10, "near"),
        (10, 900_000, 8, "full"),
    ],
)
def test_who_is_refused_is_told(service: Service, requests: int, size: int, memories: int, room: str) -> None:
    tenant = service.tenant()
    service.send(tenant.tenant_id, *("x" for _ in range(8)))
    service.redis.hset(BACKLOG, f"{tenant.tenant_id}:bytes", 1024)
    service.configure(tenant_backlog_entries=requests, tenant_backlog_bytes=size, tenant_backlog_memories=memories)
    [found] = tenant_comparison.waiting_longest()
    assert found.room == room


def test_memories_letters_night_and_budget(service: Service) -> None:
    tenant = service.tenant(Policy(budget=Budget(tokens=1000)))
    service.send(tenant.tenant_id, "x", "y")
    service.post(tenant.tenant_id, b"no JSON")
    service.work()
    schedule.insert_due_runs(schedule.DEFAULT_SCHEDULE)
    schedule.run(tenant.tenant_id, "night", None, "k")
    budget.spend_tokens(tenant.tenant_id, "score", "m", Usage(1, 900, 0, 50))
    [found] = tenant_comparison.waiting_longest()
    numbers = found.numbers
    assert (numbers.active, numbers.archived, numbers.cold, numbers.dead_letters) == (2, 0, 0, 1)
    assert (numbers.night, numbers.night_failed) == ("queued", 0)
    assert numbers.spent.tokens == 950
    assert (numbers.budget_tokens, found.budget) == (1000, BudgetState.SOFT)
    assert numbers.text_bytes == 2


@pytest.mark.parametrize(("share", "state"), [(0.3, "below"), (0.7, "near"), (1.2, "over")])
def test_the_quota_is_what_the_tenants_own_page_says(service: Service, share: float, state: str) -> None:
    tenant = service.tenant()
    service.send(tenant.tenant_id, "x", "y")
    service.work()
    with database.tenant(tenant.tenant_id) as tx:
        taken = quota.quota_status(tx, tenant.tenant_id).taken_bytes
        policies.add(tx, tenant.tenant_id, 2, Policy(quota_bytes=int(taken / share), quota_near=0.5))
    with database.tenant(tenant.tenant_id) as tx:
        own = quota.quota_status(tx, tenant.tenant_id)
    [found] = tenant_comparison.waiting_longest()
    assert found.quota == own.state == state
    assert found.numbers.dimensions == own.vector_bytes / 4 > 0


def test_the_latest_policy_that_holds_decides(service: Service) -> None:
    tenant = service.tenant()
    service.rows(
        "INSERT INTO policies (tenant_id, version, body, effective_at) VALUES "
        """(%s, 2, '{"budget": {"tokens": 5}}', now()), """
        """(%s, 3, '{"budget": {"tokens": 9}}', now() + interval '1 day')""",
        tenant.tenant_id,
        tenant.tenant_id,
    )
    assert tenant_comparison.waiting_longest()[0].numbers.budget_tokens == 5


def test_many_tenants_cost_as_many_questions_as_one(service: Service) -> None:
    def questions() -> int:
        with watched("ebbing_app") as seen:
            tenant_comparison.waiting_longest()
        return len(seen)

    service.tenant()
    one = questions()
    for _ in range(6):
        service.send(service.tenant().tenant_id, "x")
    assert questions() == one <= 5


def test_a_name_finds_it_and_no_pattern_does(service: Service) -> None:
    for name in ("Otter & Sons", "100% otters", "Badger"):
        tenants.create(name)
    assert names(tenant_comparison.called("OTTER")) == ["100% otters", "Otter & Sons"]
    assert names(tenant_comparison.called("%")) == ["100% otters"]
    assert names(tenant_comparison.called("_")) == []


def test_the_page_shows_them_and_leads_to_one(api: Api, visit: Visit) -> None:
    other, _ = tenants.create("<b>Otter & Sons</b>")
    api.service.send(other.tenant_id, "SECRET TEXT")
    admin = visit("admin")
    html = admin.page("/tenants")
    assert "<b>Otter" not in html
    assert "SECRET" not in html
    assert "<b>Otter & Sons</b>" in said(html.replace("&lt;b&gt;", "&lt;b&gt;"))
    assert re.search(rf'name="tenant" value="{other.tenant_id}"', html)
    admin.cookie = cookie_of(admin.send("/tenant", {"tenant": str(other.tenant_id)}))
    assert "shown" in said(admin.page("/tenants?name=otter"))
    assert "No tenants." in said(admin.page("/tenants?name=zebra"))


def test_a_name_that_turns_the_line_is_told_and_not_done(visit: Visit) -> None:
    tenants.create("left \u202e right")
    assert '<bdi class="long-name">left ⟨U+202E⟩ right</bdi>' in visit("admin").page("/tenants")


def test_tenants_are_an_admins_to_see(visit: Visit) -> None:
    assert visit().get("/tenants").status_code == 403
    assert "/ops/tenants" not in visit().page("/")


# --- The database function ---


def test_it_leaves_the_transactions_tenant_as_it_was(service: Service) -> None:
    ours, theirs = (service.tenant().tenant_id for _ in range(2))
    service.send(theirs, "x")
    service.work()
    for transaction, tenant in ((database.shared(), ""), (database.tenant(ours), str(ours))):
        with transaction as tx:
            found = {row.tenant: row.active for row in tx.execute(NUMBERS, {"ids": [ours, theirs]})}
            assert found == {ours: 0, theirs: 1}
            assert tx.execute(text("SELECT coalesce(current_setting('ebbing.tenant', true), '')")).scalar() == tenant
            assert tx.execute(text("SELECT count(*) FROM memories")).scalar() == 0


def test_it_runs_with_no_rights_of_its_own(service: Service) -> None:
    found = service.rows(
        "SELECT prosecdef, proowner::regrole::text, "
        "ARRAY(SELECT grantee::regrole::text FROM aclexplode(proacl) WHERE grantee <> proowner) "
        "FROM pg_proc WHERE proname = 'tenants_abreast'"
    )
    assert found == [(False, "ebbing_owner", ["ebbing_app"])]


def test_it_gives_no_text(service: Service) -> None:
    types = service.rows(
        "SELECT DISTINCT format_type(kind, NULL) FROM pg_proc, unnest(proallargtypes) AS kind "
        "WHERE proname = 'tenants_abreast' ORDER BY 1"
    )
    assert types == [("bigint",), ("double precision",), ("uuid",), ("uuid[]",)]


def test_a_tenant_that_is_being_deleted_is_marked_and_can_not_be_viewed(api: Api, visit: Visit) -> None:
    other, _ = tenants.create("otter")
    admin = visit("admin", "read")
    admin.cookie = cookie_of(admin.send("/tenant", {"tenant": str(other.tenant_id)}))
    assert admin.get("/search").status_code == 200
    tenant_deletion.request(other.tenant_id, "otter", "key", 7)
    html = admin.page("/tenants?name=otter")
    assert "being deleted" in said(html)
    assert "data is erased after" in said(html)
    assert not re.search(rf'name="tenant" value="{other.tenant_id}"', html)
    assert "shown" not in said(html).partition("Pages")[2], "the pages show the key's own tenant again"
    assert admin.get("/search").status_code == 200
    refused = admin.send("/tenant", {"tenant": str(other.tenant_id)})
    assert refused.status_code == 403
    api.service.rows("UPDATE jobs SET not_before = now(), claimed_until = now() WHERE kind = 'erase'")
    worked(api.service)
    assert "deleted" in said(admin.page(f"/tenants?name={other.tenant_id}"))
    assert admin.get("/search").status_code == 200
