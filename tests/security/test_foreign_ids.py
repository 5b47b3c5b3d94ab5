"""One tenant's ids and names in bodies, filters and paths of another tenant: nothing is read, nothing changes.

The owner makes each attempt as well, for whom it reads or changes the data: otherwise it would prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

import httpx
import pytest

from app.services.jobs import runner
from tests.api.caller import Api
from tests.api.conftest import api
from tests.api.http.created_objects import a_letter, a_merge, a_proposal, a_schedule, a_webhook
from tests.service import Service, Tenant
from tests.variants import variants

__all__ = ["api"]

SECRETS: Final = ("quagga", "zephyr", "attic")
"""Words of the owner's data that no attempt contains."""
MEMORIES: Final = (
    {"text": "quagga zephyr lamp", "external_id": "key-1", "tags": ["attic"]},
    {"text": "quagga zephyr kettle", "external_id": "key-2", "tags": ["attic"]},
    {"text": "quagga zephyr hat", "external_id": "key-3", "tags": ["attic"]},
)
SHARED: Final[dict[str, Any]] = {
    "subject": "ann",
    "thread": "monday",
    "speaker": "Ann",
    "entities": ["Max"],
    "metadata": {"place": "home"},
    "categories": ["health"],
}
ROUNDS: Final = 5
"""Slices for a job."""
FILE: Final = "/memories/plans.md"


class Attempt(NamedTuple):
    """A request with ids or names of another tenant, as `@name`.

    Attributes:
        changed: Table in which the owner's rows change if the owner sends the request; empty if it only reads.
        status: Status of the attempt; 0 means any success.
    """

    method: str
    path: str
    json: dict[str, Any] | None = None
    params: dict[str, Any] | None = None
    changed: str = ""
    status: int = 0

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.json or self.params or ''}"


