"""Cut the network of a chaos run, which has a network namespace, and so a loopback interface, of its own."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Final

_SET_FLAGS: Final = 0x8914  # SIOCSIFFLAGS of linux/sockios.h
_REQUEST: Final = struct.Struct("16sH14s")
_UP: Final = 1


def set_loopback(*, is_up: bool) -> None:
    """Bring the loopback interface up or down: while it is down, every packet between the processes is lost.

    Call this only in a namespace of the run's own: elsewhere it would cut the machine's connections.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_FLAGS, _REQUEST.pack(b"lo", _UP if is_up else 0, b""))
