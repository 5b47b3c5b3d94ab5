"""One chaos run: the service under load, the faults of the plan, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import psycopg
import redis

from tests.chaos import sampling, verdict
from tests.chaos.faults import Faults
from tests.chaos.home import ChaosHome
from tests.chaos.load import HELD, POLICY, Client, Ledger, Load, seeded, total_answers
from tests.chaos.plan import JUMPS, Fault, timeline
from tests.installation import make_tenant
from tests.past_the_door import push
from tests.provider.server import FakeProvider
from tests.waiting import PATIENCE_SECONDS, until

TENANTS: Final = 3
CHECK_EVERY: Final = 40
RECOVERY_SECONDS: Final = 3 * PATIENCE_SECONDS
POISONS: Final = 2
WARM_SECONDS: Final = 10.0
SETTINGS: Final = {
    "EBBING_CLAIM_IDLE_SECONDS": "2",
    "EBBING_LEASE_SECONDS": "3",
    "EBBING_SHUTDOWN_SECONDS": "3",
    "EBBING_DELIVERIES_MAX": "1000",  # kills and expired leases must not make dead letters
    "EBBING_LLM_TIMEOUT_SECONDS": "5",
    "EBBING_LLM_BREAKER_SECONDS": "1",
    "EBBING_SLICE_SECONDS": "2",
}
AWAY: Final = (psycopg.Error, redis.RedisError, OSError, IndexError)


class Run:
    """A run and its `report`."""

    def __init__(self, home: Path, plan: Sequence[Fault], seed: int, calm_seconds: float, *, is_private: bool) -> None:
        self.plan, self.seed, self._calm_seconds = plan, seed, calm_seconds
        self._provider = FakeProvider()
        settings = SETTINGS | {"EBBING_OPENAI_BASE_URL": self._provider.url}
        self.home = ChaosHome(home, settings, is_private=is_private)
        self.faults = Faults(self.home, self._provider)
        self.load = Load()
        self.clients: list[Client] = []
        self.tenants: list[Client] = []
        self.recoveries: list[float] = []
        self._is_cut_short = False
        self.findings: list[str] = []
        self.report: dict[str, Any] = {"seed": seed, "planned": len(plan), "left_out": self.home.left_out}

    def close(self) -> None:
        """Stop everything."""
        self.faults.end_all()
        self.home.close()
        self._provider.close()
        for client in self.clients:
            client.close()

    def cut_short(self) -> None:
        """Begin no more faults, and go on to the verdict."""
        self._is_cut_short = True

    def run(self) -> None:
        """Start the service, go through the plan, and judge."""
        self.home.start()
        self._make_tenants()
        self._wait_until_well("the start")
        sampler = sampling.Sampler(self.home)
        self._start_load()
        time.sleep(WARM_SECONDS)  # so that every pool has opened its connections
        before = sampling.connections(self.home)
        self._storm()
        self._wait_until_well("the end of the faults")
        say("calm: only the load continues")
        began = time.monotonic()
        time.sleep(self._calm_seconds)
        memory = sampler.table(began)
        self.report |= {"memory": memory, "longest_lived": sampler.longest_lived()}
        after = sampling.connections(self.home)
        self.load.stop()
        sampler.stop()
        self._finish()
        self.report["connections"] = {"before": before, "after": after}
        self.findings += sampling.findings(memory, before, after)
        self._judge()

    def _make_tenants(self) -> None:
        owner_url = self.home.books().database_url
        for number in range(TENANTS):
            tenant_id, key = make_tenant(owner_url, f"tenant {number} {token_hex(4)}")
            ledger = Ledger(f"quillwort{self.seed % (1 << 32):08x}")
            ledger.begin_leaver()
            for part in ("ingest", "act", "operate", "check"):
                client = Client(self.home.url, tenant_id, key, self.seed, ledger=ledger)
                client.random = seeded(self.seed, f"{number} {part}")
                self.clients.append(client)
            self.tenants.append(self.clients[-1])
            self.tenants[-1].ask("policy", "PUT", "/v1/policy", json={"policy": POLICY})
            self.tenants[-1].ask("hold", "POST", "/v1/privacy/holds", json={"subject": HELD, "reason": "a dispute"})
            self.tenants[-1].erase(HELD)

    def _start_load(self) -> None:
        steps: dict[int, tuple[Callable[[Client], Callable[[], None]], float]] = {
            0: (lambda client: client.ingest, 0.5),
            1: (lambda client: client.act, 0.3),
            2: (lambda client: client.operate, 6.0),
        }
        for index, client in enumerate(self.clients):
            if (part := index % 4) in steps:
                step, pause = steps[part]
                self.load.add(client, step(client), pause)

    def _storm(self) -> None:
        """Go through the plan's time; it stands still while a supervisor starts, or recovery is awaited."""
        began, begun = time.monotonic(), 0
        for at, is_begin, fault in timeline(self.plan):
            time.sleep(max(0.0, began + at - time.monotonic()))
            if self._is_cut_short:
                break
            paused = time.monotonic()
            if not is_begin:
                self.faults.end(fault)
                continue
            self.faults.begin(fault)
            begun += 1
            say(f"{begun}/{len(self.plan)} {fault}; {self._progress()}")
            if begun % CHECK_EVERY == 0:
                self.faults.end_all()
                self._poison()
                self._wait_until_well(f"fault {begun}")
            if (took := time.monotonic() - paused) > 1:
                began += took
        self.faults.end_all()

    def _progress(self) -> str:
        accepted = sum(len(tenant.ledger.texts) for tenant in self.tenants)
        return f"{accepted:,} accepted, {sum(len(tenant.ledger.leavers) - 1 for tenant in self.tenants)} persons erased"

    def _poison(self) -> None:
        """Put entries into the streams that can't be read."""
        with suppress(redis.RedisError), redis.Redis.from_url(self.home.books().redis_url, protocol=2) as queue:
            for tenant in self.tenants:
                for _ in range(POISONS):
                    push(queue, tenant.tenant_id, b"not json")
                    tenant.ledger.poison += 1

    def _wait_until_well(self, after: str) -> None:
        """Wait until a new memory of each tenant has been stored, indexed and embedded, while the load continues."""
        began = time.monotonic()
        until(self.home.is_well, f"the service is ready after {after}", RECOVERY_SECONDS)
        for tenant in self.tenants:
            known = set(tenant.ledger.texts)
            tenant.ingest(1)
            [new] = sorted(set(tenant.ledger.texts) - known)[:1] or [""]
            until(lambda: self._is_found(tenant, new), lambda: self._explain(after), RECOVERY_SECONDS)  # noqa: B023
        self.recoveries.append(time.monotonic() - began)
        say(f"well again {self.recoveries[-1]:.1f} s after {after}")

    def _is_found(self, tenant: Client, memory_id: str) -> bool:
        with suppress(*AWAY):
            books = self.home.books()
            with psycopg.connect(books.database_url) as owner:
                found = owner.execute(
                    "SELECT (SELECT count(*) FROM memories WHERE tenant_id = %(tenant)s AND memory_id = %(id)s), "
                    "(SELECT count(*) FROM tenant_work WHERE tenant_id = %(tenant)s AND stage IN ('index', 'embed') "
                    "AND %(id)s::uuid = ANY (memory_ids))",
                    {"tenant": tenant.tenant_id, "id": memory_id},
                ).fetchone()
            is_erased = memory_id in tenant.ledger.erased | tenant.ledger.deleted
            return found is not None and (found[0] == 1 or is_erased) and found[1] == 0
        return False

    def _explain(self, after: str) -> str:
        books = self.home.books()
        with suppress(*AWAY):
            return f"a new memory can be found after {after}: {[books._details(each) for each in self.tenants]}"
        return f"a new memory can be found after {after}; the servers don't answer"

    def _finish(self) -> None:
        """Erase everybody who is still to be erased, run a last night, and wait until nothing is under way.

        An erasure that was requested while PostgreSQL's clock was ahead is due when the clock is there again. So the
        clock is set ahead by the longest jump first, if clocks can be moved.
        """
        if "clock" not in self.home.left_out:
            self.home.move_clock("postgres", max(map(int, JUMPS)))
        books = self.home.books()
        self.findings += verdict.wait_until_quiet(books, self.tenants)
        for tenant in self.tenants:
            for leaver in verdict.still_stored(books, tenant):
                tenant.erase(leaver)
        self.findings += verdict.wait_until_quiet(books, self.tenants)
        for tenant in self.tenants:
            tenant.ask("night", "POST", "/v1/schedule/night/run", 409, json={})
        self.findings += verdict.wait_until_quiet(books, self.tenants)

    def _judge(self) -> None:
        books = self.home.books()
        owner = verdict.Owner(books)
        figures: list[dict[str, int]] = []
        try:
            for number, tenant in enumerate(self.tenants):
                say(f"checking tenant {number}")
                counted, wrong = verdict.account(books, tenant)
                figures.append(counted)
                wrong += verdict.check_texts(tenant) + verdict.check_audit(tenant)
                wrong += verdict.check_erasures(owner, tenant) + verdict.check_counts(owner, tenant)
                wrong += tenant.ledger.wrong
                self.findings += [f"tenant {number}: {each}" for each in wrong]
            say("looking for erased words")
            word = self.tenants[0].ledger.sentinel
            found = verdict.find_word(books, owner, self.tenants, self.home.home, word)
            self.findings += [f"an erased word is in {place}" for place in found]
        finally:
            owner.close()
        with suppress(AssertionError):
            books.check_backlog_is_nought()
            self.report["backlog"] = 0
        self.report["tenants"] = figures
        self.report["work_done"] = verdict.summarise(books)

    def summary(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return self.report | {
            "faults": sum(self.faults.begun.values()),
            "faults_by_name": dict(sorted(self.faults.begun.items())),
            "missed": dict(self.faults.missed),
            "starts_of_the_supervisor": self.home.starts,
            "recoveries": len(self.recoveries),
            "longest_recovery_seconds": round(max(self.recoveries, default=0), 1),
            "persons_erased": sum(len(tenant.ledger.leavers) for tenant in self.tenants),
            "answers": dict(total_answers(self.clients).most_common()),
            "errors_in_logs": verdict.errors_in(self.home.home / "logs"),
            "findings": self.findings + self.load.failures,
        }


def say(line: str) -> None:
    """Print a line with the time."""
    print(time.strftime("%H:%M:%S"), line, flush=True)
