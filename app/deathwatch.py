"""A process that ends when its parent does, however the parent ends.

For workers that a library forks; children that we start ourselves are bound in `app.embedded.process`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends; ends it now where that has happened already.

    To be called early in the child. The kernel watches the *thread* that forked: that must be one that
    lives as long as the process, such as the main one. Elsewhere than on Linux a thread looks twice a second.

    Args:
        parent: The parent's process id, taken before the fork.
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
