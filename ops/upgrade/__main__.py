"""Run two versions of the service beside each other on one PostgreSQL and Redis: a rolling upgrade, and the way back.

The way back leaves the new version's schema in place: the old version must start on it, and finish the new one's work.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import redis

from ops.upgrade import findings
from ops.upgrade.installation import ROOT, WORKERS, Installation, Version, checked_out, home_folder
from ops.upgrade.load import Book, Caller, Load
from tests.past_the_door import push

TENANTS: Final = 2
JOBS: Final = ("sweep", "consolidate", "archive", "expire", "rebase", "selftest", "cold", "delete")
LISTS: Final = ("memories", "privacy/audit", "jobs", "links", "privacy/holds", "consolidation/merges", "reviews")
INGEST_PAUSE_SECONDS: Final = 0.4
ACTION_PAUSE_SECONDS: Final = 0.15
ENTRIES: Final = 3
SUBJECT_MEMORIES: Final = 5
JOB_SECONDS: Final = 240
POLL_SECONDS: Final = 0.5
EXAMPLE: Final = "example: make test-upgrade FROM=HEAD~20 ARGS='--seconds 10'"


class Upgrade:
    """One run: an installation, its tenants, and the load through the APIs of both versions."""

    def __init__(self, installation: Installation, old: Version, seconds: float) -> None:
        """Name the installation and the old version; `run` starts both."""
        self.place, self.old, self.new, self.seconds = installation, old, Version("new", ROOT), seconds
        self.book, self.load, self.findings = Book(), Load(), list[str]()
        self.keys: list[tuple[str, str]] = []
        self.callers: dict[str, list[Caller]] = {}
        self.erasures: list[tuple[Caller, str, str]] = []
        self.erased: set[str] = set()
        self.provoked: set[str] = set()
        self.exports: list[tuple[int, str]] = []
        self.jobs: list[tuple[str, int, str]] = []

    def run(self) -> list[str]:
        """Go through the upgrade, and return what is wrong."""
        place, old, new = self.place, self.old, self.new
        for version in (old, new):
            place.check_code(version)
        place.migrate(old)
        place.start_api(old)
        place.start_workers(old)
        self._make_tenants()
        self._start_load(old)
        self._step("only the old version")
        self._provoke(old)
        self._request(old, "leaver 1")
        place.migrate(new)
        self._step("the old version on the new schema")
        place.start_api(new)
        self._start_load(new)
        self._finish_jobs(new, "the old workers")
        place.start_workers(new)
        self._provoke(new)
        self._request(new, "leaver 2")
        self._step("both versions")
        self._request(old, "leaver 3")
        self._request(new, "leaver 4")
        self._compare()
        self.findings += place.stop(old, *WORKERS)
        self._finish_jobs(old, "the new workers")
        self._step("the old API with the new workers")
        self.findings += place.stop(old, "api")
        self._step("only the new version")
        self._return()
        self.load.stop()
        return self._check(old)

    def _return(self) -> None:
        """Replace the new version by the old one, on the new version's schema and in the middle of its work."""
        place, old, new = self.place, self.old, self.new
        place.start_api(old)
        self._start_load(old, "again")
        self._finish_jobs(old, "the new workers", "on the way back")
        place.start_workers(old)
        self._request(old, "leaver 5")
        self._request(new, "leaver 6")
        self._provoke(old)
        self._step("both versions, on the way back")
        self._compare()
        self.findings += place.stop(new, *WORKERS)
        self._finish_jobs(new, "the old workers", "on the way back")
        self._step("the new API with the old workers")
        self.findings += place.stop(new, "api")
        self._step("only the old version, on the new schema")

    def _step(self, name: str) -> None:
        sent = len(self.book.texts)
        time.sleep(self.seconds)
        print(f"{name}: {len(self.book.texts) - sent} memories in {self.seconds:g} s", flush=True)

    def _make_tenants(self) -> None:
        admin = (self.place.home / "api-key").read_text(encoding="utf-8").strip()
        for number in range(TENANTS):
            made = httpx.post(
                f"{self.place.urls['old']}/v1/admin/tenants",
                json={"name": f"tenant {number}"},
                headers={"authorization": f"Bearer {admin}"},
                timeout=60,
                trust_env=False,
            ).raise_for_status()
            self.keys.append((made.json()["tenant_id"], made.json()["api_key"]))

    def _start_load(self, version: Version, seed: str = "") -> None:
        """Add callers that begin with this version's API, and turn to every other one when it is gone."""
        apis = [(version.name, self.place.urls[version.name])]
        apis += [each for each in self.place.urls.items() if each not in apis]
        for caller in (each for callers in self.callers.values() for each in callers):
            caller.add_api(*apis[0])
        named = [
            Caller(self.book, apis, key, f"{version.name} {seed} {number} {part}")
            for number, (_, key) in enumerate(self.keys)
            for part in range(3)
        ]
        for index, caller in enumerate(named):
            if index % 3 == 0:
                self.load.add(caller, caller.ingest_once, INGEST_PAUSE_SECONDS)
            elif index % 3 == 1:
                self.load.add(caller, caller.act_once, ACTION_PAUSE_SECONDS)
        self.callers[version.name] = named

    def _operators(self, version: Version) -> list[Caller]:
        """Return a caller of each tenant that no thread uses."""
        return self.callers[version.name][2::3]

    def _request(self, version: Version, subject: str) -> None:
        """Request an export, maintenance and nights, the erasure of a subject, and a pause of a schedule."""
        for number, operator in enumerate(self._operators(version)):
            self.erased |= set(operator.send(SUBJECT_MEMORIES, subject=subject))
            until(f"{subject} is stored", lambda: len(listed(operator, subject)) == SUBJECT_MEMORIES)  # noqa: B023
            export = operator.ask("export", "POST", "/v1/privacy/exports", json={"subject": "ann"}).json()
            self.exports.append((number, export["id"]))
            asked = {"subject": subject, "grace_days": 0, "reason": "asked for it"}
            erasure = operator.ask("erase", "POST", "/v1/privacy/erasures", json=asked).json()
            self.erasures.append((operator, erasure["erasure_id"], subject))
            operator.ask("pause", "POST", "/v1/schedule/night/pause", 409)
            operator.ask("resume", "POST", "/v1/schedule/night/resume", 409)
            operator.ask("night", "POST", "/v1/schedule/night/run", 409, json={})
            for kind in JOBS:
                started = operator.ask("job", "POST", f"/v1/maintenance/{kind}", 409, json={})
                if started.is_success:
                    self.jobs.append((version.name, number, started.json()["job_id"]))

    def _finish_jobs(self, version: Version, workers: str, when: str = "") -> None:
        """Start jobs through one version's API, and wait until the other version's workers finish them."""
        before = len(self.jobs)
        self._request(version, f"leaver of {version.name} {when}".strip())
        started = self.jobs[before:]
        done = until(
            f"{workers} finish the jobs of the {version.name} API",
            lambda: all(
                self._operators(version)[number].ask("job", "GET", f"/v1/jobs/{job_id}").json()["status"]
                not in {"queued", "running"}
                for _, number, job_id in started
            ),
        )
        if done:
            print(f"{workers} have finished {len(started)} jobs of the {version.name} API", flush=True)
        else:
            self.findings.append(f"{workers} haven't finished the jobs of the {version.name} API in {JOB_SECONDS} s")

    def _provoke(self, version: Version) -> None:
        """Append unreadable entries; when they are dead letters, discard one, and replay the others."""
        with redis.Redis.from_url(self.place.redis_url, protocol=2) as queue:
            for (tenant_id, _), operator in zip(self.keys, self._operators(version), strict=True):
                for _ in range(ENTRIES):
                    push(queue, tenant_id, b"not json")
                until("unreadable entries are dead letters", lambda: len(letters(operator)) >= ENTRIES)  # noqa: B023
                for place, letter in enumerate(letters(operator)):
                    self.provoked.add(letter["reason"])
                    at = f"/v1/admin/dead-letters/{letter['id']}"
                    if place:
                        operator.ask("replay", "POST", f"{at}/replay", 404, 409)
                    else:
                        operator.ask("discard", "POST", f"{at}/discard", 404, 409, json={"reason": "provoked"})

    def _compare(self) -> None:
        """Compare metrics and routes, and go on with each list of one version in the other."""
        urls = self.place.urls
        described = {name: httpx.get(f"{url}/openapi.json", trust_env=False).json() for name, url in urls.items()}
        self.findings += findings.missing_routes(described["old"], described["new"])
        shown = {name: httpx.get(f"{url}/metrics", trust_env=False).text for name, url in urls.items()}
        self.findings += findings.missing_metrics(shown["old"], shown["new"])
        for name in LISTS:
            for first, then in ((self.old, self.new), (self.new, self.old)):
                page = self._operators(first)[0].ask("list", "GET", f"/v1/{name}", params={"limit": 2}).json()
                if cursor := page.get("next_cursor"):
                    given = {"limit": 2, "cursor": cursor}
                    self._operators(then)[0].ask("next page", "GET", f"/v1/{name}", params=given)

    def _check(self, version: Version) -> list[str]:
        """Check everything through the version that is left, and stop it."""
        place, operators = self.place, self._operators(version)
        print("waiting until nothing is pending", flush=True)
        found = findings.wait_until_settled(place.owner_url, operators)
        for operator in operators:  # a last night recounts
            operator.ask("night", "POST", "/v1/schedule/night/run", 409, json={})
        found += findings.wait_until_settled(place.owner_url, operators)
        api = (version.name, place.urls[version.name])
        readers = {key: Caller(self.book, [api], key, "reader") for _, key in self.keys}
        found += findings.check_memories(place.owner_url, self.book, self.erased, readers)
        for number, (tenant_id, key) in enumerate(self.keys):
            accepted = {memory_id for memory_id, own in self.book.keys.items() if own == key}
            gone = findings.Departed(accepted & self.book.deleted, accepted & self.erased)
            found += findings.check_tenant(place.owner_url, tenant_id, accepted, gone, f"tenant {number}")
        shown = httpx.get(f"{api[1]}/metrics", trust_env=False).text
        found += findings.check_counts(place.owner_url, shown, self.provoked)
        for operator in operators:
            found += findings.check_audit(operator)
        for operator, erasure_id, subject in self.erasures:
            found += findings.check_erasure(operator, erasure_id, subject)
        for number, export_id in self.exports:
            operators[number].ask("download", "GET", f"/v1/privacy/exports/{export_id}/file", 409)
        print(f"checked: {findings.summarise(place.owner_url)}", flush=True)
        found += [f"doctor: {line}" for line in self._diagnose(version)]
        found += self.place.stop(version, "api", *WORKERS)
        return self.findings + found + findings.check_answers(self.book)

    def _diagnose(self, version: Version) -> list[str]:
        checks: list[dict[str, Any]] = json.loads(self.place.call(version, "doctor", "--json", fails=True))["checks"]
        return [f"{each['name']}: {each['detail']}" for each in checks if each["level"] == "fail"]


