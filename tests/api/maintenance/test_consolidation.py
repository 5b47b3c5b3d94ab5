"""Consolidation over HTTP: dry run, runs, merges, lineage, and the merges that a memory lists."""

from __future__ import annotations

import pytest

from tests.api.caller import Api
from tests.services.mergeable import LIKE, Alike


@pytest.fixture
def merged(api: Api) -> Alike:
    """The caller's tenant with one merged group."""
    alike = Alike(api.service, tenant_id=api.tenant.tenant_id)
    alike.remember(*LIKE, subject="ann")
    return alike


def test_a_dry_run_lists_the_groups_and_writes_nothing(api: Api, merged: Alike) -> None:
    found = api.post("/v1/maintenance/consolidate", json={"dry_run": True, "level": "light"}).json()
    [change] = found["changes"]
    assert (change["action"], change["level"], change["waits"]) == ("summary", "light", False)
    assert (len(change["memories"]), len(change["kept"])) == (len(LIKE) - 1, 1)
    assert found["counts"] == {"looked_at": len(LIKE), "clusters": 1}
    assert found["complete"]
    assert not merged.summaries()
    assert api.get("/v1/consolidation/runs").json() == {"runs": [], "next_cursor": None}


def test_a_summary_says_what_it_was_made_of_and_so_do_its_sources(api: Api, merged: Alike) -> None:
    merged.run()
    [summary_id] = merged.summaries()
    assert api.get(f"/v1/memories/{summary_id}").json()["made_by"] == "consolidation"
    made = api.get(f"/v1/memories/{summary_id}/lineage").json()["made_from"]
    assert (made["summary_id"], made["status"], made["method"]) == (str(summary_id), "done", "extractive")
    [source, *_] = [each["id"] for each in made["memories"] if each["part"] == "source"]
    assert api.get(f"/v1/memories/{source}/lineage").json() == {
        "id": source,
        "made_from": None,
        "merged_into": [made],
    }
    search = {"query": "boat in the harbour", "explain": True, "reinforce": False}
    results = api.post("/v1/search", json=search).json()["results"]
    reported = {result["id"]: result["explain"]["made_by"] for result in results}
    assert reported[str(summary_id)] == "consolidation"
    assert set(reported.values()) == {"consolidation", "caller"}
    [run] = api.get("/v1/consolidation/runs").json()["runs"]
    assert (run["started_by"], run["merged"], run["summaries"]) == ("hand", len(LIKE) - 1, 1)


def test_merges_are_paged_and_undone(api: Api, merged: Alike) -> None:
    merged.remember("a cat sleeps", "a cat sleeps well")
    merged.run()
    first = api.get("/v1/consolidation/merges?limit=1").json()
    second = api.get(f"/v1/consolidation/merges?limit=1&cursor={first['next_cursor']}").json()
    found = {merge["action"]: merge["id"] for page in (first, second) for merge in page["merges"]}
    assert found.keys() == {"link", "summary"}
    assert api.post(f"/v1/consolidation/merges/{found['summary']}/undo").json()["status"] == "undone"
    again = api.post(f"/v1/consolidation/merges/{found['summary']}/undo")
    assert (again.status_code, "undone" in again.json()["detail"]) == (409, True)
    undone = api.get("/v1/consolidation/merges?status=undone").json()["merges"]
    assert [merge["id"] for merge in undone] == [found["summary"]]
    assert api.get("/v1/consolidation/merges/nobody").status_code == 404
