"""A small file system in memory, on which a server of a test can run out of space."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import pytest


@contextmanager
def mounted(mib: int) -> Iterator[Path]:
    """Mount a disk of this size at a folder that every user may enter; skip the test where that isn't possible."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = Path("/tmp") / f"ebbing-small-disk-{token_hex(6)}"  # noqa: S108 - a mount point of this test
    folder.mkdir()
    command = ["/bin/mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0777", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        folder.rmdir()
        pytest.skip(f"no small disk can be mounted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def fill(disk: Path, rest_bytes: int = 0) -> Path:
    """Occupy the disk's free space except for `rest_bytes`, and return the file to delete."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        file.write(bytes(max(shutil.disk_usage(disk).free - rest_bytes, 0)))
    return filler
