"""Read, write and remove notes in a folder, without following symbolic links, and without leaving half a note.

A file is written under a temporary name, flushed to disk, and then renamed. Folders are opened once, and files are
opened relative to them, so that nobody can redirect a path in between. This module and the modules that it imports
(`app.errors`, `app.domain.notes.note`) need only the standard library, because `ebbing notes` uses it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.notes import note
from app.errors import EbbingError

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITERS: Final = 8
"""Number of threads that write files; file systems commit concurrent flushes of several files together."""
_TEMPORARY: Final = re.compile(r"\.([0-9a-f-]{36})\.[0-9a-f]{16}\.tmp")


class NotesFolderFailed(EbbingError):
    """The notes folder can't be used. The message names the operation and the reason, never a text."""

    status, type, title = 503, "notes-folder", "The notes folder can't be used"


class FolderEntry(NamedTuple):
    """A file that belongs to a memory.

    Attributes:
        name: File name.
        memory_id: The memory by the file's name, or else by its front matter.
        is_temporary: True for a file that is being written, or that a crash has left.
    """

    name: str
    memory_id: UUID
    is_temporary: bool


class NotesFolder:
    """An open folder of notes; create it with `open_folder`."""

    def __init__(self, descriptor: int) -> None:
        """Use an open folder."""
        self._descriptor = descriptor

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None if there is none, and empty if it isn't a regular file or is too large."""
        try:
            descriptor = os.open(name, _READ, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                return b""
            raise _failed("read", error) from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > note.BYTES_MAX:
                return b""
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)

    def write_temporary(self, contents: Mapping[UUID, bytes]) -> dict[UUID, str]:
        """Write files under temporary names and flush them to disk; return their names by memory."""
        names = {memory_id: f".{memory_id}.{os.urandom(8).hex()}.tmp" for memory_id in contents}
        try:
            with ThreadPoolExecutor(_WRITERS) as pool:
                list(pool.map(self._write, names.values(), contents.values()))
        except OSError as error:
            self.discard(names.values())
            raise _failed("write", error) from None
        return names

    def _write(self, name: str, content: bytes) -> None:
        with os.fdopen(os.open(name, _CREATE, FILE_MODE, dir_fd=self._descriptor), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def publish(self, temporary: Mapping[UUID, str]) -> None:
        """Rename temporary files to notes, replacing former notes, and flush the folder."""
        with _errors("rename"):
            for memory_id, name in temporary.items():
                target = note.note_name(memory_id)
                os.rename(name, target, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            os.fsync(self._descriptor)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file under any name, so that it has either its former content or the new one."""
        temporary = f".{name}.{os.urandom(8).hex()}.new"
        with _errors("write"):
            self._write(temporary, content)
            os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            os.fsync(self._descriptor)

    def discard(self, names: Iterable[str]) -> None:
        """Remove temporary files as far as they exist."""
        for name in names:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)

    def remove(self, names: Iterable[str]) -> int:
        """Remove files, and flush the folder; return the number of files removed."""
        removed = 0
        with _errors("remove"):
            for name in names:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._descriptor)
                    removed += 1
            if removed:
                os.fsync(self._descriptor)
        return removed

    def entries(self, *, by_content: bool = False) -> Iterator[FolderEntry]:
        """Iterate over the files of memories.

        Args:
            by_content: Also read files under other names, such as copies, whose front matter has the id of a memory.
        """
        with _errors("list"), os.scandir(self._descriptor) as found:
            names = [entry.name for entry in found if not entry.is_dir(follow_symlinks=False)]
        for name in sorted(names):
            temporary = _TEMPORARY.fullmatch(name)
            memory_id = _parse(temporary[1]) if temporary else note.parse_name(name)
            if memory_id is None and by_content:
                memory_id = note.read_id(self.read(name) or b"")
            if memory_id is not None:
                yield FolderEntry(name, memory_id, temporary is not None)

    def age_seconds(self, name: str, now: float) -> float:
        """Return the time since a file was last written; infinite if it doesn't exist."""
        try:
            return now - os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime
        except FileNotFoundError:
            return float("inf")


@contextmanager
def open_folder(base: Path, name: str | None = None) -> Iterator[NotesFolder]:
    """Open a folder, or a folder directly below it, and create what is missing.

    Raises:
        NotesFolderFailed: A folder is a symbolic link or can't be used.
    """
    with _errors("create"):
        base.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        if name is not None:
            descriptor = os.open(base, _FOLDER)
            try:
                with suppress(FileExistsError):
                    os.mkdir(name, FOLDER_MODE, dir_fd=descriptor)
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
    with find_folder(base, name) as folder:
        if folder is None:
            raise NotesFolderFailed("the notes folder can't be used (open): it was removed")
        yield folder


@contextmanager
def find_folder(base: Path, name: str | None = None) -> Iterator[NotesFolder | None]:
    """Open a folder like `open_folder`, but yield None if it doesn't exist."""
    descriptors: list[int] = []
    try:
        with _errors("open"), suppress(FileNotFoundError):
            descriptors.append(os.open(base, _FOLDER))
            if name is not None:
                descriptors.append(os.open(name, _FOLDER, dir_fd=descriptors[0]))
        is_open = len(descriptors) == (1 if name is None else 2)
        yield NotesFolder(descriptors[-1]) if is_open else None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def _errors(operation: str) -> Iterator[None]:
    """Convert errors of the file system."""
    try:
        yield
    except OSError as error:
        raise _failed(operation, error) from None


def _failed(operation: str, error: OSError) -> NotesFolderFailed:
    is_link = error.errno in (errno.ELOOP, errno.ENOTDIR)
    reason = "it is a symbolic link or no folder" if is_link else os.strerror(error.errno or 0)
    return NotesFolderFailed(f"the notes folder can't be used ({operation}): {reason}")


def _parse(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
