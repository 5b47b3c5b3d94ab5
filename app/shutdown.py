"""Announce an imminent shutdown to server processes, so that endless responses such as event streams end.

The HTTP server waits for open responses during shutdown and would otherwise wait until it kills them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import suppress

_told = threading.Event()


def install_handler() -> None:
    """Install the signal handler for the parent's announcement. Call it in the main thread."""
    signal.signal(signal.SIGUSR1, lambda *_: _told.set())


def tell_children() -> None:
    """Announce the shutdown to the child processes, before they are asked to end."""
    for child in multiprocessing.active_children():
        if child.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGUSR1)


def is_near() -> bool:
    """Return True if a shutdown was announced."""
    return _told.is_set()
