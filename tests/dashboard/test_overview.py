"""The overview page, its event stream, and the manual actions on the night."""

from __future__ import annotations

import asyncio
import os
import re
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from itertools import count
from types import SimpleNamespace
from uuid import UUID

import pytest

from app import heartbeats, queues, shutdown
from app.api.http.problem_responses import as_ours
from app.clients.llm import provider_health
from app.clients.llm.resilience import ProviderFailed, Reason
from app.clients.redis import stream
from app.clients.redis.connection import HEARTBEATS, QUEUE
from app.clients.redis.connection_check import QueueReplaced, verify_connections
from app.dashboard import rendering, sessions
from app.dashboard.access import Viewer
from app.dashboard.pages import overview, runbook
from app.domain import operator_advice
from app.domain.policy.policy import Policy
from app.domain.runbook import EXPLANATIONS, reason_path
from app.services.ingest import witness
from app.services.jobs import schedule
from app.services.monitoring import doctor_stores, provider_status, status
from app.services.monitoring.lane_rates import Rates
from app.services.monitoring.stats import Lane
from app.services.night import steps
from app.services.night.steps import STEPS
from app.services.tiers.dry_run import PredictedMove, PreviewPage
from app.settings import settings
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.system.running_home import PREVIOUS_END
from tests.api.admin.test_status import families
from tests.api.caller import Api
from tests.dashboard.visitor import ORIGIN, Visitor, said

Visit = Callable[..., Visitor]


@pytest.fixture
def well(api: Api) -> None:
    for source in heartbeats.SOURCES:
        heartbeats.record_heartbeat(source)
    api.tenant  # noqa: B018 - creates the tenant before the tick
    schedule.insert_due_runs(schedule.DEFAULT_SCHEDULE)


def test_it_says_in_one_line_that_all_is_well(well: None, visit: Visit) -> None:
    words = said(visit().page("/"))
    assert "No problems found All queues are empty." in words
    for lane in queues.LANES:
        assert lane in words


def test_what_waits_is_counted(api: Api, well: None, visit: Visit) -> None:
    api.remember("x", "y", work=False)
    words = said(visit("maintain").page("/now"))
    assert "Waiting: 2 memories in ingest (the oldest for" in words
    assert "ingest just now 2" in words


@pytest.mark.parametrize(
    ("depths", "sentence"),
    [
        ({}, "What waits in the queues is unknown."),
        ({"ingest": 0, "embed": 0}, "All queues are empty."),
        ({"ingest": 2, "embed": 0}, "Waiting: 2 memories in ingest (the oldest for 1.0 s)."),
        ({"ingest": 0, "embed": 3}, "Waiting: 3 memories in embed (the oldest for 1.0 s)."),
        (
            {"score": 1, "rights": 1},
            "Waiting: 1 memory in score (the oldest for 1.0 s), 1 job in rights (the oldest for 1.0 s).",
        ),
    ],
)
def test_the_sentence_about_the_queues_agrees_with_the_table(depths: dict[str, int], sentence: str) -> None:
    health = status.Status([], {name: Lane(depth, 1.0) for name, depth in depths.items()}, {}, 0, 0.0)
    assert sentence in said(rendering.render("live", None, health=health))


def test_both_rates_of_a_queue_have_the_same_unit() -> None:
    rates = {"ingest": Rates(1.9 / 60, 58 / 3600, None, [])}
    health = status.Status([], {"ingest": Lane(2, 1.0)}, {}, 0, 0.0, rates)
    assert "1.9/min 0.97/min" in said(rendering.render("live", None, health=health))


def test_the_next_run_is_shown_with_its_date(api: Api, well: None, visit: Visit) -> None:
    [shown] = schedule.list_schedules(api.tenant.tenant_id)
    words = said(visit().page("/"))
    assert re.search(rf"Next run in [0-9a-z ]+ {shown.schedule.next_run_at:%Y-%m-%d %H:%M} UTC", words)


