"""End a process when its parent ends, however the parent ends.

For workers forked by libraries. `app.embedded.process` does this for children that we start ourselves.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends; exit now if the parent has already ended.

    Call it early in the child. The kernel watches the *thread* that forked, so fork from a thread that lives as long as
    the process, such as the main thread. On systems other than Linux, a thread polls twice a second.

    Args:
        parent: Process id of the parent, taken before the fork.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    else:
        threading.Thread(target=_watch, args=(parent,), name="death watch", daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def _watch(parent: int) -> None:
    ended = threading.Event()
    while not ended.wait(0.5):
        if os.getppid() != parent:
            os._exit(1)
