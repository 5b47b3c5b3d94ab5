"""F20: while some tenants flood the service, the others are served in turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import psycopg
import pytest

from app.services.enrichment import stage_runner
from app.services.ingest import drain as ingest
from tests.api.caller import Api
from tests.faults.fault_cluster import Plant
from tests.faults.load import Caller, load
from tests.service import Service
from tests.waiting import until

FLOOD = 100_000
REQUEST = 1000
LIMIT = 50_000  # the default, in memories
TURN_MOST = 5000  # the drain's default
SHARED_MOST = 300  # a stage's first shared turn, with at most half of an item more
STAGES: dict[str, Callable[[], object]] = {
    "index": stage_runner.run_index_stage,
    "embed": stage_runner.embed,
    "score": stage_runner.run_score_stage,
}
TURN, BACKLOG = 100, 2000  # memories


def turns_until(turn: Callable[[], object], happened: Callable[[], object], most: int = 10) -> int:
    """Return the number of turns until `happened` is true."""
    for number in range(1, most + 1):
        turn()
        if happened():
            return number
    pytest.fail(f"not within {most} turns")


def test_one_memory_beside_a_flood_has_the_second_turn(service: Service) -> None:
    """F20: tenant A sends 100,000 memories, of which those over its backlog limit are refused; tenant B sends 1."""
    service.configure(tenant_backlog_memories=LIMIT, slice_seconds=1e-6)  # one turn per slice
    flood = msgspec.json.encode([{"text": f"flood {n}"} for n in range(REQUEST)])
    with Api(service) as api:
        quiet = service.tenant()
        answers = [api.post("/v1/memories", content=flood) for _ in range(FLOOD // REQUEST)]
        accepted = LIMIT // REQUEST
        assert [answer.status_code for answer in answers] == [202] * accepted + [429] * (FLOOD // REQUEST - accepted)
        assert all(int(answer.headers["retry-after"]) > 0 for answer in answers[accepted:])
        assert answers[-1].json()["detail"] == f"{LIMIT} memories are pending for this tenant; the limit is {LIMIT}"
        assert api.post("/v1/memories", json={"text": "a word"}, key=quiet.key).status_code == 202

        flooding = api.tenant.tenant_id
        assert turns_until(ingest.drain_streams, lambda: service.texts(quiet.tenant_id)) == 2
        assert 0 < service.one("SELECT count(*) FROM memories WHERE tenant_id = %s", flooding) <= TURN_MOST
        assert api.post("/v1/memories", content=flood).status_code == 202, "the backlog is below its limit again"

        def has_passed(stage: str) -> bool:
            item = "SELECT FROM tenant_work WHERE tenant_id = %s AND stage = %s"
            return not service.rows(item, quiet.tenant_id, stage)

        for stage, run in STAGES.items():
            assert turns_until(run, partial(has_passed, stage)) <= 2, stage
            done = service.one("SELECT count(*) FROM memories WHERE tenant_id = %s", flooding) - service.one(
                "SELECT sum(cardinality(memory_ids)) FROM tenant_work WHERE tenant_id = %s AND stage = %s",
                flooding,
                stage,
            )
            assert done <= SHARED_MOST, f"the flood's turn in {stage} was short"


def test_a_flood_of_many_tenants_costs_a_quiet_one_a_turn_each(service: Service) -> None:
    """F20: nine tenants flood; the tenth is stored in the tenth turn, however much the others keep sending."""
    service.configure(slice_seconds=1e-6, drain_rows=100)
    flooding = [service.tenant().tenant_id for _ in range(9)]
    for tenant_id in flooding:
        service.send(tenant_id, *(f"flood {n}" for n in range(500)))
    quiet = service.tenant().tenant_id
    service.send(quiet, "a word")

    def drain() -> None:
        ingest.drain_streams()
        for tenant_id in flooding:
            service.send(tenant_id, "more")

    assert turns_until(drain, lambda: service.texts(quiet)) == 10


def test_a_quiet_tenants_memories_are_stored_before_floods_that_came_first(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    """F20, with real processes: quiet tenants send a little while each flood still needs many turns."""
    flooding, quiet = callers(3), callers(6)
    with plant.configured("worker-ingest", EBBING_DRAIN_ROWS=str(TURN)):
        with plant.paused("worker-ingest"):
            with load(flooding, pause_seconds=0):
                until(lambda: all(len(caller.accepted) > BACKLOG for caller in flooding), "a flood of many turns each")
            for caller in quiet:
                caller.send()
        plant.books.wait_until_settled([*flooding, *quiet])

    last = max(plant.books.stored_at(caller)[-1] for caller in quiet)
    assert all(last < plant.books.stored_at(caller)[-1] for caller in flooding)
    plant.books.check([*flooding, *quiet])
    plant.books.check_backlog_is_nought()


# Records, in their order, each item of work that is queued or done, with the transaction that did it.
LOG = """
CREATE TABLE turn_log (place bigserial, event text, stage text, tenant_id uuid, turn bigint);
CREATE FUNCTION log_turn() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO public.turn_log (event, stage, tenant_id, turn)
  VALUES ('done', OLD.stage, OLD.tenant_id, txid_current());
  RETURN NULL;
