"""Describe how this service runs, for the commands that findings propose."""

from __future__ import annotations

import os

from app import heartbeats
from app.domain.operator_advice import Installation
from app.settings import settings


def describe() -> Installation:
    """Return the installation; process ids only with `ebbing run`, and only of processes that exist.

    Raises:
        RedisError: Redis is unreachable.
    """
    kind, home = settings().installation, str(settings().home.absolute())
    if kind != "run":
        return Installation(kind, home)
    return Installation(kind, home, {source: pid for source, pid in heartbeats.process_ids().items() if _exists(pid)})


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # no such process, or another user's: then it isn't the worker
        return False
    return True
