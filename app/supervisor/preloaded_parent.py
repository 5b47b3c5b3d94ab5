"""The preloaded parent: import the service once, and fork its processes, which share the imported code and data.

    python -m app.supervisor.preloaded_parent CONTROL

CONTROL is the file descriptor of one end of a socket; `app.supervisor.forks` has the other end. For each request that
it reads there, the preloaded parent forks a process and answers with its pid. The supervisor becomes the parent of the
new process. While it forks, the preloaded parent has no thread and no other connection, and it reads no setting that
may differ in a child. Before the first worker, it rehearses a worker's start with connections that it closes again.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from app.embedded.process import bind_to_parent
from app.memory_release import release_unused
from app.secret_settings import list_files
from app.settings import Settings, settings
from app.supervisor.fork_request import NUMBER_BYTES, READY, ForkRequest, receive

# Imported by name, because these modules belong to layers above the supervisor, which can't import them.
PRELOADED: Final = (
    "app.cli.service.processes",
    "app.main",
    "app.store.core.migrate",
    "app.supervisor.rehearsal",
    "workers.programs",
    "workers.tasks",
)
# Libraries import these modules when they start. Imported here, they are shared instead of loaded by each fork.
LOADED_LATER: Final = (
    "anyio._backends._asyncio",
    "billiard.heap",
    "billiard.popen_fork",
    "billiard.sharedctypes",
    "billiard.synchronize",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "celery.events.receiver",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.control",
    "celery.worker.loops",
    "celery.worker.strategy",
    "cffi.cparser",
    "granian.server",
    "kombu.mixins",
    "multiprocessing.popen_fork",
    "sqlalchemy.dialects.postgresql.psycopg",
    "typer._adapters",
    "uvloop",
    "workers.broker",
)
WORKER: Final = "worker"
"""Command whose start is rehearsed before its first fork."""

_ARGUMENTS_START, _ARGUMENTS_END = 45, 46  # in /proc/self/stat, after the name
# Python allocates small objects from pools, one kind of pool for each size. The imports leave gaps in these pools.
# Each entry is the number of gaps to fill, by object size in bytes.
_GAPS: Final = {range(48, 129, 16): 1500, range(144, 513, 16): 300}
_BYTES_OBJECT: Final = sys.getsizeof(b"")

_REQUESTS: Final = msgspec.json.Decoder(ForkRequest)
_held: list[object] = []


def main() -> None:
    """Preload, report that to the supervisor, and fork until it closes the socket. Forked processes run `ebbing`."""
    control = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()  # a collection would leave gaps in memory; children that fill the gaps would copy the shared pages
    _preload()
    files = [path for _, path in list_files(Settings)]
    sources = _read_sources(files)
    release_unused()
    _held.extend(_fill_holes())
    gc.freeze()
    control.sendall(READY)
    request = _serve(control)
    if request is None:
        return
    gc.enable()
    if _read_sources(files) != sources:  # parsing the same sources again would only copy 5 MB of shared pages
        settings.cache_clear()
    # Celery executes this command line again on SIGHUP, so it begins with the path of a program.
    sys.argv = [str(Path(__file__).parents[1] / "cli" / "__main__.py"), *request.arguments]
    import_module("app.cli.service.processes").main()


def _preload() -> None:
    """Import and create everything that forks can share.

    Raises:
        RuntimeError: The process can't be forked safely.
    """
    for name in (*PRELOADED, *LOADED_LATER):
        import_module(name)
    if settings.cache_info().misses:
        raise RuntimeError("an imported module has read settings, whose values may differ in a forked process")
    if settings().embedder == "local":
        from app.clients.embedding.static_embedder import word_vectors  # noqa: PLC0415 - only if configured

        word_vectors()
    if settings().redis_url is not None:
        import_module("workers.celery_app").celery.finalize()  # creates the tasks
    _check_forkable()


def _check_forkable() -> None:
    """Raise `RuntimeError` if this process has threads, or connections other than the supervisor's."""
    threads = len(list(Path("/proc/self/task").iterdir()))
    descriptors = [each for each in list(Path("/proc/self/fd").iterdir()) if each.is_symlink()]
    sockets = sum(each.readlink().name.startswith("socket:") for each in descriptors)
    if threads > 1 or sockets > 1:
        raise RuntimeError(f"{threads} threads and {sockets} sockets are open, and would be broken in a fork")


