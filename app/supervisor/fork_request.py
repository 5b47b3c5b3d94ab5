"""The messages between the supervisor and the preloaded parent, over a socket pair.

The parent announces itself with `READY`. A request consists of its size, a `ForkRequest` as JSON, and two file
descriptors: the log, and the gate at which the new process waits. The answer is that process's pid, or 0 on a failure.
"""

from __future__ import annotations

import socket
from typing import Final

import msgspec

READY: Final = b"!"
NUMBER_BYTES: Final = 8
DESCRIPTORS: Final = 2


class ForkRequest(msgspec.Struct):
    """A process to fork: arguments of `ebbing`, whole environment, working directory, and its parent and death signal.

    `command` is the command line that starts the same process without a preloaded parent.
    """

    command: list[str]
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    parent: int
    death_signal: int


def receive(control: socket.socket, size: int, descriptors: list[int] | None = None) -> bytes:
    """Receive `size` bytes, and the file descriptors sent with the first of them; empty if the socket was closed."""
    received = b""
    while len(received) < size:
        if descriptors is None:
            part = control.recv(size - len(received))
        else:
            part, sent, _, _ = socket.recv_fds(control, size - len(received), DESCRIPTORS)
            descriptors += sent
        if not part:
            return b""
        received += part
    return received
