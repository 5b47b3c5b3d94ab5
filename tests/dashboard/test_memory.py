"""The page of a memory: its fields, its strength over time, the reason for its tier, and its relations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from app.dashboard import svg_graph, text_display
from app.dashboard.pages.memory import draw_curve
from app.domain.formatting import format_number
from app.services.consolidation import merge_log
from app.services.memories import explanation
from app.services.security import operator_log
from app.services.storage import lookup
from app.services.strength import memory_curve
from app.store.memories.memories import StoredMemory
from tests.api.caller import Api
from tests.dashboard.odd import RICH, assert_inert
from tests.dashboard.visitor import Visitor, said
from tests.services.mergeable import LIKE, Alike

Visit = Callable[..., Visitor]
NOBODY = "00000000-0000-0000-0000-000000000001"


def test_it_tells_what_is_known(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember(
        {"text": "Ann likes her tea green", "subject": "ann", "tags": ["taste"], "metadata": {"from": "a call"}}
    )
    api.post(f"/v1/memories/{memory_id}/touch", json={})
    html = visit("read").page(f"/memories/{memory_id}")
    shown = said(html)
    for word in ("Ann likes her tea green", "taste", "a call", "accepted", "used: strength", "by rules", memory_id):
        assert word in shown
    explained = explanation.explain_tier(api.tenant.tenant_id, UUID(memory_id))
    assert explained.verdict.why.partition(",")[2] in shown
    assert explained.change is not None
    assert f"Next change, if unused: {explained.change.tier}" in shown
    assert "<details" not in html  # no action available
    numbers = api.get(f"/v1/memories/{memory_id}").json()
    assert f"Strength: 1 at creation, {format_number(numbers['strength'])} now" in html


@pytest.mark.parametrize("given", [{"role": "assistant"}, {"speaker": "assistant"}])
def test_it_names_the_role(api: Api, visit: Visit, given: dict[str, str]) -> None:
    [memory_id] = api.remember({"text": "Ann likes her tea green", **given})
    html = visit("read").page(f"/memories/{memory_id}")
    assert '<th scope="row">Role</th><td><bdi>assistant</bdi></td>' in html


@pytest.mark.parametrize(
    ("removed", "shown"),
    [
        ([], "words and meaning"),
        (["embeddings"], "words"),
        (["memory_words"], "meaning"),
        (["memory_words", "embeddings"], "nothing yet"),
    ],
)
def test_it_says_how_the_memory_is_searchable(api: Api, visit: Visit, removed: list[str], shown: str) -> None:
    [memory_id] = api.remember("Ann likes her tea green")
    for table in removed:
        api.service.rows(f"DELETE FROM {table} WHERE memory_id = %s", memory_id)  # noqa: S608 - a table's name
    html = visit("read").page(f"/memories/{memory_id}")
    assert f'<th scope="row">Searchable by</th><td>{shown}</td>' in html


def test_its_curve_has_past_and_future_levels_and_events(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember("Ann likes her tea green")
    for session in "abc":
        api.post(f"/v1/memories/{memory_id}/touch", json={"session": session})
    html = visit("read").page(f"/memories/{memory_id}")
    assert 'class="line-a"' in html
    assert 'class="line-future"' in html
    assert html.count('class="mark-use"') == 3
    for level in ("archived below 0.3", "cold below 0.15", "deleted below 0.05"):
        assert level in html


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"salience": 0.95}, "protected by salience after the grace period: never leaves the active tier"),
        ({"salience": 0.01, "tags": ["promise"]}, "protected permanently: never leaves the active tier"),
        ({"salience": 0.01, "kind": "system"}, "protected by its kind or importance: never leaves the active tier"),
    ],
    ids=["salience", "tag", "kind"],
)
def test_the_curve_shows_what_protects_a_memory_from_its_thresholds(
    api: Api, visit: Visit, given: dict[str, Any], words: str
) -> None:
    [memory_id] = api.remember({"text": "Ann keeps bees"} | given)
    html = visit("read").page(f"/memories/{memory_id}")
    [chart] = re.findall(r'<svg class="chart".*?</svg>', html, flags=re.DOTALL)
    assert f">{words}</text>" in chart
    assert "archived below 0.3 unless protected" in chart
    if "after the grace period" in words:
        now = (
            r"it stays in the active tier. Now, because of the grace period: memories aren't moved or deleted for lack "
            r"of use in their first 7 days; this one was received .* ago ?\. "
        )
        assert re.search(now + r"Later: salience 0\.95 is above", said(html)), re.findall(
            "Its strength .*Later.*", said(html)
        )
    else:
        assert "This memory stays in the active tier although its strength falls, because " in said(html)
    assert "No further tier changes are expected." in said(html)


def test_a_protection_that_ends_is_shown_with_its_end(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember({"text": "Ann keeps bees", "salience": 0.01})
    html = visit("read").page(f"/memories/{memory_id}")
    assert re.search(
        r">protected by its grace period for now; if unused, it leaves the active tier on 20\d\d-\d\d-\d\d</text>", html
    )
    api.service.rows("UPDATE memories SET created_at = now() - interval '9 days'")
    api.service.rows("UPDATE memory_state SET created_at = now() - interval '9 days'")
    assert "protected" not in said(visit("read").page(f"/memories/{memory_id}")).replace("Protected by tag", "")


def test_marks_and_levels_stand_at_their_strengths(api: Api) -> None:
    [memory_id] = api.remember({"text": "Ann likes her tea green", "salience": 0.2})
    api.service.rows(
        "UPDATE memory_state SET created_at = now() - interval '9 days', "
        "accessed_at = now() - interval '9 days', anchored_at = now() - interval '9 days'"
    )
    api.service.rows("UPDATE memories SET created_at = now() - interval '9 days'")
    api.post(f"/v1/memories/{memory_id}/touch", json={})
    tenant_id = api.tenant.tenant_id
    stored = lookup.get(tenant_id, UUID(memory_id))
    assert isinstance(stored, StoredMemory)
    drawn = memory_curve.draw_curve(tenant_id, stored)
    svg = str(draw_curve(drawn))
    [(_, strength)] = [mark for mark in drawn.course.marks if mark[0].kind == "use"]
    bottom, top, inner = 216, 10, 206
    [height] = re.findall(r'class="mark-use" cx="[\d.]+" cy="([\d.]+)"', svg)
    assert float(height) == pytest.approx(bottom - strength * inner, abs=0.1)
    points = re.search(r'class="line-a" fill="none" points="([^"]+)"', svg)
    assert points
    drawn_at = [float(point.split(",")[1]) for point in points[1].split()]
    assert drawn_at[0] == top
    assert drawn_at[-1] == pytest.approx(bottom - drawn.course.past[-1].strength * inner, abs=0.1)
    levels = [float(y) for y in re.findall(r'class="level" x1="[\d.]+" x2="[\d.]+" y1="([\d.]+)"', svg)]
    assert levels == pytest.approx([bottom - value * inner for value in (0.3, 0.15, 0.05)], abs=0.1)


def test_what_it_says_is_inert(api: Api, visit: Visit) -> None:
    rich, other = api.remember(RICH, "another")
    api.post("/v1/links", json={"from": other, "to": rich, "kind": "<script>alert(1)</script>"})
    visitor = visit("read")
    for memory_id in (rich, other):
        html = visitor.page(f"/memories/{memory_id}")
        assert "<script>alert(1)</script>" in said(html)
        assert_inert(html)
    assert "⟨U+202E⟩Mallory" in visitor.page(f"/memories/{rich}")


@pytest.mark.parametrize("memory_id", [NOBODY, "nothing", "javascript:alert(1)", "%3Cscript%3E"])
def test_one_that_never_was_is_told_plainly(visit: Visit, memory_id: str) -> None:
    answer = visit("read").get(f"/memories/{memory_id}")
    assert answer.status_code == 404
    assert "Memory not found" in said(answer.text)
    assert_inert(answer.text)


def test_one_that_was_deleted_shows_nothing(api: Api, visit: Visit) -> None:
    kept, gone = api.remember("a heron", "an otter")
    api.post("/v1/links", json={"from": kept, "to": gone})
    assert api.delete(f"/v1/memories/{gone}").status_code == 202
    visitor = visit("read")
    answer = visitor.get(f"/memories/{gone}")
    assert answer.status_code == 404
    assert "otter" not in answer.text
    assert "otter" not in visitor.page(f"/memories/{kept}")
    assert gone not in visitor.page(f"/memories/{kept}")


def test_one_that_waits_says_so(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember(RICH, work=False)
    html = visit("read").page(f"/memories/{memory_id}")
    assert "is being stored" in said(html)
    assert_inert(html)


def test_another_tenant_s_is_none(api: Api, visit: Visit) -> None:
    other = api.service.tenant()
    [memory_id] = api.remember("a heron", key=other.key)
    assert visit("read").get(f"/memories/{memory_id}").status_code == 404


def test_it_needs_the_scope_read(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember("a heron")
    answer = visit("maintain", "privacy").get(f"/memories/{memory_id}")
    assert answer.status_code == 403
    assert "heron" not in answer.text


def test_a_summary_shows_what_it_was_made_of_and_they_show_it(api: Api, visit: Visit) -> None:
    alike = Alike(api.service, tenant_id=api.tenant.tenant_id)
    sources = alike.remember(*LIKE)
    assert alike.run()["merged"]
    visitor = visit("read")
    [made] = merge_log.list_merges(api.tenant.tenant_id, "done", None, 10)
    summary, taken = made.merge.summary_id, [each.memory_id for each in made.ancestors if each.part == "source"]
    assert set(taken) <= set(sources)
    html = visitor.page(f"/memories/{summary}")
    for source in taken:
        assert f'<a href="/ops/memories/{source}" tabindex="-1">' in html
        assert f'Source memory: <a href="/ops/memories/{source}">' in html
    html = visitor.page(f"/memories/{taken[0]}")
    assert f'Summary of this memory: <a href="/ops/memories/{summary}">' in html
    assert 'class="node here"' in html
    assert "archived" in said(html)


def test_what_has_taken_its_place_is_linked(api: Api, visit: Visit) -> None:
    [old] = api.remember("Ann drinks tea")
    [new] = api.remember({"text": "Ann drinks coffee", "supersedes": old})
    visitor = visit("read")
    assert f'Supersedes this memory: <a href="/ops/memories/{new}">' in visitor.page(f"/memories/{old}")
    assert "Superseded since" in visitor.page(f"/memories/{old}")
    assert f'Superseded by this memory: <a href="/ops/memories/{old}">' in visitor.page(f"/memories/{new}")


def test_findings_retention_and_holds_are_told(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember({"text": "write to ann@example.com", "categories": ["work"]})
    placed = api.post("/v1/privacy/holds", json={"memory_ids": [memory_id], "reason": "the case of the heron"})
    assert placed.status_code == 201
    shown = said(visit("read").page(f"/memories/{memory_id}"))
    assert "Personal data detected: email" in shown
    assert "Retention period: 365 days for the category Work" in shown
    assert placed.json()["id"] in shown
    assert "heron" not in shown
    assert "The text contains names or addresses" not in shown
    [named] = api.remember({"text": "My sister Ingrid lives at 12 Oak Street with Tomasz."})
    shown = said(visit("read").page(f"/memories/{named}"))
    assert "The only personal data detected are names or addresses: " in shown
    assert "person name (2), street address (1). They affect retention only if the policy lists" in shown
    assert "the case of the heron" in said(visit("read", "privacy").page(f"/memories/{memory_id}"))


def test_an_archived_one_is_brought_back(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember("a heron")
    api.service.rows("UPDATE memory_state SET tier = 'archived', wanted_tier = 'archived'")
    assert "/restore" not in visit("read").page(f"/memories/{memory_id}")
    visitor = visit("read", "ingest")
    assert "/restore" in visitor.page(f"/memories/{memory_id}")
    path = f"/memories/{memory_id}/restore"
    assert visitor.send(path, {"reason": ""}).status_code == 422
    assert visit("read", "maintain").send(path).status_code == 403
    assert visitor.send(f"/memories/{NOBODY}/restore").status_code == 404
    assert api.get(f"/v1/memories/{memory_id}").json()["tier"] == "archived"
    assert visitor.act(path) == f"/memories/{memory_id}?done=restored"
    assert api.get(f"/v1/memories/{memory_id}").json()["tier"] == "active"
    assert "/restore" not in visitor.page(f"/memories/{memory_id}?done=restored")
    acts = operator_log.list_actions(api.tenant.tenant_id)
    assert (acts[0].act, acts[0].target) == ("restore_memory", memory_id)


def test_one_in_cold_storage_is_fetched_by_a_job(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember("a heron")
    api.service.rows("UPDATE memory_state SET tier = 'cold', wanted_tier = 'cold'")
    visitor = visit("read", "ingest")
    assert "This memory is in cold storage" in said(visitor.page(f"/memories/{memory_id}"))
    assert visitor.act(f"/memories/{memory_id}/restore") == f"/memories/{memory_id}?done=restored"
    assert api.service.one("SELECT parameters->'ids'->>0 FROM jobs WHERE kind = 'restore'") == memory_id


def test_its_history_goes_on_by_pages(api: Api, visit: Visit) -> None:
    [memory_id] = api.remember("a heron")
    for session in range(31):
        api.post(f"/v1/memories/{memory_id}/touch", json={"session": f"s{session}"})
    visitor = visit("read")
    html = visitor.page(f"/memories/{memory_id}")
    assert len(re.findall("used: strength|promoted: frequent use", html)) == 30
    older = re.search(r'href="/ops(/memories/[^"]+cursor=[^"]+)"', html)
    assert older
    assert "accepted" in said(visitor.page(older[1]))
    assert visitor.get(f"/memories/{memory_id}?cursor=x").status_code == 422


def test_columns_go_from_what_was_first_to_what_became_of_it() -> None:
    one, two, three, four = (UUID(int=n) for n in range(1, 5))
    assert svg_graph.assign_columns(two, [(one, two), (two, three), (four, three)]) == {
        one: -1,
        two: 0,
        three: 1,
        four: 0,
    }


def test_signs_that_steer_are_written_out() -> None:
    assert text_display.make_visible("a\u202eb\u0007\x7f\ud800\n\tc") == "a⟨U+202E⟩b⟨U+0007⟩⟨U+007F⟩⟨U+D800⟩\n\tc"
    assert text_display.make_visible("שלום \u200f 日本 👩\u200d🔬") == "שלום \u200f 日本 👩\u200d🔬"
    assert text_display.shorten("one\ntwo three", 8) == "one two…"
    assert text_display.make_visible(None) == ""


def test_a_correction_and_a_name_that_waits_are_shown(api: Api, visit: Visit) -> None:
    [old] = api.remember({"text": "My flight is on the 14th of May.", "occurred_at": "2026-03-01T09:00:00Z"})
    given = {
        "text": "The flight was moved to the 17th.",
        "occurred_at": "2026-03-02T09:00:00Z",
        "supersedes": "<nowhere>",
    }
    [new] = api.remember(given)
    visitor = visit("read")
    assert f'Corrects this memory: <a href="/ops/memories/{new}">' in visitor.page(f"/memories/{old}")
    html = visitor.page(f"/memories/{new}")
    assert f'Corrected by this memory: <a href="/ops/memories/{old}">' in html
    assert "<bdi>&lt;nowhere&gt;</bdi>: no memory with this name is stored" in html
