"""The rehearsal of a worker's start leaves nothing open, and reports no error itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis

from app.clients.redis.connection import check_settings
from app.clients.redis.connection_check import QueueReplaced, registered_check
from app.errors import Misconfigured
from app.settings import settings
from app.store.core import database
from app.supervisor import rehearsal
from app.supervisor.service_children import _create_database
from tests.service import Service


def connections() -> int:
    """Count this process's open sockets."""
    descriptors = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(each.readlink().name.startswith("socket:") for each in descriptors)


def test_it_connects_several_times_and_closes_everything(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[bool] = []

    def check(redis: Redis) -> list[str]:
        verified.append(registered_check() is not None)
        return check_settings(redis)

    monkeypatch.setattr(rehearsal, "check_settings", check)
    service.redis.close()
    rehearsal.rehearse_start()
    before = connections()
    rehearsal.rehearse_start()
    assert verified == [True] * 2 * rehearsal.ROUNDS
    assert (connections(), registered_check(), database.pool().open) == (before, None, 0)


@pytest.mark.parametrize("error", [QueueReplaced("another Redis"), Misconfigured("no append-only file")])
def test_an_error_only_ends_it(service: Service, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    calls: list[object] = []

    def refuse(redis: object) -> list[str]:
        calls.append(redis)
        raise error

    monkeypatch.setattr(rehearsal, "check_settings", refuse)
    rehearsal.rehearse_start()
    assert (len(calls), registered_check()) == (1, None)


def test_without_servers_nothing_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "connect", lambda: pytest.fail("it has connected"))
    configured = settings().model_copy(update={"redis_url": None})
    monkeypatch.setattr(rehearsal, "settings", lambda: configured)
    rehearsal.rehearse_start()


@pytest.mark.slow
def test_a_database_that_cannot_be_set_up_is_an_error_here(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Misconfigured, match="see the error above"):
        _create_database("postgresql://postgres@127.0.0.1:9/postgres", "secret word")
    shown = capfd.readouterr().err
    assert "connection refused" in shown.lower()
    assert "secret word" not in shown
