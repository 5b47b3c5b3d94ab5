"""Give a service under test the restricted login of Redis, and report the commands that Redis refused it."""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import redis

from app.embedded.redis_access import rules_for

USER = "ebbing-under-test"


def restricted(admin: redis.Redis, url: str) -> str:
    """Return the URL with a user that has the product's rules; creates the user with an administrator's connection."""
    password = token_hex(16)
    run: Callable[..., object] = admin.execute_command
    parts = urlsplit(url)
    major, minor = str(admin.info("server")["redis_version"]).split(".")[:2]
    rules = rules_for((int(major), int(minor)), int(parts.path.strip("/") or 0)).split()
    run("ACL", "SETUSER", USER, "reset", "on", f">{password}", *rules)
    run("ACL", "LOG", "RESET")
    return urlunsplit(parts._replace(netloc=f"{USER}:{password}@{parts.netloc.rpartition('@')[2]}"))


def list_refusals(admin: redis.Redis, user: str = USER) -> list[str]:
    """Return what Redis refused a user: `command: get`, `key: foreign`; passwords aren't refusals."""
    entries = cast("list[dict[str, Any]]", admin.acl_log(128))
    found = [{str(_text(name)): _text(value) for name, value in entry.items()} for entry in entries]
    return [f"{one['reason']}: {one['object']}" for one in found if one["username"] == user and one["reason"] != "auth"]


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value
