"""Run PostgreSQL and Redis as child processes, for `ebbing run`, the demo and the tests.

They end with their parent process, even if it is killed.

Example:
    home.mkdir(mode=0o700)
    postgres_port, redis_port = free_ports(2)
    server = Postgres(home, postgres_port)
    process = server.start()  # prepares, starts, waits until ready
    ...                       # server.url
    server.stop(process)
"""

from app.embedded.data_dirs import ensure_password
from app.embedded.postgres import Postgres
from app.embedded.process import (
    ChildProcess,
    EmbeddedError,
    ProgramSpec,
    ServerUser,
    free_ports,
    has_ended,
    kill_session,
    log_tail,
    spawn,
)
from app.embedded.redis import Redis
from app.embedded.server import Server, ServerOptions

__all__ = [
    "ChildProcess",
    "EmbeddedError",
    "Postgres",
    "ProgramSpec",
    "Redis",
    "Server",
    "ServerOptions",
    "ServerUser",
    "ensure_password",
    "free_ports",
    "has_ended",
    "kill_session",
    "log_tail",
    "spawn",
]
