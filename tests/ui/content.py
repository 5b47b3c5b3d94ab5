"""Content for every page: memories, a night, merges, dead letters, privacy requests, holds."""

from __future__ import annotations

from typing import Any, Final

import httpx
import psycopg

from tests.faults.supervised_home import Household
from tests.waiting import PATIENCE_SECONDS, until

SCRIPT: Final = "<script>alert('it ran')</script><img src=x onerror=alert(1)> javascript:alert(2)"
PEOPLE: Final = ("ann", "bob")
ABOUT: Final = (
    "Ann feeds the birds in the garden every morning before work",
    "In the garden Ann feeds birds before she goes to work",
    "Every morning Ann puts out food for the birds in her garden",
    "Before work Ann gives the birds in the garden their food",
    "The birds in the garden get food from Ann each morning",
    "Bob moved to Lyon in March and rents a flat by the river",
    "Bob's phone number is +33 4 72 00 00 00",
    "The build of the mobile app takes eleven minutes since the upgrade",
    "The meeting about the budget is on Thursday at ten",
    SCRIPT,
)


def fill(household: Household) -> None:
    """Create the content, through the API where possible, and wait until it is stored."""
    key = (household.home / "api-key").read_text().strip()
    with httpx.Client(
        base_url=household.url, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS, trust_env=False
    ) as http:
        send(http)


def send(http: httpx.Client) -> None:
    """Send all the content that the API accepts."""
    said = [
        {"text": text, "subject": PEOPLE[place % 2], "thread": SCRIPT, "tags": [SCRIPT], "metadata": {"x": SCRIPT}}
        for place, text in enumerate(ABOUT)
    ]
    ids = ok(http.post("/v1/memories", json=said))["ids"]
    until(lambda: ok(http.get(f"/v1/memories/{ids[-1]}"))["status"] == "embedded", "the memories are embedded")
    ok(http.post("/v1/observations", json={"memories": ids[:3]}))
    ok(http.post("/v1/links", json={"from": ids[0], "to": ids[1]}))
    ok(http.post("/v1/supersessions", json={"memory": ids[7], "supersedes": ids[5]}))
    ok(http.post("/v1/privacy/holds", json={"memory_ids": [ids[3]], "reason": "a dispute"}))
    ok(http.post("/v1/privacy/requests", json={"nature": "correction", "law": "gdpr"}))
    ok(http.post("/v1/privacy/erasures", json={"subject": "carol", "kind": "gdpr"}))
    ok(http.post("/v1/privacy/exports", json={"subject": "bob"}))
    ok(http.post("/v1/maintenance/selftest", json={}))
    ok(http.post("/v1/maintenance/consolidate", json={}))
    ok(http.post("/v1/schedule/night/run", json={}))
    ok(http.post("/v1/admin/tenants", json={"name": "W" * 128}))
    until(lambda: ok(http.get("/v1/schedule"))["schedule"][0]["last_run"]["finished_at"], "the night is over")


def letter(household: Household) -> None:
    """Insert two dead letters for the only tenant."""
    with psycopg.connect(household.books().database_url, autocommit=True) as tx:
        tx.execute(
            "INSERT INTO dead_letters (tenant_id, letter_id, stage, reason, attempts, memories, memory_ids) "
            "SELECT tenant_id, gen_random_uuid(), 'embed', 'UnreadableAnswer', 3, 0, '{}' "
            "FROM tenants, generate_series(1, 2)"
        )


def ok(answer: httpx.Response) -> Any:
    """Return the body of a response, which must be a success."""
    assert answer.is_success, answer.text
    return answer.json()