def _rehearse() -> None:
    """Rehearse the start of a worker.

    By now PostgreSQL and Redis are running; they weren't yet when the parent was loaded.

    Raises:
        RuntimeError: The process can't be forked safely any more.
    """
    import_module("app.supervisor.rehearsal").rehearse_start()
    release_unused()
    gc.freeze()
    _check_forkable()


def _fill_holes() -> list[list[object]]:
    """Return objects that fill the gaps in memory. A fork that filled a gap itself would copy the page around it."""
    return [[bytes(size - _BYTES_OBJECT) for _ in range(gaps)] for sizes, gaps in _GAPS.items() for size in sizes]


def _read_sources(secrets: Sequence[Path]) -> tuple[list[tuple[str, str]], list[bytes]]:
    """Return the sources of all settings: environment variables, and the contents of `.env` and the secrets' files."""
    variables = sorted((name, value) for name, value in os.environ.items() if name.upper().startswith("EBBING_"))
    contents = []
    for path in (Path(".env"), *secrets):
        try:
            contents.append(path.read_bytes())
        except OSError:
            contents.append(b"")
    return variables, contents


def _serve(control: socket.socket) -> ForkRequest | None:
    """Fork a process for each request until the socket is closed, then return None.

    In each forked process, return the request that it was forked for.
    """
    descriptors: list[int] = []
    is_rehearsed = False
    while head := receive(control, NUMBER_BYTES, descriptors):
        request = _REQUESTS.decode(receive(control, int.from_bytes(head)))
        log, gate = descriptors
        descriptors.clear()
        if not is_rehearsed and WORKER in request.arguments[:1]:
            _rehearse()
            is_rehearsed = True
        became = _fork(control)
        if became is None:
            _become(request, log, gate)
            return request
        os.close(log)
        os.close(gate)
        control.sendall(became.to_bytes(NUMBER_BYTES))
    return None


def _fork(control: socket.socket) -> int | None:
    """Fork a process with a session of its own and return its pid, or 0 if that failed. Return None in the new process.

    The process is forked by an intermediate process, which exits at once. The kernel then makes the supervisor its
    parent, because the supervisor is a child subreaper.
    """
    reader, writer = os.pipe()
    try:
        between = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return 0
    if not between:
        _leave_child_alone()
        control.close()
        os.close(reader)
        os.setsid()
        os.write(writer, os.getpid().to_bytes(NUMBER_BYTES))
        os.close(writer)
        return None
    os.close(writer)
    os.waitpid(between, 0)
    pid = int.from_bytes(os.read(reader, NUMBER_BYTES))  # empty if the second fork failed
    os.close(reader)
    return pid


def _leave_child_alone() -> None:
    """Fork again, return in the child, and exit in the intermediate process."""
    try:
        child = os.fork()
    except OSError:
        os._exit(1)
    if child:
        os._exit(0)


def _become(request: ForkRequest, log: int, gate: int) -> None:
    """Wait until the supervisor knows this process, then use the request's log, environment and folder.

    If the supervisor closes the gate instead, exit.
    """
    if not os.read(gate, 1):
        os._exit(1)
    bind_to_parent(request.parent, signal.Signals(request.death_signal))
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.close(gate)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    with suppress(OSError, ValueError, IndexError):
        _show_command(request.command)


def _show_command(command: Sequence[str]) -> None:
    """Show a command line in `ps`, by overwriting this process's own, which is at least as long."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_END])
    if 0 < start < end:
        shown = b"".join(os.fsencode(part) + b"\0" for part in command)[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, shown, len(shown))


if __name__ == "__main__":
    main()
