"""TCP proxies on the loopback interface, each of which can cut, delay, reset and silence its connections.

    python -m tests.chaos.proxy FOLDER PORT …

The file `FOLDER/PORT` holds the port to which a proxy forwards; it is read for each connection. Commands are lines on
standard input: `PORT pass`, `PORT cut`, `PORT reset`, `PORT delay`, `PORT silence`. The proxies end with their input.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

CHUNK: Final = 64 << 10
DELAY_SECONDS: Final = 0.05
KEEP_ALIVE: Final = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 3, socket.TCP_KEEPCNT: 2}
RESET: Final = struct.pack("ii", 1, 0)


class Proxy:
    """One port. `cut` refuses connections and closes open ones; `silence` keeps them, but forwards nothing."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port, self._target = port, folder / str(port)
        self.is_cut = self.is_slow = False
        self.speaks = asyncio.Event()
        self.speaks.set()
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def obey(self, command: str) -> None:
        self.is_cut, self.is_slow = command == "cut", command == "delay"
        (self.speaks.clear if command == "silence" else self.speaks.set)()
        if command in {"cut", "reset"}:
            for writer in self._open:
                _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            _reset(writer)
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", int(self._target.read_text()))
        except (OSError, ValueError):
            _reset(writer)
            return
        _keep_alive(writer)
        self._open |= {writer, back}
        try:
            await asyncio.gather(self._forward(reader, back), self._forward(there, writer))
        finally:
            self._open -= {writer, back}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while part := await reader.read(CHUNK):
                if self.is_slow:
                    await asyncio.sleep(DELAY_SECONDS)
                await self.speaks.wait()
                writer.write(part)
                await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.close()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Let the kernel find clients whose end the network lost, as both servers are set to do."""
    found = writer.get_extra_info("socket")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE.items():
        found.setsockopt(socket.IPPROTO_TCP, option, value)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST instead of FIN."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def main(folder: Path, ports: list[int]) -> None:
    """Serve until standard input ends."""
    proxies = {port: Proxy(folder, port) for port in ports}
    for proxy in proxies.values():
        await proxy.listen()
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := (await commands.readline()).decode().split():
        proxies[int(line[0])].obey(line[1])
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
