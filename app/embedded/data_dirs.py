"""Locate a server's data: in the home folder, or linked from there if the server's user can't reach it."""

from __future__ import annotations

import hashlib
import itertools
import os
import pwd
import secrets
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from app.embedded.binaries import PLAIN_ENVIRONMENT, permit
from app.embedded.process import EmbeddedError, ProgramSpec, ServerUser, run

SERVER_USERS = ("postgres", "nobody")


def prepare_folder(home: Path, name: str, data_root: Path) -> tuple[Path, ServerUser | None]:
    """Return the folder of server `name`, created on first use, and the user to run it as.

    An ordinary user stores everything in the home folder and runs the server itself (user None). PostgreSQL refuses to
    run as root, so root's servers run as a system user; if that user can't enter the home, the folder is created under
    `data_root` and `home/name` links to it. The folder has mode 0700. The folders above it below `data_root` get the
    modes that the user needs, whatever the umask, also if an earlier start has left them closed.

    Raises:
        EmbeddedError: The folder can't be created or reached, or the link is dangling.
    """
    here = home / name
    if os.geteuid() != 0:
        here.mkdir(mode=0o700, exist_ok=True)
        return here.resolve(), None
    if here.is_symlink() or here.exists():
        return _find_former_folder(here, data_root)
    user = _server_user()
    if _has_access(user, "-x", home):
        here.mkdir(mode=0o700)
        folder = here
    else:
        folder = _folder_elsewhere(home, name, data_root)
        if not _has_access(user, "-x", folder.parent):
            folder.rmdir()
            raise EmbeddedError(_describe_closed(folder.parent, user))
        here.symlink_to(folder)
    os.chown(folder, user.uid, user.gid)
    return folder.resolve(), user


def ensure_password(path: Path) -> str:
    """Return the password stored in `path` (mode 0600), creating it from 256 random bits on first use."""
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8").strip()
    write_private(path, secrets.token_urlsafe(32))
    return path.read_text(encoding="utf-8").strip()


def write_private(path: Path, text: str, owner: ServerUser | None = None) -> None:
    """Write a file of mode 0600 atomically and flush it to disk before returning."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if owner:
        os.chown(draft, owner.uid, owner.gid)
    draft.replace(path)


_ROOT_MODE: Final = 0o755
_GROUP_MODE: Final = 0o711
_WAY_OUT: Final = (
    "set EBBING_HOME to a folder that the servers' user can enter, run ebbing as an ordinary user, "
    "or set EBBING_DATABASE_URL and EBBING_REDIS_URL"
)


def _server_user() -> ServerUser:
    for name in SERVER_USERS:
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return ServerUser(name, found.pw_uid, found.pw_gid)
    raise EmbeddedError(
        f"PostgreSQL doesn't run as root, and none of the users {', '.join(SERVER_USERS)} exists: "
        "run ebbing as an ordinary user, or set EBBING_DATABASE_URL"
    )


def _find_former_folder(here: Path, data_root: Path) -> tuple[Path, ServerUser]:
    """Return the folder of an earlier start and its owner, even if a new start would choose another user."""
    folder = here.resolve()
    if not folder.is_dir():
        raise EmbeddedError(f"{here} leads to {folder}, which isn't there: put it back, or remove {here}")
    found = folder.stat()
    if found.st_uid == 0:
        user = _server_user()
        raise EmbeddedError(f"{folder} belongs to root: chown -R {user.name} {folder}")
    try:
        name = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        name = str(found.st_uid)
    user = ServerUser(name, found.st_uid, found.st_gid)
    if folder.parent.parent == data_root.resolve():
        permit(data_root, _ROOT_MODE)
        permit(folder.parent, _GROUP_MODE)
    if not _has_access(user, "-w", folder):
        raise EmbeddedError(_describe_closed(folder, user))
    return folder, user


def _folder_elsewhere(home: Path, name: str, data_root: Path) -> Path:
    """Create a new folder and return it; an existing one, of a home that was moved or removed, isn't reused."""
    digest = hashlib.blake2b(os.fsencode(home.resolve()), digest_size=8).hexdigest()
    try:
        data_root.mkdir(parents=True, exist_ok=True)
        permit(data_root, _ROOT_MODE)
        for number in itertools.count(1):
            group = data_root / (digest if number == 1 else f"{digest}-{number}")
            group.mkdir(exist_ok=True)
            permit(group, _GROUP_MODE)
            with suppress(FileExistsError):
                (group / name).mkdir(mode=0o700)
                (group / "home").write_text(f"{home.resolve()}\n", encoding="utf-8")
                return group / name
    except OSError as error:
        raise EmbeddedError(f"no place for the data of {name}: {error}; {_WAY_OUT}") from error
    raise AssertionError  # unreachable: `count` is endless


def _describe_closed(folder: Path, user: ServerUser) -> str:
    """Return the error for a folder that the user can't reach: the outermost closed folder, and how to open it."""
    closed = next((each for each in reversed(folder.parents) if not _has_access(user, "-x", each)), folder)
    return f"{closed} can't be entered by user {user.name}: chmod a+x {shlex.quote(str(closed))}; or {_WAY_OUT}"


def _has_access(user: ServerUser, question: str, path: Path) -> bool:
    """Test access by running `test` as the user, which accounts for access lists and mounts as well as modes."""
    program = shutil.which("test", path=PLAIN_ENVIRONMENT["PATH"]) or "/usr/bin/test"
    code, _ = run(ProgramSpec([program, question, str(path)], PLAIN_ENVIRONMENT, user))
    return code == 0
