"""Whether this process is about to stop: told before its server waits for answers that are still being sent.

An answer without an end, such as a stream of events, would be waited for until it is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import suppress

_told = threading.Event()


def listen() -> None:
    """Hear of it from the process that has started this one. To be called in the main thread."""
    signal.signal(signal.SIGUSR1, lambda *_: _told.set())


def tell_children() -> None:
    """Tell the processes that this one has started, before they are asked to end."""
    for child in multiprocessing.active_children():
        if child.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGUSR1)


def is_near() -> bool:
    """Whether it was told."""
    return _told.is_set()