END $$;
CREATE FUNCTION log_storing() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO public.turn_log (event, stage, tenant_id, turn)
  VALUES ('done', 'drain', NEW.tenant_id, txid_current());
  RETURN NULL;
END $$;
CREATE TRIGGER log_turn AFTER DELETE ON tenant_work FOR EACH ROW EXECUTE FUNCTION log_turn();
CREATE TRIGGER log_storing AFTER INSERT ON envelopes FOR EACH ROW EXECUTE FUNCTION log_storing();
"""
UNLOG = """
DROP TRIGGER IF EXISTS log_turn ON tenant_work;
DROP TRIGGER IF EXISTS log_storing ON envelopes;
DROP FUNCTION IF EXISTS log_turn, log_storing;
DROP TABLE IF EXISTS turn_log;
"""
# Turns of the flood that are complete in a stage between a neighbour's request and its memory: those at work in the
# lane's two processes or threads, and some in the processes that don't serve the neighbour.
TURNS_BETWEEN = """
SELECT own.stage, count(DISTINCT flood.turn) FILTER (WHERE flood.place < own.place),
  count(DISTINCT flood.turn) FILTER (WHERE flood.place > own.place)
FROM turn_log AS own
LEFT JOIN turn_log AS flood ON flood.stage = own.stage AND flood.tenant_id = %(flood)s
  AND flood.place > (SELECT max(place) FROM turn_log WHERE event = 'sent')
WHERE own.tenant_id = %(quiet)s GROUP BY own.stage
"""
TURNS_MOST = 12


def test_a_neighbours_memory_waits_for_a_few_turns_in_each_stage(
    plant: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    """F20, with real processes: turns of a flood of thousands are counted until one memory has passed all stages."""
    flood, quiet = callers(2)
    with psycopg.connect(plant.owner_url, autocommit=True) as owner:
        owner.execute(UNLOG)
        owner.execute(LOG)
        try:
            with plant.paused("worker-embed"), plant.paused("worker-score"):
                for _ in range(6):
                    flood.send(flood.batch(REQUEST))
                owner.execute("INSERT INTO turn_log (event, stage, turn) VALUES ('sent', '', 0)")
                quiet.send(quiet.batch(1))
            plant.books.wait_until_settled([flood, quiet], scored=True)
            values = {"flood": flood.tenant_id, "quiet": quiet.tenant_id}
            turns = {stage: counts for stage, *counts in owner.execute(TURNS_BETWEEN, values)}
        finally:
            owner.execute(UNLOG)
    assert set(turns) == {"drain", *STAGES}
    assert all(before <= TURNS_MOST for before, _ in turns.values()), turns
    assert all(turns[stage][1] > 0 for stage in ("embed", "score")), f"turns of the flood come later, too: {turns}"
    plant.books.check([flood, quiet])
