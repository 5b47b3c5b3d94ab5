"""Let a stop signal wait until the task that is being written to a pool process is written.

Celery handles the signal at once, even amid such a write. It then waits for the pool process, which waits for the rest
of the task, and neither ends.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Final, TypeAlias

SIGNALS: Final = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT)

Handler: TypeAlias = Callable[[int, FrameType | None], Any]


def defer_while_writing(call_soon: Callable[..., Any]) -> None:
    """Replace Celery's handlers of stop signals by ones that let a write finish.

    Call it once Celery has installed its handlers, in the main thread.

    Args:
        call_soon: Schedule a function for the next round of Celery's event loop.
    """
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler):
            signal.signal(number, partial(_handle, handler, call_soon))


def _handle(handler: Handler, call_soon: Callable[..., Any], number: int, frame: FrameType | None) -> None:
    if _is_writing(frame):
        call_soon(handler, number, None)
    else:  # the loop may not run, as while Redis is unavailable
        handler(number, frame)


def _is_writing(frame: FrameType | None) -> bool:
    """Return true if the interrupted code is Celery's `_write_job`."""
    while frame is not None:
        if frame.f_code.co_name == "_write_job":
            return True
        frame = frame.f_back
    return False
