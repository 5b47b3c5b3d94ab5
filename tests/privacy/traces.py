"""Find a word in every table and index of the database, every key of Redis, and every object of cold storage."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import redis

from app.domain.privacy.export import part_associated_data
from app.domain.tiers import cold_segment
from app.domain.tiers.encryption import record_associated_data, unseal
from app.services.security import encryption_keys
from app.store.core import database
from tests.service import Service

SCHEMAS = ("public", "ebbing_keys")
MESSAGE_BODY = re.compile(rb'(?<="body": ")[A-Za-z0-9+/=]+(?=")')


def in_tables(service: Service, word: str) -> list[str]:
    """Return the tables that contain the word in any column, including bytes and vectors of words."""
    found = service.rows(
        "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables WHERE schemaname = ANY (%s) ORDER BY 1",
        list(SCHEMAS),
    )
    like, as_bytes = f"%{word}%", f"%{word.encode().hex()}%"
    return [
        table
        for (table,) in found
        if service.one(
            f"SELECT EXISTS (SELECT FROM {table} AS one WHERE one::text ILIKE %s OR one::text LIKE %s)",  # noqa: S608 - a table name
            like,
            as_bytes,
        )
    ]


def in_redis(client: redis.Redis, word: str) -> list[str]:
    """Return the keys that contain the word in their name or value, or in the decoded body of a message of Celery.

    The base64 of a body itself isn't searched: it would hide a word, and contains short words by chance.
    """
    wanted = word.encode().lower()
    return [name.decode() for name in client.scan_iter() if any(wanted in each.lower() for each in _held(client, name))]


def _held(client: redis.Redis, name: bytes) -> Iterator[bytes]:
    yield name
    asked = cast("Any", client)
    match client.type(name):
        case b"string":
            held = asked.get(name)
        case b"hash":
            held = asked.hgetall(name)
        case b"list":
            held = asked.lrange(name, 0, -1)
        case b"set":
            held = asked.smembers(name)
        case b"zset":
            held = asked.zrange(name, 0, -1)
        case b"stream":
            held = asked.xrange(name)
        case b"none":
            return
        case other:
            raise AssertionError(f"{name!r} is a {other!r}: look into those too")
    yield MESSAGE_BODY.sub(lambda body: b64decode(body[0]), repr(held).encode())


def in_cold(tenant_id: UUID, folder: Path, word: str) -> list[str]:
    """Return the objects that contain the word, as stored or decrypted with any key that still exists."""
    wanted, found = word.encode(), []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data, name = path.read_bytes(), path.relative_to(folder).as_posix()
        read = exported(tenant_id, name, data) if name.startswith("exports/") else opened(tenant_id, data)
        if wanted in data or any(wanted in each for each in read):
            found.append(name)
    return found


def exported(tenant_id: UUID, name: str, data: bytes) -> list[bytes]:
    """Return the parts of an export that can still be decrypted."""
    _, _, named, part = name.split("/")
    export_id = UUID(named)
    with database.tenant(tenant_id) as tx:
        key = encryption_keys.open_record_keys(tx, tenant_id, [export_id]).get(export_id)
    if key is None:
        return []
    number = int(part.partition("-")[0])
    return [unseal(key, data, part_associated_data(tenant_id.bytes + export_id.bytes, number))]


def opened(tenant_id: UUID, data: bytes) -> list[bytes]:
    """Return the parts of a segment that can still be decrypted."""
    entries = cold_segment.decode(tenant_id, data)
    with database.tenant(tenant_id) as tx:
        keys = encryption_keys.open_record_keys(tx, tenant_id, [entry.key_id for entry in entries])
    return [
        unseal(
            keys[entry.key_id],
            cold_segment.record_body(data, entry),
            record_associated_data(tenant_id, entry.memory_id, entry.text_version),
        )
        for entry in entries
        if entry.key_id in keys
    ]
