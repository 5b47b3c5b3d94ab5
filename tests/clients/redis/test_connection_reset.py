"""A connection that was reset while it was idle is an error of Redis, on the API's event loop too."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any

import pytest
import redis
import uvloop

from app.clients.redis.connection import _Connection

RESET = struct.pack("ii", 1, 0)


async def reset_after_a_command(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def use_after_a_reset() -> None:
    async def skip_greeting(_: Any) -> None:
        """Send nothing when the connection opens."""

    server = await asyncio.start_server(reset_after_a_command, "127.0.0.1", 0)
    connection = _Connection(
        host="127.0.0.1", port=server.sockets[0].getsockname()[1], redis_connect_func=skip_greeting
    )
    await connection.connect()  # type: ignore[no-untyped-call]  # redis-py's
    await connection.send_command("PING")
    reader = connection._reader
    assert reader is not None
    with suppress(OSError):
        await reader.read()  # until the reset has arrived
    with pytest.raises(redis.ConnectionError):
        await connection.send_command("PING")
    server.close()


def test_a_command_on_a_connection_that_was_reset_fails_as_an_error_of_redis() -> None:
    uvloop.run(use_after_a_reset())
