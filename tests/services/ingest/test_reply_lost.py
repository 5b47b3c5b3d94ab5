"""PostgreSQL commits but its reply is lost: the outcome is unknown, and a retry changes nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import pytest
from sqlalchemy.exc import OperationalError

from app.domain.ingest.uses import Use, encode, touch_results
from app.domain.policy.policy import Policy, Reinforcement
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.store.core import database
from tests.service import Service
from tests.variants import variants

CHUNK_BYTES = 1 << 16


class Proxy:
    """A proxy for PostgreSQL that drops the reply to a chosen COMMIT."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.commits_until_lost = 0
        """The number of the COMMIT whose reply is lost, counted from now; 0 for none."""
        self.lost = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                dropped = threading.Event()
                for source, target, look in ((client, server, True), (server, client, False)):
                    arguments = (source, target, dropped, look)
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, dropped: threading.Event, look: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if look and b"COMMIT\0" in data and self.commits_until_lost:
                    self.commits_until_lost -= 1
                    if not self.commits_until_lost:
                        dropped.set()
                if not look and dropped.is_set():
                    self.lost += 1  # the reply has arrived, so the transaction is committed
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def proxy(service: Service) -> Iterator[Proxy]:
    url = urlsplit(service.database_url)
    between = Proxy(url.hostname or "127.0.0.1", url.port or 5432)
    login = f"{url.netloc.rpartition('@')[0]}@" if "@" in url.netloc else ""
    service.configure(database_url=urlunsplit(url._replace(netloc=f"{login}127.0.0.1:{between.port}")))
    database.close()
    yield between
    database.close()
    between.close()


@pytest.mark.parametrize("commit", variants({str(number): number for number in (1, 2, 3, 4)}, {"1", "2"}))
@pytest.mark.parametrize(
    "stage", [drain.drain_streams, stage_runner.run_index_stage, stage_runner.embed, stage_runner.run_score_stage]
)
def test_what_was_committed_unheard_is_done_once(
    service: Service, proxy: Proxy, stage: Callable[[], int], commit: int
) -> None:
    tenant_id = service.tenant(Policy(reinforcement=Reinforcement(refractory_seconds=0))).tenant_id
    stages = [drain.drain_streams, stage_runner.run_index_stage, stage_runner.embed, stage_runner.run_score_stage]
    ids = service.send(tenant_id, "we meet on Friday", {"text": "Ann is on leave", "external_id": "a"})
    used = encode(touch_results([Use(memory_id) for memory_id in ids], tenant_id, None))
    service.post(tenant_id, used, memories=0, form="touches")
    service.send(tenant_id, "the boat is green")
    for before in stages[: stages.index(stage)]:
        before()
    proxy.commits_until_lost = commit
    with suppress(OperationalError):
        stage()
    proxy.commits_until_lost = 0
    service.rows("UPDATE tenant_work SET claimed_until = '-infinity'")
    service.configure(claim_idle_seconds=0.001)
    for _ in range(3):
        for each in stages:
            each()

    assert proxy.lost == 1 or commit > 1, "no reply was lost"
    assert service.texts(tenant_id) == ["we meet on Friday", "Ann is on leave", "the boat is green"]
    assert service.one("SELECT sum(access_count) FROM memory_state") == 2
    assert service.one("SELECT count(*) FROM memory_events WHERE kind = 'use'") == 2
    for table in ("memory_words", "embeddings", "scores"):
        assert service.one(f"SELECT count(*) FROM {table}") == 3, table  # noqa: S608
    assert service.one("SELECT documents FROM words WHERE word = ''") == 3
    assert service.one("SELECT count(*) FROM tenant_work") == 0
    assert service.letters(tenant_id) == []
