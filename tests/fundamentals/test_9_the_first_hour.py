"""Chapter 9: the README's first lines and the programs in `examples/`, run as a newcomer runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.embedded import free_ports
from tests.fundamentals.client import Client
from tests.fundamentals.service import Service, Tenant
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLES = ROOT / "examples"
CURL_BODY = re.compile(r"-d '(\{.*\})'")
VARYING = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"'request_id': '[^']*'"), "REQUEST"),
]
Run = Callable[..., str]


def mask(text: str) -> str:
    """Replace everything in an output that differs between two runs."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text


def block(language: str, heading: str, page: str = README) -> str:
    """Return the first block of a language in a section of a page, the README by default."""
    [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return str(re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[0])


@pytest.fixture
def environment(service: Service, tenant: Tenant) -> dict[str, str]:
    """The settings of an application that uses the tenant's key."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("EBBING_", "OPENAI_"))}
    return inherited | {"EBBING_API_URL": service.url, "EBBING_API_KEY": tenant.api_key, "NO_PROXY": "127.0.0.1"}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    """Function that runs a program to its end and returns its output."""

    def run(program: Path, *words: str, typed: str = "", code: int = 0, **settings: str) -> str:
        done = subprocess.run(
            [sys.executable, str(program), *words],
            env=environment | settings,
            cwd=tmp_path,
            input=typed,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done
        return done.stdout

    return run


@pytest.fixture
def stored(ebbing: Client) -> Callable[[], None]:
    """Function that waits until everything that was accepted is stored and searchable."""

    def wait() -> None:
        until(lambda: not any(ebbing.stats().pending.values()), "an empty backlog")

    return wait


@pytest.fixture
def model() -> Iterator[tuple[str, list[Any]]]:
    """URL of a chat model that cites the first memory of its prompt, and the requests that it received."""
    received: list[Any] = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.append((self.path, request))
            cited = re.findall(r"^(\[\S+\])", request["messages"][0]["content"], re.MULTILINE)
            message = {"role": "assistant", "content": " ".join(["A carrot cake without nuts.", *cited[:1]])}
            body = json.dumps({"choices": [{"message": message}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", received
        server.shutdown()


def test_the_first_lines_of_the_readme_print_what_it_shows(
    service: Service, tenant: Tenant, run: Run, tmp_path: Path
) -> None:
    (tmp_path / ".ebbing").mkdir()
    (tmp_path / ".ebbing" / "api-key").write_text(f"{tenant.api_key}\n")
    (tmp_path / ".ebbing" / "api-url").write_text(f"{service.url}\n")
    program = tmp_path / "hello.py"
    program.write_text(block("python", "The first twenty lines"))
    assert mask(run(program)) == mask(block("text", "The first twenty lines"))
    client = service.client(tenant.api_key)
    until(lambda: used(client), "the reported use")


def test_the_lines_of_the_clients_page_print_what_it_shows(run: Run, tmp_path: Path) -> None:
    page = (ROOT / "client" / "README.md").read_text()
    program = tmp_path / "twenty_lines.py"
    program.write_text(block("python", "Twenty lines", page).replace("wait=5", "wait=300"))
    assert mask(run(program)) == mask(block("text", "Twenty lines", page))


def used(client: Client) -> bool:
    """Return whether a memory of the tenant has been used."""
    memories = client.http.get("/v1/memories").json()["memories"]
    return any(memory["access_count"] for memory in memories)


@pytest.mark.essential
def test_the_chat_loop_remembers_an_earlier_conversation(run: Run, stored: Callable[[], None], ebbing: Client) -> None:
    replies = run(EXAMPLES / "chat_loop.py", typed="My son Max is allergic to peanuts.\n\n")
    assert replies.count("Assistant: I will remember that.") == 1
    stored()
    asked = run(EXAMPLES / "chat_loop.py", typed="What can I bake for Max?\n")
    assert "Assistant: You told me: My son Max is allergic to peanuts.\n" in asked
    until(lambda: used(ebbing), "the reported use")
    bob = run(EXAMPLES / "chat_loop.py", "--user", "bob", typed="What can I bake for Max?")
    assert "Assistant: No earlier conversation says that.\n" in bob
    stored()
    assert {(memory.role, memory.subject) for memory in ebbing.page().memories} == {
        (role, user) for role in ("user", "assistant") for user in ("ann", "bob")
    }


def test_the_chat_loop_searches_if_nothing_is_recalled_and_undoes_a_deletion(
    run: Run, stored: Callable[[], None], ebbing: Client
) -> None:
    ebbing.remember({"text": "The spare keys are at Ben's", "subject": "ann", "role": "user"})
    stored()
    typed = "/forget\n/undo\nHow do planes fly?\nWhere are the spare keys?\n/forget\nWhere did I put them?\n/undo\n"
    replies = re.findall(r"Assistant: (.*)", run(EXAMPLES / "chat_loop.py", typed=typed))
    reply = "You told me: The spare keys are at Ben's"
    assert replies[:2] == ["The last reply used no memory, so nothing is deleted.", "There is nothing to restore."]
    assert replies[2] == f"I am not sure. {reply}"
    assert replies[3].endswith(reply)
    assert replies[4] == "Deleted memories: 1. /undo restores them."
    assert reply not in replies[5]
    assert replies[6] == "Restored memories: 1."
    assert [memory.text for memory in ebbing.page().memories if "Ben" in memory.text and memory.role == "user"] == [
        "The spare keys are at Ben's"
    ]


def test_the_chat_loop_puts_memories_before_a_model_and_hides_its_citations(
    run: Run, stored: Callable[[], None], ebbing: Client, model: tuple[str, list[Any]]
) -> None:
    url, received = model
    [memory_id] = ebbing.remember({"text": "Max is allergic to peanuts", "subject": "ann"})
    settings = {"CHAT_MODEL": "small", "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-none"}
    shown = run(EXAMPLES / "chat_loop.py", typed="What can I bake for Max?\n", **settings)
    assert "Assistant: A carrot cake without nuts.\n" in shown
    [(path, request)] = received
    assert (path, request["model"]) == ("/v1/chat/completions", "small")
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert "Max is allergic to peanuts" in request["messages"][0]["content"]
    until(lambda: used(ebbing), "the reported use")
    stored()
    assert "A carrot cake without nuts." in {memory.text for memory in ebbing.page().memories}
    assert ebbing.http.get(f"/v1/memories/{memory_id}").json()["access_count"] == 1


def test_an_example_without_a_service_says_how_to_start_one(run: Run, tmp_path: Path) -> None:
    run(EXAMPLES / "chat_loop.py", code=1, EBBING_API_URL="", EBBING_API_KEY="", EBBING_HOME=str(tmp_path))


@pytest.fixture
def web_app(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., httpx.Client]]:
    """Function that starts the FastAPI app with further settings."""
    running: list[tuple[subprocess.Popen[bytes], httpx.Client]] = []

    def start(**settings: str) -> httpx.Client:
        [port] = free_ports(1)
        with (tmp_path / "web_app.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(EXAMPLES / "fastapi_app.py")],
                env=environment | {"PORT": str(port)} | settings,
                cwd=tmp_path,
                stdout=log,
                stderr=log,
            )
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS, trust_env=False)
        running.append((process, client))

        def answers() -> bool:
            assert process.poll() is None, (tmp_path / "web_app.log").read_text()
            with suppress(httpx.TransportError):
                return client.get("/openapi.json").is_success
            return False

        until(answers, "an answer of the app")
        return client

    yield start
    for process, client in running:
        client.close()
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def test_the_web_app_chats_with_memory_and_erases_a_user(
    web_app: Callable[..., httpx.Client], stored: Callable[[], None], ebbing: Client
) -> None:
    app = web_app()
    [example] = CURL_BODY.findall((EXAMPLES / "fastapi_app.py").read_text())
    body = json.loads(example)
    assert app.post("/chat", json=body).json() == {"reply": "I will remember that.", "memories": []}
    until(lambda: ebbing.stats().memories["active"] == 2, "both messages")
    stored()
    body |= {"conversation": "c2", "messages": [{"role": "user", "content": "How old is my son?"}]}
    answer = app.post("/chat", json=body).json()
    assert answer["reply"] == "You told me: My son is six"
    assert [ebbing.get(memory_id).text for memory_id in answer["memories"]] == ["My son is six"]
    until(lambda: used(ebbing), "the reported use")
    until(lambda: ebbing.stats().memories["active"] == 4, "all messages")
    erased = app.delete("/users/ann")
    assert erased.status_code == 202
    assert erased.json()["hidden"] == 4
    assert ebbing.page().memories == []


def test_the_web_app_replies_without_memories_while_ebbing_is_unavailable(
    web_app: Callable[..., httpx.Client],
) -> None:
    [nobody] = free_ports(1)
    app = web_app(EBBING_API_URL=f"http://127.0.0.1:{nobody}")
    body = {"user": "ann", "conversation": "c1", "messages": [{"role": "user", "content": "Hello"}]}
    assert app.post("/chat", json=body).json() == {"reply": "I will remember that.", "memories": []}


@pytest.fixture
def scheduled(service: Service, ebbing: Client) -> None:
    """Let the scheduler create the new tenant's nightly run."""
    service.tick()
    until(lambda: ebbing.http.get("/v1/schedule").json()["schedule"], "the tenant's schedule")


def test_the_nightly_job_reports_and_exports(run: Run, ebbing: Client, scheduled: None, tmp_path: Path) -> None:
    ebbing.remember({"text": "My son Max is allergic to peanuts", "subject": "ann"}, "ok thanks!")
    until(lambda: not ebbing.stats().pending["score"], "the salience of both")
    shown = run(EXAMPLES / "nightly_job.py", "--export", "ann", "--output", "ann.zip").splitlines()
    assert "  memories: 2 active" in shown
    assert "  dead letters: 0" in shown
    assert "  the next night would move: nothing" in shown
    assert "  merges that wait for approval: 0" in shown
    assert "  active: 2 today, 1 in 21 days if none is used" in shown
    assert any(line.startswith("  last night: none yet") for line in shown)
    with zipfile.ZipFile(tmp_path / "ann.zip") as export:
        texts = [export.read(name).decode() for name in export.namelist()]
    assert any("allergic to peanuts" in text for text in texts)
    assert not any("ok thanks!" in text for text in texts)


def test_the_nightly_job_fails_if_something_needs_attention(run: Run, ebbing: Client) -> None:
    late = {"nature": "correction", "law": "gdpr", "received_at": "2026-01-31T12:00:00Z"}
    answer = ebbing.http.post("/v1/privacy/requests", json=late)
    assert answer.is_success, answer.text
    assert "! open privacy requests: 1, due in -" in run(EXAMPLES / "nightly_job.py", code=1)
