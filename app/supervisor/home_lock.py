"""The home folder, which contains all data of one service: lock it for one process, or create a temporary one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.embedded import EmbeddedError
from app.system.running_home import LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK_TRIES: Final = 5
LOCK_PAUSE_SECONDS: Final = 0.02


@contextmanager
def lock_home(home: Path) -> Iterator[Path]:
    """Lock a home, creating it with mode 0700 if necessary, and yield its absolute path.

    The kernel releases the lock when this process ends, however it ends.

    Raises:
        EmbeddedError: Another process has locked it (the message names which), or it can't be created.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EmbeddedError(f"home {home} can't be used: {error}; set EBBING_HOME to another") from error
    try:
        try:
            _lock(lock)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "that is just starting"
            raise EmbeddedError(
                f"home {home} is in use by process {holder}: stop it, or set EBBING_HOME to another"
            ) from None
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        yield home.resolve()
    finally:
        os.close(lock)


def _lock(lock: int) -> None:
    """Lock the file. Another command may hold a shared lock for a moment, when it checks whether the service runs.

    Raises:
        BlockingIOError: Another process has locked the file.
    """
    for _ in range(LOCK_TRIES - 1):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOCK_PAUSE_SECONDS)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def temporary_home(prefix: str, *, keep: bool) -> Iterator[Path]:
    """Create a temporary home folder and delete it afterwards, unless `keep`."""
    home = Path(tempfile.mkdtemp(prefix=prefix))
    if os.geteuid() == 0:
        home.chmod(0o711)  # PostgreSQL refuses to run as root: its own user must be able to reach its data folder
    try:
        yield home
    finally:
        if not keep:
            for link in home.iterdir():
                if link.is_symlink():  # data folders outside the home
                    shutil.rmtree(link.resolve().parent, ignore_errors=True)
            shutil.rmtree(home, ignore_errors=True)
