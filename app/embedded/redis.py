"""Run Redis as a child process."""

from __future__ import annotations

import hashlib
import signal
import socket
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from app.embedded.binaries import redis_server, redis_version
from app.embedded.data_dirs import ensure_password, write_private
from app.embedded.redis_access import rules_for
from app.embedded.server import DURABLE, Server, ServerOptions

if TYPE_CHECKING:
    from pathlib import Path
    from typing import ClassVar

    from app.embedded.process import ChildProcess

DEFAULT_MAXMEMORY_BYTES = 512 * 1024 * 1024
READY_ANSWER = b"+OK\r\n+PONG\r\n"

CONFIGURATION = """\
bind 127.0.0.1
port {port}
# A connection whose client is gone, though the network lost its end, is freed after 30 s instead of ten minutes.
tcp-keepalive 15
user default reset on #{password_digest} {rules}
user admin reset on #{admin_password_digest} ~* resetchannels &* +@all
dir {folder}
daemonize no
save ""
appendonly {appendonly}
appendfsync {appendfsync}
maxmemory {maxmemory_bytes}
maxmemory-policy noeviction
always-show-logo no
# Both would show what clients send.
slowlog-log-slower-than -1
crash-log-enabled no
"""


class Redis(Server):
    """The Redis server of a home: on 127.0.0.1, no eviction, an append-only file in the home folder.

    The service's login may only run the commands that it needs (`redis_access`). The service itself never uses
    the user `admin`, which exists for operators and has a password of its own.
    """

    name = "redis"
    stop_signal = signal.SIGTERM
    ready_timeout_seconds: ClassVar[float] = 120
    stop_timeout_seconds: ClassVar[float] = 30

    def __init__(
        self,
        home: Path,
        port: int,
        options: ServerOptions = DURABLE,
        *,
        appendfsync: Literal["everysec", "always"] = "everysec",
        maxmemory_bytes: int = DEFAULT_MAXMEMORY_BYTES,
    ) -> None:
        """Create or find this server's folder in `home`, which exists.

        Raises:
            EmbeddedError: The folder can't be created or reached.
        """
        super().__init__(home, port, options)
        self.appendfsync = appendfsync
        self.maxmemory_bytes = maxmemory_bytes

    @property
    def url(self) -> str:
        """The `redis://` URL of database 0."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    @cached_property
    def admin_password(self) -> str:
        """The password of the user `admin`, from a file of mode 0600 that is created on first use."""
        return ensure_password(self.home / f"{self.name}-admin-password")

    @property
    def admin_url(self) -> str:
        """The `redis://` URL of database 0 for the user `admin`, who may run every command."""
        return f"redis://admin:{self.admin_password}@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        """Write the configuration, readable only by the server.

        It contains digests of the passwords, because Redis logs each configuration line that it can't parse.
        """
        text = CONFIGURATION.format(
            port=self.port,
            password_digest=_digest(self.password),
            admin_password_digest=_digest(self.admin_password),
            rules=rules_for(redis_version(self._program)),
            folder=_quoted(self.folder),
            appendonly="yes" if self.options.durable else "no",
            appendfsync=self.appendfsync,
            maxmemory_bytes=self.maxmemory_bytes,
        )
        write_private(self._configuration, text, self.user)

    def command(self) -> list[str]:
        """Return `redis-server` with its configuration file."""
        return [str(self._program), str(self._configuration)]

    def ready(self, process: ChildProcess) -> bool:  # noqa: ARG002  # the password identifies the server
        """Return True if the server accepts our password and has loaded its data."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=0.5) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while len(answer) < len(READY_ANSWER) and READY_ANSWER.startswith(answer):
                    part = connection.recv(64)
                    if not part:
                        return False
                    answer += part
                return answer == READY_ANSWER
        except OSError:
            return False

    @cached_property
    def _program(self) -> Path:
        return redis_server(self.user, self.options.cache_root)

    @property
    def _configuration(self) -> Path:
        return self.folder / "redis.conf"


def _digest(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