WRITES: Final = (
    Attempt("POST", "/v1/observations", {"memories": ["@memory"]}, changed="memory_state"),
    Attempt("POST", "/v1/observations", {"ids": ["@own", "@memory"], "boost": True}, changed="memory_state"),
    Attempt("POST", "/v1/links", {"from": "@memory", "to": "@other"}, changed="links", status=404),
    Attempt("POST", "/v1/links", {"from": "@own", "to": "@memory"}, changed="links", status=404),
    Attempt("POST", "/v1/links", {"from": "@memory", "to": "@own"}, changed="links", status=404),
    Attempt("DELETE", "/v1/links", params={"memory": "@memory"}, changed="links", status=404),
    Attempt("DELETE", "/v1/links", params={"from": "@memory", "to": "@linked"}, changed="links", status=404),
    Attempt("POST", "/v1/memories", {"text": "x", "links": [{"to": "@memory"}]}, changed="links"),
    Attempt("POST", "/v1/memories", {"text": "x", "links": [{"to": "@external_id"}]}, changed="links"),
    Attempt("POST", "/v1/memories", {"text": "x", "supersedes": ["@memory"]}, changed="supersessions"),
    Attempt("POST", "/v1/memories", {"text": "x", "supersedes": ["@external_id"]}, changed="supersessions"),
    Attempt("POST", "/v1/memories", {"text": "x", "external_id": "@external_id"}, changed="memories"),
    Attempt(
        "POST", "/v1/supersessions", {"memory": "@memory", "supersedes": "@other"}, changed="supersessions", status=404
    ),
    Attempt(
        "POST", "/v1/supersessions", {"memory": "@own", "supersedes": "@memory"}, changed="supersessions", status=404
    ),
    Attempt(
        "POST",
        "/v1/supersessions",
        {"memory": "@external_id", "supersedes": "@own"},
        changed="supersessions",
        status=404,
    ),
    Attempt("POST", "/v1/supersessions/@supersession/approve", changed="supersessions", status=404),
    Attempt("POST", "/v1/memories/delete", {"ids": ["@memory"]}, changed="hidden_memories"),
    Attempt("POST", "/v1/memories/delete", {"external_ids": ["@external_id"]}, changed="hidden_memories"),
    Attempt("POST", "/v1/memories/delete", {"thread": "@thread"}, changed="hidden_memories"),
    Attempt("POST", "/v1/privacy/erasures", {"ids": ["@memory"], "grace_days": 0}, changed="memories"),
    Attempt("POST", "/v1/privacy/erasures", {"subject": "@subject", "grace_days": 0}, changed="memories"),
    Attempt("POST", "/v1/privacy/erasures", {"thread": "@thread", "grace_days": 0}, changed="memories"),
    Attempt("POST", "/v1/privacy/erasures", {"filter": {"thread": "@thread"}, "grace_days": 0}, changed="memories"),
    Attempt(
        "POST",
        "/v1/privacy/erasures",
        {"subject": "@subject", "request_id": "@erasure_request"},
        changed="privacy_requests",
        status=422,
    ),
    Attempt("DELETE", "/v1/subjects/@subject", params={"grace_days": 0}, changed="memories"),
    Attempt("POST", "/v1/privacy/holds", {"ids": ["@memory"], "reason": "x"}, changed="holds", status=422),
    Attempt(
        "POST", "/v1/privacy/holds", {"memory_ids": ["@own", "@memory"], "reason": "x"}, changed="holds", status=422
    ),
    Attempt("POST", "/v1/privacy/holds", {"subject": "@subject", "reason": "x"}, changed="holds"),
    Attempt("POST", "/v1/privacy/holds", {"filter": {"thread": "@thread"}, "reason": "x"}, changed="holds"),
    Attempt("POST", "/v1/quarantines", {"key_id": "@key_id", "confirm": True}, changed="hidden_memories", status=422),
    Attempt(
        "POST",
        "/v1/privacy/exports",
        {"subject": "@subject", "request_id": "@access_request"},
        changed="exports",
        status=422,
    ),
    Attempt(
        "PUT", "/v1/privacy/subjects/retention", {"subject": "@subject", "keep_days": 9}, changed="subject_retention"
    ),
    Attempt("POST", "/v1/consolidation/merges/@merge/reject", changed="merges", status=404),
    Attempt(
        "POST", "/v1/webhooks/@own_webhook/replay", {"ids": ["@delivery"]}, changed="webhook_deliveries", status=422
    ),
    Attempt("POST", "/v1/webhooks/@webhook/test", changed="webhook_deliveries", status=404),
    Attempt("POST", "/v1/notes/copies", {"copy_id": "@copy", "name": "tower"}, changed="note_copies"),
    Attempt("POST", "/v1/schedule/@schedule/pause", changed="schedules"),
    Attempt("POST", "/v1/admin/dead-letters/discard", {"reason": "@reason", "because": "x"}, changed="dead_letters"),
    Attempt(
        "POST",
        "/v1/admin/dead-letters/discard",
        {"reason": "@reason", "because": "x"},
        {"tenant_id": "@tenant"},
        changed="dead_letters",
        status=403,
    ),
    Attempt("POST", "/v1/files/str_replace", {"path": FILE, "old_str": "lamp", "new_str": "x"}, changed="memories"),
    Attempt("POST", "/v1/files/delete", {"path": FILE}, changed="hidden_memories"),
    Attempt("POST", "/v1/files/rename", {"old_path": FILE, "new_path": "/memories/mine.md"}, changed="memories"),
)
READS: Final = (
    *(
        Attempt("GET", "/v1/memories", params=params)
        for params in (
            {"ids": "@memory"},
            {"external_ids": "@external_id"},
            {"external_id": "@external_id"},
            {"subject": "@subject"},
            {"thread": "@thread"},
            {"speaker": "Ann"},
            {"entities": "Max"},
            {"categories": "health"},
            {"metadata": '{"place": "home"}'},
        )
    ),
    *(
        Attempt("POST", "/v1/search", {"query": "lamp", "reinforce": False, **filters})
        for filters in (
            {},
            {"ids": ["@memory"]},
            {"external_ids": ["@external_id"]},
            {"external_id": "@external_id"},
            {"subject": "@subject"},
            {"thread": "@thread"},
            {"exclude_thread": "another"},
            {"session": "@thread"},
            {"speaker": "Ann", "entities": ["Max"], "categories": ["health"], "metadata": {"place": "home"}},
        )
    ),
    Attempt("POST", "/v1/recall", {"messages": ["lamp"], "subject": "@subject", "least": 0}),
    Attempt("POST", "/v1/recall", {"messages": ["lamp"], "thread": "@thread", "least": 0}),
    Attempt("GET", "/v1/links", params={"memory": "@memory"}, status=404),
    Attempt("GET", "/v1/links", params={"from": "@memory"}, status=404),
    Attempt("GET", "/v1/supersessions", params={"memory": "@other"}, status=404),
    Attempt("GET", "/v1/threads", params={"subject": "@subject"}),
    Attempt("GET", "/v1/reviews", params={"by": "flagged", "subject": "@subject"}),
    Attempt("GET", "/v1/reviews", params={"by": "flagged", "thread": "@thread"}),
    Attempt("GET", "/v1/subjects/@subject"),
    Attempt("POST", "/v1/privacy/subjects/search", {"name": "@subject"}),
    Attempt("POST", "/v1/forecast", {"days": 3, "subject": "@subject"}),
    Attempt("GET", "/v1/privacy/audit", params={"target": "@access_request"}),
    Attempt("GET", "/v1/admin/dead-letters", params={"reason": "@reason"}),
    Attempt("GET", "/v1/admin/dead-letters", params={"tenant_id": "@tenant"}, status=403),
    Attempt("GET", "/v1/usage", params={"tenant_id": "@tenant"}, status=403),
    Attempt("POST", "/v1/files/view", {"path": FILE}),
    Attempt("GET", "/v1/webhooks/@webhook/deliveries", status=404),
)


