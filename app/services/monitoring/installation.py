"""Describe how this service runs, for the commands that findings propose."""

from __future__ import annotations

import os
from dataclasses import replace

from app import heartbeats
from app.domain.operator_advice import Installation
from app.settings import Settings, settings


def describe() -> Installation:
    """Return the installation; process ids only with `ebbing run`, and only of processes that exist.

    Raises:
        RedisError: Redis is unreachable.
    """
    place = describe_place()
    if place.kind != "run":
        return place
    pids = {source: pid for source, pid in heartbeats.process_ids().items() if _exists(pid)}
    return replace(place, pids=pids)


def describe_place() -> Installation:
    """Return the installation without process ids, which doesn't need Redis."""
    config = settings()
    address = {
        f"EBBING_{name.upper()}": str(value)
        for name in ("host", "port")
        if (value := getattr(config, name)) != Settings.model_fields[name].default
    }
    return Installation(config.installation, str(config.home.absolute()), address=address)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:  # no such process, or another user's: then it isn't the worker
        return False
    return True
