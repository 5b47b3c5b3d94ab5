"""`ebbing run` and `ebbing demo`, run for real."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from app.cli.service.run import banner
from app.embedded import free_ports
from app.settings import Settings
from app.supervisor import Service
from tests import documents
from tests.cli.conftest import Cli
from tests.provider.server import provider
from tests.waiting import PATIENCE_SECONDS, until, until_gone

ROOT = Path(__file__).resolve().parents[3]
EBBING = [sys.executable, "-m", "app.cli"]
# The demo gives up after some seconds without progress, which may be too soon on a slow machine.
DEMO = f"""
from app.cli import main
from app.cli.demo import client, scores
client.PATIENCE_SECONDS = scores.PATIENCE_SECONDS = {PATIENCE_SECONDS}
main()
"""
SHOWN = (
    ("README.md", "Search and recall"),
    ("README.md", "What fades, and when"),
    ("README.md", "Privacy"),
    ("ops/search.md", "Ranking"),
    ("ops/search.md", "Recall"),
    ("ops/forgetting.md", "Look at strength and tiers"),
    ("ops/forgetting.md", "Consolidation, supersession and self-tests"),
    ("ops/privacy.md", "Erase and export"),
)
PEOPLE = "\n".join(
    json.dumps({"text": text, "subject": subject})
    for text, subject in (("My son is allergic to peanuts", "ann"), ("The parcel arrived", "orla"))
)
EXPECTED = {
    "People": ["2"],
    "Search and recall": ["Ann likes her tea green", "matched    ann", "<memories>\n", '"results":['],
    "What fades, and when": ["archived", "protection.grace_days"],
    "Privacy": ["Would hide 1 memory", "ann.zip: "],
    "Ranking": ["matched    ann"],
    "Recall": ["<memories>\n", "accepted: 1 use"],
    "Look at strength and tiers": ["mnemex"],
    "Consolidation, supersession and self-tests": ["lru"],
    "Erase and export": ["1 memory hidden", "ann-data.zip: "],
}
"""Texts in the output of the commands that each of these sections shows."""


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"} | more


@pytest.fixture
def private() -> Iterator[Path]:
    """A folder that PostgreSQL's user can traverse even if the tests run as root."""
    folder = Path(tempfile.mkdtemp(prefix="ebbing-test-run-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


class Run:
    """`ebbing run` in a home, started and ready."""

    def __init__(self, home: Path, *words: str, **more: str) -> None:
        self.home = home
        self.output = home.parent / f"output-{time.monotonic_ns()}"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*EBBING, "run", "--home", str(home), "--port", "0", *words],
                env=environment(**more),
                cwd=home.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.until(lambda: "Ready in" in self.text())

    def text(self) -> str:
        return self.output.read_text()

    def until(self, condition: Callable[[], bool]) -> None:
        until(lambda: condition() or self.process.poll() is not None, self.text)
        assert self.process.poll() is None, self.text()

    def children(self) -> dict[int, str]:
        """Return every descendant process with its command line."""
        found = {self.process.pid: ""}
        while True:
            listed = subprocess.run(
                ["ps", "-eww", "-o", "pid=,ppid=,args="],  # noqa: S607 - ps from PATH
                capture_output=True,
                text=True,
                check=True,
            )
            rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
            new = {int(pid): args for pid, parent, *rest in rows for args in rest[:1] if int(parent) in found}
            if new.keys() <= found.keys():
                del found[self.process.pid]
                return found
            found |= new

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def start(private: Path) -> Iterator[Callable[..., Run]]:
    """Factory for `ebbing run`; processes that a failed test leaves are killed along with their children."""
    runs: list[Run] = []

    def start(**more: str) -> Run:
        home = private / "home"
        home.mkdir(mode=0o711, exist_ok=True)
        runs.append(Run(home, **more))
        return runs[-1]

    yield start
    for run in runs:
        pids = run.children() if run.process.poll() is None else {}
        run.process.kill()
        run.process.wait()
        for pid in pids:
            until_gone(pid)


@pytest.mark.long
def test_a_service_of_its_own(start: Callable[..., Run], cli: Cli, folder: Path) -> None:
    run = start()
    home = run.home
    here = {"EBBING_HOME": str(home)}
    key = (home / "api-key").read_text()
    assert (home / "api-key").stat().st_mode & 0o777 == 0o600
    assert (home / "api-url").read_text().strip() in run.text()
    assert key.strip() not in run.text()

    # Ingested memories are searchable, and repeating the command stores nothing twice.
    (folder / "tea.jsonl").write_text('{"text": "Orla drinks mint tea"}\n{"text": "The office is at Limpet Stair"}\n')
    for _ in range(2):
        assert cli("ingest", "tea.jsonl", "--wait", **here).code == 0
    found = json.loads(cli("search", "What tea does Orla drink?", "--json").out)["results"]
    assert found[0]["text"] == "Orla drinks mint tea"
    assert json.loads(cli("stats", "--json").out)["memories"]["active"] == 2
    assert (done := cli("doctor")).code == 0, [line for line in done.out.splitlines() if "✓" not in line]
    tenant = json.loads(cli("tenants", "create", "acme", "--json").out)
    assert json.loads(cli("stats", "--json", EBBING_API_KEY=tenant["api_key"]).out)["memories"]["active"] == 0
    assert cli("tenants", "list", EBBING_API_KEY=tenant["api_key"]).code == 4  # a tenant's key isn't an admin's

    try_the_readme(run, folder)

    # A second service in the same home is refused.
    second = subprocess.run(
        [*EBBING, "run", "--home", str(home)], env=environment(), capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert f"is in use by process {run.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr

    # A child that dies is restarted, and the restart is reported.
    [beat] = [pid for pid, command in run.children().items() if command.endswith("app.cli beat")]
    os.kill(beat, signal.SIGKILL)
    run.until(lambda: "beat restarted" in run.text())

    kill_a_second_api(run)

    # The service stops cleanly and restarts with its data and its key.
    children = run.children()
    assert run.stop() == 0
    for pid in children:
        until_gone(pid)
    assert "Stopped in" in run.text()
    assert not (home / "api-url").exists()
    run = start()
    assert (home / "api-key").read_text() == key
    found = json.loads(cli("search", "What tea does Orla drink?", "--json", EBBING_API_KEY=key.strip()).out)
    assert found["results"][0]["text"] == "Orla drinks mint tea"
    assert run.stop(signal.SIGINT) == 0


def try_the_readme(run: Run, folder: Path) -> None:
    """Run the commands of the README and of the pages behind it, in a folder laid out like a clone."""
    (folder / ".ebbing").symlink_to(run.home)
    (folder / ".venv" / "bin").mkdir(parents=True)
    command = folder / ".venv" / "bin" / "ebbing"
    command.write_text(f'#!/bin/sh\nexec {" ".join(EBBING)} "$@"\n')
    command.chmod(0o755)
    answers = {}
    for page, heading in (("", "People"), *SHOWN):
        if heading == "People":  # whom the pages export and erase
            block = f"echo '{PEOPLE}' | .venv/bin/ebbing ingest --wait -"
        else:
            section = documents.sections((ROOT / page).read_text())[heading]
            [block] = re.findall(r"^```bash\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],  # noqa: S607 - bash from PATH
            env=environment(EBBING_HOME=str(run.home), PATH=f"{command.parent}:{os.environ['PATH']}"),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (heading, done)
        answers[heading] = done.stdout
    assert answers.keys() == EXPECTED.keys()
    for heading, texts in EXPECTED.items():
        assert [text for text in texts if text not in answers[heading]] == [], answers[heading]


def kill_a_second_api(run: Run) -> None:
    """Start another API on the service's databases and kill only its main process: its worker must exit too."""
    main = next(pid for pid, command in run.children().items() if command.endswith("app.cli api"))
    given = dict(part.partition("=")[::2] for part in Path(f"/proc/{main}/environ").read_text().split("\0") if part)
    [port] = free_ports(1)
    log = run.home / "logs" / "second-api.log"
    with log.open("wb") as output:
        second = subprocess.Popen(
            [*EBBING, "api"], env=given | {"EBBING_PORT": str(port)}, cwd=ROOT, stdout=output, stderr=output
        )
    run.until(lambda: answers(port) or second.poll() is not None)
    [worker] = Path(f"/proc/{second.pid}/task/{second.pid}/children").read_text().split()
    second.kill()
    second.wait()
    until_gone(int(worker))
    assert not answers(port)


def answers(port: int) -> bool:
    """Return true if an API answers at this port."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_SECONDS, trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.mark.long
def test_the_demo(private: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEMO, "demo", "--json"],
        env=environment(TMPDIR=str(private), EBBING_DATABASE_URL="postgresql://not.this.one/x"),
        cwd=private,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert sum(report["kinds"].values()) == report["memories"]
    assert len(report["questions"]) > report["found"] / 2
    assert report["delete_is_gone"]
    assert set(report["salience"]["sources"]) == {"heuristic", "caller"}
    assert report["salience"]["cost"] is None
    assert [one["name"] for one in report["month"]] == ["keep-all", "spec", "ttl", "lru", "linear"]
    assert report["month"][1]["active_set"] < report["month"][0]["active_set"] == 60
    assert list(private.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "salience"),
    [
        ({}, "rule-based, works offline"),
        ({"openai_api_key": "sk-x"}, "small at api.openai.com, rule-based until rated"),
        ({"openai_base_url": "http://127.0.0.1:11434/v1"}, "small at 127.0.0.1:11434, rule-based until rated"),
    ],
)
def test_the_banner_says_who_judges(given: dict[str, str], salience: str) -> None:
    config = Settings.model_validate({"salience_model": "small", **given})
    service = Service((), "http://127.0.0.1:8000", "", "", "")
    shown = banner(config, service, Path("/srv/ebbing"), 1.0)
    assert f"Salience    {salience}\n" in shown
    assert "sk-x" not in shown


def test_the_banner_names_the_folder_behind_a_link(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / "postgres").symlink_to(elsewhere)
    shown = banner(Settings(), Service((), "http://127.0.0.1:8000", "", "", ""), home, 1.0)
    assert f"embedded, in {elsewhere.resolve()} (linked from {home / 'postgres'})\n" in shown
    assert f"embedded, in {home / 'redis'}\n" in shown


@pytest.mark.long
def test_the_demo_with_a_model_shows_its_scores_their_cost_and_what_the_cache_spares(private: Path) -> None:
    prices = json.dumps({"gpt-5.4-mini": {"input": 1, "output": 2}})
    with provider() as fake:
        done = subprocess.run(
            [sys.executable, "-c", DEMO, "demo", "--json"],
            env=environment(
                TMPDIR=str(private),
                EBBING_OPENAI_BASE_URL=fake.url,
                EBBING_OPENAI_API_KEY="a-key-of-nobody",
                EBBING_PRICES=prices,
            ),
            cwd=private,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_SECONDS,
            check=False,
        )
        asked = fake.calls
    assert done.returncode == 0, done.stderr
    salience = json.loads(done.stdout)["salience"]
    assert "still unrated" not in done.stderr
    assert set(salience["sources"]) == {"llm", "caller"}
    assert asked - 1 <= salience["cost"]["calls"] <= asked, "one call may be in flight when the demo ends"
    assert salience["cost"]["cost"] > 0
    assert salience["again"]["calls"] == 0
    assert salience["again"]["cache_hits"] == 10
    assert "a-key-of-nobody" not in done.stdout + done.stderr