def owned(api: Api) -> dict[str, str]:
    """Create the data of the caller's tenant, and return ids and names by the names that attempts use."""
    memory, other, older = api.remember(*({**SHARED, **memory} for memory in MEMORIES))
    linked, _ = api.remember("linked", {"text": "quagga lamp", "external_id": FILE})
    api.post("/v1/links", json={"from": memory, "to": linked, "kind": "attic"})
    api.post("/v1/supersessions", json={"memory": other, "supersedes": older})
    api.post(f"/v1/reviews/{memory}", json={"result": "failed"})
    webhook = str(a_webhook(api))
    api.post(f"/v1/webhooks/{webhook}/test")
    api.service.rows("UPDATE webhook_deliveries SET status = 'failed'")
    a_letter(api)
    a_schedule(api)
    tenant_id = api.tenant.tenant_id
    return {
        "tenant": str(tenant_id),
        "key_id": api.tenant.key_id,
        "memory": memory,
        "other": other,
        "linked": linked,
        "external_id": "key-1",
        "subject": "ann",
        "thread": "monday",
        "webhook": webhook,
        "delivery": str(api.service.one("SELECT delivery_id FROM webhook_deliveries WHERE tenant_id = %s", tenant_id)),
        "supersession": str(a_proposal(api)),
        "merge": str(a_merge(api, "waiting")),
        **{
            f"{nature}_request": api.post("/v1/privacy/requests", json={"nature": nature}).json()["id"]
            for nature in ("erasure", "access")
        },
        "reason": api.service.one("SELECT reason FROM dead_letters WHERE tenant_id = %s", tenant_id),
        "schedule": "night",
        "copy": str(UUID(int=7)),
    }


def own(api: Api) -> dict[str, str]:
    """Return what attempts combine with ids of another tenant: a memory and a webhook of the caller."""
    return {"own": api.remember({"text": "my own", "subject": "ann"})[0], "own_webhook": str(a_webhook(api))}