def listed(caller: Caller, subject: str) -> list[Any]:
    """Return the memories of a subject."""
    found: list[Any] = caller.ask("list", "GET", "/v1/memories", params={"subject": subject}).json()["memories"]
    return found


def letters(caller: Caller) -> list[dict[str, Any]]:
    """Return the tenant's dead letters that aren't discarded."""
    found: list[dict[str, Any]] = caller.ask("letters", "GET", "/v1/admin/dead-letters").json()["dead_letters"]
    return found


def until(what: str, condition: Callable[[], bool]) -> bool:
    """Wait until the condition is true; return False, with a line of output, if it isn't after `JOB_SECONDS`."""
    deadline = time.monotonic() + JOB_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            print(f"not in {JOB_SECONDS} s: {what}", flush=True)
            return False
        time.sleep(POLL_SECONDS)
    return True


def main(arguments: Sequence[str]) -> int:
    """Run the upgrade, print what is wrong, and return 1 if anything is."""
    parser = argparse.ArgumentParser(prog="python -m ops.upgrade", description=__doc__, epilog=EXAMPLE)
    parser.add_argument("revision", help="git revision of the old version; the new version is this working tree")
    parser.add_argument("--seconds", type=float, default=15, help="duration of each step of the load (%(default)s)")
    parser.add_argument("--keep-logs", type=Path, metavar="FOLDER", help="copy the processes' logs to a new folder")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave the blocks below, which stop all processes
    with home_folder() as home, checked_out(given.revision, home) as old, ExitStack() as opened:
        place = Installation(home, opened)
        upgrade = Upgrade(place, old, given.seconds)
        try:
            wrong = upgrade.run()
        except (KeyError, RuntimeError, httpx.HTTPError) as error:
            wrong = [f"stopped early: {error!r}", *upgrade.findings, *findings.check_answers(upgrade.book)]
        finally:
            upgrade.load.stop()
            print(*upgrade.book.summary(), sep="\n", flush=True)
            if given.keep_logs:
                shutil.copytree(home / "logs", given.keep_logs)
        wrong += findings.list_errors(home / "logs")
    print(f"accepted {len(upgrade.book.texts):,} memories, deleted {len(upgrade.book.deleted):,}", flush=True)
    print(*(f"FAILED: {one}" for one in wrong), sep="\n") if wrong else print("upgrade: nothing wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