def test_the_night_is_run_paused_and_resumed(api: Api, well: None, visit: Visit) -> None:
    visitor = visit()
    assert visitor.act("/schedule/night/run") == "/?done=run"
    [shown] = schedule.list_schedules(api.tenant.tenant_id)
    assert shown.last_run is not None
    assert shown.last_run.kind == "by_hand"
    words = said(visitor.page("/?done=run"))
    assert "The run is queued" in words
    assert all(step in words for step in STEPS)
    for act, paused in (("pause", True), ("resume", False)):
        visitor.act(f"/schedule/night/{act}")
        assert [one.schedule.paused for one in schedule.list_schedules(api.tenant.tenant_id)] == [paused]
    assert visitor.send("/schedule/nothing/run").status_code == 404


def test_the_next_run_can_be_previewed(api: Api, well: None, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (UUID(bytes=bytes([number]) * 16) for number in (1, 2))
    moves = [PredictedMove(which, "active", "archived", "decay", "its strength is low") for which in (first, second)]
    asked: list[tuple[object, ...]] = []

    def preview(tenant_id: UUID, as_of: datetime | None, after: UUID, limit: int) -> PreviewPage:
        asked.append((tenant_id, as_of, after))
        page = moves[:1] if after == NIL else moves[1:]
        return PreviewPage(page, {"looked_at": 1, "archived": 1}, first if after == NIL else None)

    monkeypatch.setattr(steps, "dry_runs", lambda: dict.fromkeys(STEPS, "does no such thing") | {"sweep": preview})
    visitor = visit("maintain")
    assert 'href="/ops/schedule/night/preview"' in visitor.page("/")
    page = visitor.page("/schedule/night/preview")
    words = said(page)
    assert "keep_chances Does no such thing" in words
    assert "sweep 1 decided: archived" in words
    assert f"sweep {first} active archived its strength is low" in words
    [following] = re.findall(r'href="/ops(/schedule/night/preview\?as_of=[^"]+)"', page)
    words = said(visitor.page(following.replace("&amp;", "&")))
    assert f"sweep {second} active archived" in words
    assert "graphs Does no such thing" in words
    assert [call[2] for call in asked] == [NIL, first]
    assert asked[1][1] is not None
    assert asked[0][1] == asked[1][1], "all pages are evaluated at one time"
    assert api.service.rows("SELECT 1 FROM jobs") == []
    assert visitor.get("/schedule/nothing/preview").status_code == 404
    assert visitor.get("/schedule/night/preview?cursor=nonsense").status_code == 422
    assert visit("read").get("/schedule/night/preview").status_code == 403


def test_a_restarted_worker_and_the_meaning_of_the_columns_are_shown(
    api: Api, well: None, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "os", SimpleNamespace(getpid=count(1).__next__, environ={}))
    for source in ("embed", "embed", "embed", "beat", "score"):
        heartbeats.record_start(source)
    environment = {PREVIOUS_END: "exit code 1"}
    monkeypatch.setattr(heartbeats, "os", SimpleNamespace(getpid=count(9).__next__, environ=environment))
    heartbeats.record_start("beat")
    status.forget()
    page = visit("maintain", "admin").page("/now")
    words = said(page)
    assert re.search(r"embed just now restarted \S+ m?s ago, 2 times in the last hour", words), words
    assert re.search(r"Scheduler \(beat\): restarted \S+ m?s ago after exit code 1, once in the last hour\.", words), (
        words
    )
    assert words.count("restarted") == 2
    assert "Added and Processed are averages of the last 5 minutes" in words
    assert 'title="Memories or jobs that arrived, averaged over the last 5 minutes"' in page


def test_a_failed_step_is_named(api: Api, well: None, visit: Visit) -> None:
    run = schedule.run(api.tenant.tenant_id, "night")
    state = '{"step": null, "left": [], "failed": {"archive": "OSError"}}'
    api.service.rows(
        "UPDATE jobs SET status = 'failed', started_at = now(), finished_at = now(), state = %s::jsonb, "
        'counts = \'{"sweep": 7, "sweep.archived": 3}\' WHERE job_id = %s',
        state,
        run.job_id,
    )
    status.forget()
    words = said(visit().page("/"))
    assert "archive failed: OSError – cold done – delete done –" in words
    assert "The last nightly run failed at the step archive" in words
    assert "7 examined, 3 archived" in " ".join(words.split()).replace(" ,", ",")


@pytest.mark.parametrize(
    ("status", "state", "shown"),
    [
        ("queued", "{}", "sweep queued – erasures queued –"),
        ("running", '{"step": "cold", "left": ["cold", "delete"]}', "archive done – cold running – delete pending –"),
        (
            "done",
            '{"step": "cold", "cut_short": "cold", "left": ["cold", "delete"]}',
            "cold time limit reached – delete not started",
        ),
        ("failed", '{"step": "cold", "left": ["cold", "delete"]}', "archive done – cold failed – delete not started –"),
        ("cancelled", '{"step": "cold", "left": ["cold", "delete"]}', "cold not started – delete not started –"),
    ],
    ids=lambda value: value if value.isalpha() else "",
)
def test_each_step_says_how_far_it_is(api: Api, well: None, visit: Visit, status: str, state: str, shown: str) -> None:
    run = schedule.run(api.tenant.tenant_id, "night")
    api.service.rows(
        "UPDATE jobs SET status = given.status, state = %s::jsonb, "
        "started_at = CASE WHEN given.status <> 'queued' THEN now() END, "
        "finished_at = CASE WHEN given.status NOT IN ('queued', 'running') THEN now() END "
        "FROM (SELECT %s AS status) AS given WHERE job_id = %s",
        *(state, status, run.job_id),
    )
    assert shown in said(visit().page("/"))


@pytest.mark.parametrize(
    ("quota", "shown"), [(None, "no quota"), (1_000_000_000, "below the quota"), (1, "over the quota")]
)
def test_room_is_told_beside_the_quota(api: Api, well: None, visit: Visit, quota: int | None, shown: str) -> None:
    api.tenant = api.service.tenant(Policy(quota_bytes=quota))
    api.remember("x")
    assert shown in said(visit().page("/"))


def test_one_row_is_told_as_one() -> None:
    assert rendering.format_step({"figures": 1, "sweep": 2, "sweep.moved": 1}, "figures") == [("row", 1)]
    assert rendering.format_step({"expire": 2, "expire.noticed": 0}, "expire") == [("rows", 2)]


def test_memories_that_a_step_only_examined_are_not_told_as_changed() -> None:
    counts = {"promote": 7, "promote.promoted": 0, "sweep": 2, "sweep.cold": 1, "sweep.archived": 0}
    assert rendering.format_step(counts, "promote") == [("examined", 7), ("promoted", 0)]
    assert rendering.format_step(counts, "sweep") == [("examined", 2), ("cold", 1)]


def test_it_is_shown_while_a_store_is_away(api: Api, well: None, visit: Visit) -> None:
    visitor = visit()
    api.service.configure(redis_url="redis://127.0.0.1:1/0")
    stream.close()
    status.forget()
    words = said(visitor.page("/"))
    assert "Redis can't be reached" in words
    api.service.configure(redis_url=api.service.redis_url)
    stream.close()
    database.close()
    own = api.service.database_url
    api.service.configure(database_url="postgresql://nobody@127.0.0.1:1/nothing")
    status.forget()
    try:
        words = said(visitor.page("/"))
        assert "PostgreSQL can't be reached" in words
        assert "schedule is unavailable" in words
    finally:
        database.close()
        api.service.configure(database_url=own)


def test_a_redis_that_is_refused_is_named_with_its_remedy(api: Api, well: None, visit: Visit) -> None:
    visitor = visit()
    witness.guard_connections()
    try:
        for _ in range(2):  # the first connection marks a new Redis, the second one finds the mark
            stream.close()
            stream.client().ping()
        api.service.redis.hdel(QUEUE, "epoch")
        stream.close()
        status.forget()
        words = said(visitor.page("/"))
        assert "Redis was emptied or replaced" in words
        assert "run this command" in words
        assert '<code class="command">ebbing queue accept</code>' in visitor.page("/"), "with a button that copies it"
        assert 'href="/ops/runbook#redis-refused"' in visitor.page("/")
        assert families(api)["ebbing_redis_replaced"] == {(): 1}
        [printed] = [each for each in api.get("/readyz", key=None).json()["dependencies"] if each["name"] == "redis"]
        assert (printed["well"], "ebbing queue accept" in printed["detail"]) == (False, True)
        assert [each.detail for each in doctor_stores.queue()] == [printed["detail"]]
        refused = as_ours(QueueReplaced("Redis belongs to another installation"))
        assert (refused.status, refused.detail) == (503, "Redis belongs to another installation")

        witness.accept_queue(api.tenant.tenant_id, "key")
        stream.close()
        assert families(api)["ebbing_redis_replaced"] == {(): 0}
        assert list(doctor_stores.queue()) == []
    finally:
        verify_connections(None)
        stream.close()


async def first_events(viewer: Viewer, streams: overview.Streams) -> list[bytes]:
    made, found = overview._events(viewer, streams), []
    async for event in made:
        found.append(event)
        shutdown._told.set()
    return found


def test_the_stream_sends_the_page_as_it_changes(api: Api, well: None, visit: Visit) -> None:
    visitor = visit()

    async def read() -> list[bytes]:
        streams = overview.Streams()
        session = sessions.start_session(api.tenant.key_id, api.tenant.tenant_id)
        viewer = Viewer(session, api.tenant.tenant_id, api.tenant.tenant_id, api.tenant.key_id, frozenset())
        found = await asyncio.wait_for(first_events(viewer, streams), 10)
        assert streams.count == 0
        return found

    try:
        [event] = api.run(read())
    finally:
        shutdown._told.clear()
    assert event.startswith(b"event: now\ndata: ")
    assert event.endswith(b"\n\n")
    assert all(line.startswith(b"data: ") for line in event.strip().splitlines()[1:])
    assert "No problems found" in said(event.decode())
    assert visitor.get("/now").status_code == 200


def test_a_stream_ends_with_its_session(api: Api) -> None:
    session = sessions.start_session(api.tenant.key_id, api.tenant.tenant_id)
    viewer = Viewer(session, api.tenant.tenant_id, api.tenant.tenant_id, api.tenant.key_id, frozenset())
    sessions.end_session(session)
    assert api.run(first_events(viewer, overview.Streams())) == []


@pytest.mark.parametrize("is_other_process", [False, True])
def test_a_log_out_ends_an_open_stream(
    api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch, is_other_process: bool
) -> None:
    monkeypatch.setattr(overview, "EVERY_SECONDS", 0.0)
    visitor, streams = visit(), overview.Streams()
    form, headers = {"token": visitor.token}, {"cookie": f"{sessions.COOKIE}={visitor.cookie}", "origin": ORIGIN}
    session = sessions.open_session(visitor.cookie)
    assert session
    viewer = Viewer(session, session.shown, session.shown, session.key_id, frozenset({"read"}))

    def go_on(_: Viewer) -> None:
        raise AssertionError("the stream continued after the log-out")

    async def read() -> list[bytes]:
        events = []
        async for event in overview._events(viewer, streams):
            events.append(event)
            assert streams.count == 1
            answer = await api.send("POST", "/ops/log-out", key=None, data=form, headers=headers)
            assert answer.status_code == 303
            if is_other_process:
                monkeypatch.setattr(sessions, "_ended_here", OrderedDict())
            monkeypatch.setattr(overview, "_read_live_part", go_on)
        return events

    [event] = api.run(read())
    assert event.startswith(b"event: now\n")
    assert streams.count == 0


def test_too_many_streams_are_refused_and_the_page_asks_by_itself(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "STREAMS_MAX", 0)
    visitor = visit()
    assert visitor.get("/events").status_code == 503
    assert 'hx-trigger="every' in visitor.page("/")


def test_a_finding_has_its_command_and_its_section_of_the_runbook(api: Api, well: None, visit: Visit) -> None:
    api.service.configure(installation="compose")
    api.service.redis.hdel(HEARTBEATS, "embed")
    html = visit().page("/")
    assert '<code class="command">docker compose restart worker-embed</code>' in html
    assert 'href="/ops/runbook#find-a-stuck-lane"' in html
    assert "`" not in said(html)


def test_the_process_to_end_is_named_only_while_it_exists(api: Api, well: None, visit: Visit) -> None:
    api.service.configure(installation="run", home="/srv/ebbing")
    api.service.redis.hset(HEARTBEATS, "embed", 1)
    visitor = visit()
    assert f"kill -KILL {os.getpid()}" in said(visitor.page("/"))
    api.service.redis.hset(HEARTBEATS, "embed:pid", 2**22 + 1)  # above the largest process id
    status.forget()
    words = said(visitor.page("/"))
    assert "kill" not in words
    assert "tail -n 50 /srv/ebbing/logs/worker-embed.log" in words


def test_every_section_that_a_finding_names_is_in_the_runbook() -> None:
    anchors = set(re.findall(r'<h[1-4] id="([^"]+)"', runbook.render_runbook()))
    named = {advice.section for advice in operator_advice._ADVICE.values()}
    named |= {advice.section for _, advice in operator_advice._BY_PREFIX}
    assert named <= anchors
    assert {reason_path(reason).partition("#")[2] for reason in (*EXPLANATIONS, "SomeError")} <= anchors


def test_a_provider_that_cannot_be_reached_is_on_the_page_and_in_the_metrics(
    api: Api, well: None, visit: Visit
) -> None:
    visitor = visit()
    assert "Model providers" not in said(visitor.page("/"))
    assert "ebbing_provider_failing" not in families(api)
    api.service.configure(openai_base_url="http://127.0.0.1:9/v1", salience_model="small")
    provider_status.check_connection()
    status.forget()
    words = said(visitor.page("/"))
    assert "1 warning to review" in words
    assert "The model provider at 127.0.0.1:9 can't be reached (no connection)" in words
    assert "without EBBING_OPENAI_BASE_URL and without EBBING_OPENAI_API_KEY" in words
    assert "connection failing 127.0.0.1:9 –" in words
    assert "ratings not called yet small at 127.0.0.1:9" in words
    found = families(api)
    assert found["ebbing_provider_failing"]["connection",] == 1
    assert found["ebbing_provider_failing"]["score",] == 0
    assert found["ebbing_provider_failures_in_row"]["connection",] == 1
    assert set(found["ebbing_provider_last_failure_timestamp_seconds"]) == {("unreachable", "connection")}
    assert "ebbing_provider_last_success_timestamp_seconds" not in found
    assert "ebbing_provider_paused_until_timestamp_seconds" not in found
    target = next(one for one in provider_health.list_targets(settings()) if one.use == "score")
    provider_health.record(target, ProviderFailed(Reason.RATE_LIMITED, retry_after_seconds=1800), 45)
    found = families(api)
    assert set(found["ebbing_provider_paused_until_timestamp_seconds"]) == {("rate_limited", "score")}
    status.forget()
    assert "open, pause requested until " in said(visitor.page("/"))
    [connection, *_] = api.get("/v1/stats").json()["providers"]
    assert (connection["state"], connection["failure"]) == ("failing", "unreachable")
    assert api.get("/readyz", key=None).status_code == 200  # the service works without its provider
