"""Find the processes of the service that `ebbing run` runs in a home, by the home's lock and the supervisor's note.

The module imports little, because every command that calls the API reads the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

LOCK: Final = "lock"
"""File in the home that the supervisor locks; it contains the supervisor's process id."""
PROCESSES: Final = "processes.json"
"""File in the home with the ids of the service's processes, by the names of their logs."""

PREVIOUS_END: Final = "PREVIOUS_END"
"""Environment variable that tells a restarted process how its predecessor ended, for example `signal SIGKILL`.

Its name doesn't begin with `EBBING_`: a fork whose variables of that prefix differ from its parent's has to parse all
settings again."""


def is_running(home: Path) -> bool:
    """Return True if a process has locked the home, as `ebbing run` does until it ends, however it ends."""
    try:
        lock = os.open(home / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def find_process(home: Path, name: str) -> int | None:
    """Return the id of a process of the running service, such as `api` or `redis`; None if it doesn't run.

    The processes of a service whose supervisor has ended aren't found, because another program may have their ids.
    """
    if not is_running(home):
        return None
    try:
        pid = int(json.loads((home / PROCESSES).read_text(encoding="utf-8"))[name])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    try:
        os.kill(pid, 0)
    except PermissionError:  # servers that root has started run as another user
        return pid
    except OSError:
        return None
    return pid


class ProcessNote:
    """The supervisor's note of its processes, written to the home whenever one starts or ends."""

    def __init__(self, home: Path) -> None:
        self._path = home / PROCESSES
        self._pids: dict[str, int] = {}

    def set(self, name: str, pid: int | None) -> None:
        """Note the id of a process, or that it has ended. A full disk leaves the note as it was."""
        self._pids.pop(name, None)
        if pid is not None:
            self._pids[name] = pid
        draft = self._path.with_name(f"{PROCESSES}.new")
        with suppress(OSError):
            draft.write_text(json.dumps(self._pids), encoding="utf-8")
            draft.replace(self._path)

    def delete(self) -> None:
        """Delete the note, because all processes have ended."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
