"""The home of a chaos run: disks of its own, proxies before the servers, and a clock that can be moved."""

from __future__ import annotations

import os
import pwd
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

from app.embedded import free_ports
from app.embedded.data_dirs import SERVER_USERS
from tests.chaos.network import set_loopback
from tests.chaos.plan import LOOPBACK
from tests.chaos.run_service import SERVERS, SERVICE, shim_file
from tests.faults.supervised_home import Household
from tests.processes import ROOT
from tests.waiting import until

DISKS: Final = ("postgres", "redis", "cold")
DISK_BYTES: Final = 6 << 30
CONTROL: Final = struct.Struct("qq")
REMOUNTS: Final = 50
MOUNT: Final = shutil.which("mount") or "/usr/bin/mount"
UNMOUNT: Final = shutil.which("umount") or "/usr/bin/umount"


class ChaosHome(Household):
    """A supervised service whose disks, network and clocks can be broken.

    Attributes:
        left_out: Groups of faults, or parts of them, that this machine doesn't permit, with the reason.
    """

    program = "tests.chaos.run_service"

    def __init__(self, home: Path, settings: dict[str, str], *, is_private: bool) -> None:
        """Prepare a folder; `is_private` means that this process is root in mount and network namespaces of its own."""
        ports = free_ports(len(SERVERS))
        self.left_out: dict[str, str] = {}
        self._ports = dict(zip(SERVERS, ports, strict=True))
        self._values = {name: [0, 0] for name in (*SERVERS, SERVICE)}
        for folder in ("targets", "shim"):
            (home / folder).mkdir(mode=0o711)
        self._is_private = is_private
        self._mount(home, is_private=is_private)
        if is_private:
            set_loopback(is_up=True)
        else:
            self.left_out[f"net cut {LOOPBACK}"] = "no network namespace: needs root and unshare"
        library = self._compile(home)
        given = {"CHAOS_PROXIES": " ".join(map(str, ports))} | ({"CHAOS_LIBRARY": str(library)} if library else {})
        super().__init__(home, settings | given)
        self._proxies = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.proxy", str(home / "targets"), *map(str, ports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    def close(self) -> None:
        """Stop the service and the proxies."""
        self.stop()
        if self._proxies.stdin is not None:
            self._proxies.stdin.close()
        self._proxies.wait()
        for disk in DISKS if "disk" not in self.left_out else ():
            subprocess.run([UNMOUNT, "--lazy", str(self.home / disk)], check=False)

    def command_network(self, place: str, command: str) -> None:
        """Make a server's proxy `pass`, `cut`, `reset`, `delay` or `silence`, or make the loopback `pass` or `cut`.

        Raises:
            OSError: The loopback isn't this run's own.
        """
        if place != LOOPBACK:
            self._command_proxy(place, command)
        elif self._is_private:
            set_loopback(is_up=command == "pass")
        else:
            raise OSError(self.left_out[f"net cut {LOOPBACK}"])

    def _command_proxy(self, server: str, command: str) -> None:
        sent, answers = self._proxies.stdin, self._proxies.stdout
        assert sent is not None
        assert answers is not None
        sent.write(f"{self._ports[server]} {command}\n".encode())
        sent.flush()
        answers.readline()

    def move_clock(self, name: str, seconds: int) -> None:
        """Set by how much the clock of a server, or of the service's own processes, is ahead."""
        self._values[name][0] = seconds
        self._write_shim(name)

    def slow_disk(self, disk: str, milliseconds: int) -> None:
        """Set by how much a disk's flushes take longer; cold storage is written by the service's own processes."""
        name = SERVICE if disk == "cold" else disk
        self._values[name][1] = milliseconds
        self._write_shim(name)

    def fill_disk(self, disk: str) -> None:
        """Shrink a disk to what is on it."""
        found = os.statvfs(self.home / disk)
        blocks = max(found.f_blocks - found.f_bfree, 1)  # 0 would mean no limit
        self._remount(disk, f"size={blocks * found.f_frsize}")

    def free_disk(self, disk: str) -> None:
        """Make a disk large and writable again."""
        self._remount(disk, f"rw,size={DISK_BYTES}")

    def lock_disk(self, disk: str) -> None:
        """Make a disk read-only."""
        self._remount(disk, "ro")

    def _remount(self, disk: str, options: str) -> None:
        """Remount a disk; another attempt follows while files are open for writing, or more has been written."""
        command = [MOUNT, "-o", f"remount,{options}", str(self.home / disk)]
        reason = ""
        for _ in range(REMOUNTS):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return
            reason = done.stderr
        raise OSError(f"{disk} can't be remounted with {options}: {reason}")

    def _write_shim(self, name: str) -> None:
        # In place: the processes have mapped the file.
        with shim_file(self.home, name).open("r+b") as file:
            file.write(CONTROL.pack(*self._values[name]))

    def _mount(self, home: Path, *, is_private: bool) -> None:
        if not is_private:
            self.left_out["disk"] = "no mount namespace: needs root and unshare"
            return
        user = next(found for found in pwd.getpwall() if found.pw_name in SERVER_USERS)
        for disk in DISKS:
            uid, gid = (0, 0) if disk == "cold" else (user.pw_uid, user.pw_gid)
            (home / disk).mkdir(mode=0o700)
            options = f"size={DISK_BYTES},mode=0700,uid={uid},gid={gid}"
            subprocess.run([MOUNT, "-t", "tmpfs", "-o", options, "tmpfs", str(home / disk)], check=True)

    def _compile(self, home: Path) -> Path | None:
        """Compile the library that is preloaded; None without a compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            reason = "no C compiler, or not Linux: clocks can't be moved, and disks not be slowed"
            self.left_out |= {"clock": reason, "disk slow": reason}
            return None
        library = home / "shim" / "shim.so"
        source = Path(__file__).with_name("shim.c")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        library.chmod(0o755)
        for name in self._values:
            shim_file(home, name).write_bytes(CONTROL.pack(0, 0))
            shim_file(home, name).chmod(0o644)
        return library

    def wait_until_well(self) -> None:
        """Wait until `/readyz` reports everything as ready."""
        until(self.is_well, "the service is ready")