def fill(value: Any, names: dict[str, str]) -> Any:
    """Return a value with each `@name` replaced by what it names."""
    if isinstance(value, dict):
        return {key: fill(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [fill(each, names) for each in value]
    return re.sub(r"@(\w+)", lambda found: names[found[1]], value) if isinstance(value, str) else value


def send(api: Api, tried: Attempt, names: dict[str, str], key: str = "") -> httpx.Response:
    parts = {"json": fill(tried.json, names), "params": fill(tried.params, names)}
    given = {name: part for name, part in parts.items() if part is not None}
    return api.request(tried.method, fill(tried.path, names), key=key, **given)


def carry_out(api: Api, tried: Attempt, names: dict[str, str]) -> httpx.Response:
    """Send an attempt as the caller, and carry out everything that follows from it."""
    answer = send(api, tried, names)
    api.service.work()
    for _ in range(ROUNDS):
        unfinished = api.service.rows(
            "UPDATE jobs SET claim = gen_random_uuid() WHERE tenant_id = %s AND status IN ('queued', 'running') "
            "RETURNING job_id",
            api.tenant.tenant_id,
        )
        for (job_id,) in unfinished:
            runner.run_slice(job_id)
    return answer


def digests(service: Service, tenant: Tenant) -> dict[str, str]:
    """Return a digest of a tenant's rows by table."""
    tables = service.rows(
        "SELECT attrelid::regclass::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
        "WHERE attname = 'tenant_id' AND relkind = 'r' "
        "AND relnamespace IN ('public'::regnamespace, 'ebbing_keys'::regnamespace)"
    )
    each = (
        "SELECT '{0}', md5(string_agg(found::text, '' ORDER BY found::text)) FROM {0} AS found WHERE tenant_id = '{1}'"
    )
    union = " UNION ALL ".join(each.format(table, tenant.tenant_id) for (table,) in tables)
    return dict(service.rows(union))


def check_each(attempts: Iterable[Attempt], check: Callable[[Attempt], None]) -> None:
    """Check every attempt, and fail with the messages of all that fail."""
    failed = []
    for tried in attempts:
        try:
            check(tried)
        except AssertionError as error:
            failed.append(f"{tried}: {error}")
    assert not failed, "\n".join(failed)


def check_answer(tried: Attempt, answer: httpx.Response) -> None:
    expected = answer.is_success if not tried.status else answer.status_code == tried.status
    assert expected, f"{answer.status_code} {answer.text}"
    assert not [word for word in SECRETS if word in answer.text], answer.text


@pytest.mark.essential
@pytest.mark.slow
def test_ids_and_names_of_another_tenant_change_nothing_of_it(api: Api) -> None:
    names, owner = owned(api), api.tenant
    before = digests(api.service, owner)

    def check(tried: Attempt) -> None:
        api.change_tenant()
        answer = carry_out(api, tried, names | (own(api) if "@own" in str(tried) else {}))
        after = digests(api.service, owner)
        assert after == before, {table for table in before if before[table] != after[table]}
        check_answer(tried, answer)

    check_each(WRITES, check)


@pytest.mark.essential
@pytest.mark.slow
def test_ids_and_names_of_another_tenant_find_nothing_of_it(api: Api) -> None:
    names, owner = owned(api), api.tenant
    api.change_tenant()
    before = digests(api.service, owner)

    def check(tried: Attempt) -> None:
        answer = send(api, tried, names)
        check_answer(tried, answer)
        assert digests(api.service, owner) == before
        owners = send(api, tried, names, owner.key)
        assert owners.is_success, owners.text
        assert {**owners.json(), "request_id": ""} != {**answer.json(), "request_id": ""}, (
            "the owner finds nothing either"
        )

    check_each(READS, check)


@pytest.mark.long
@pytest.mark.parametrize("tried", variants({str(tried): tried for tried in WRITES}, [str(WRITES[0])]))
def test_the_owner_changes_what_each_attempt_names(api: Api, tried: Attempt) -> None:
    names = owned(api)
    names |= own(api) | {"own_webhook": names["webhook"]}
    before = digests(api.service, api.tenant)
    answer = carry_out(api, tried, names)
    assert answer.is_success, answer.text
    after = digests(api.service, api.tenant)
    assert before[tried.changed] != after[tried.changed]
