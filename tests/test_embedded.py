"""PostgreSQL and Redis as child processes: as root and as a user, in private folders, through crashes."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.embedded import EmbeddedError, Postgres, ProgramSpec, Redis, ServerOptions, free_ports, spawn
from app.embedded.binaries import postgres_programs, redis_server
from tests import redis_login
from tests.waiting import PATIENCE_SECONDS, until

AS_ROOT = os.geteuid() == 0
root_only = pytest.mark.skipif(not AS_ROOT, reason="only root's servers run as another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short-lived folder that every user may enter; subfolders set their own modes."""
    path = Path(tempfile.mkdtemp(prefix="ebbing-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def options(folder: Path) -> ServerOptions:
    """Options that put root's data and copies of programs below `folder`."""
    return ServerOptions(data_root=folder / "data", cache_root=folder / "cache")


@pytest.fixture
def hasty(options: ServerOptions) -> ServerOptions:
    """The options without flushing, for tests without a crash."""
    return replace(options, durable=False)


@pytest.fixture
def private_umask() -> Iterator[None]:
    """The umask of a shell that has run the runbook's block for backups."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def home(folder: Path) -> Path:
    """A private home, as `ebbing run` creates it."""
    path = folder / "home"
    path.mkdir(mode=0o700)
    return path


@pytest.mark.slow
def test_a_first_start_makes_postgresql_with_pgvector_and_a_second_keeps_its_rows(
    home: Path, options: ServerOptions
) -> None:
    server = Postgres(home, free_ports(1)[0], options)
    process = server.start()
    try:
        with psycopg.connect(server.url) as tx:
            tx.execute("create extension vector")
            tx.execute("create table note as select '[1,2,3]'::vector as place")
            assert tx.execute("show timezone").fetchone() == ("UTC",)
            # Non-ASCII words are folded and split as in other installations.
            assert tx.execute("select to_tsvector('simple', '“ÄPFEL” — ok')::text").fetchone() == ("'ok':2 'äpfel':1",)
    finally:
        assert server.stop(process) == 0

    again = Postgres(home, server.port, options)
    process = again.start()
    try:
        with psycopg.connect(again.url) as tx:
            assert tx.execute("select place::text from note").fetchone() == ("[1,2,3]",)
    finally:
        assert again.stop(process) == 0
    assert "[1,2,3]" not in server.log.read_text()


@pytest.mark.slow
def test_a_killed_postgresql_comes_back_on_its_port_with_its_rows(home: Path, options: ServerOptions) -> None:
    server = Postgres(home, free_ports(1)[0], options)
    process = server.start()
    with psycopg.connect(server.url) as tx:
        tx.execute("create table note as select generate_series(1, 1000) as number")
    process.kill()
    process.wait()
    # The pid file still says "ready", but its process has ended.
    assert (server.data / "postmaster.pid").read_text().splitlines()[7].strip() == "ready"

    def again() -> subprocess.Popen[bytes] | None:  # a backend may outlive its server for a moment
        with suppress(EmbeddedError):
            return server.start()
        return None

    process = until(again, "the server starts again")
    try:
        with psycopg.connect(server.url) as tx:
            assert tx.execute("select count(*) from note").fetchone() == (1000,)
    finally:
        server.stop(process)


@pytest.mark.slow
def test_both_servers_want_a_password(home: Path, hasty: ServerOptions) -> None:
    postgres_port, redis_port = free_ports(2)
    postgres, cache = Postgres(home, postgres_port, hasty), Redis(home, redis_port, hasty)
    processes = [(server, server.start()) for server in (postgres, cache)]
    try:
        for password in ("", "wrong"):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(postgres.database_url("postgres").replace(postgres.password, password))
        with (
            redis.Redis(port=redis_port, retry=Retry(NoBackoff(), 0)) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.ping()
        with redis.Redis.from_url(cache.url) as client:
            assert client.ping()
    finally:
        for server, process in processes:
            server.stop(process)
    for path in ("postgres-password", "redis-password", "redis-admin-password", "redis/redis.conf"):
        assert stat.S_IMODE((home / path).stat().st_mode) == 0o600
    for server in (postgres, cache):
        assert server.password not in " ".join(server.command())
        assert server.password not in server.log.read_text()


FORBIDDEN = (
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("SWAPDB", "0", "1"),
    ("KEYS", "*"),
    ("SCAN", "0"),
    ("CONFIG", "GET", "*"),
    ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"),
    ("DEBUG", "SLEEP", "0"),
    ("SHUTDOWN", "NOSAVE"),
    ("REPLICAOF", "NO", "ONE"),
    ("MONITOR",),
    ("BGREWRITEAOF",),
    ("CLIENT", "LIST"),
    ("ACL", "LIST"),
    ("ACL", "SETUSER", "default", "+@all"),
    ("SCRIPT", "FLUSH"),
    ("MODULE", "LIST"),
    ("EVAL", "return redis.call('FLUSHALL')", "0"),
    ("EVAL", "return redis.call('GET', 'foreign')", "0"),
    ("SET", "foreign", "1"),
    ("GET", "ebbing"),
    ("DEL", "foreign"),
    ("RENAME", "ebbing:a", "ebbing:b"),
    ("PUBLISH", "foreign", "1"),
    ("XTRIM", "ebbing:a", "MAXLEN", "0"),
)


@pytest.mark.slow
def test_the_services_redis_login_may_not_change_the_server_or_read_foreign_keys(
    home: Path, hasty: ServerOptions
) -> None:
    server = Redis(home, free_ports(1)[0], hasty)
    process = server.start()
    try:
        with redis.Redis.from_url(server.url) as client, redis.Redis.from_url(server.admin_url) as admin:
            admin.set("foreign", "kept")
            client.set("ebbing:own", "1")
            for command in FORBIDDEN:
                with pytest.raises(
                    redis.ResponseError, match=r"(?i)no permission|can't (run|access)|NOPERM|command not allowed"
                ):
                    client.execute_command(*command)
            assert len(redis_login.list_refusals(admin, "default")) >= len(FORBIDDEN) // 2, "Redis logs what it refuses"
            assert (admin.get("foreign"), client.get("ebbing:own")) == (b"kept", b"1")
            assert admin.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        assert server.admin_password != server.password
    finally:
        assert server.stop(process) == 0, "the server stops by a signal, without a command"


@pytest.mark.slow
def test_redis_keeps_what_it_confirmed_and_never_evicts(home: Path, options: ServerOptions) -> None:
    server = Redis(home, free_ports(1)[0], options, appendfsync="always", maxmemory_bytes=32 * 1024 * 1024)
    process = server.start()
    with redis.Redis.from_url(server.admin_url) as client:
        client.set("kept", "yes")
        found = client.config_get("*")
    process.kill()
    process.wait()
    process = server.start()
    try:
        with redis.Redis.from_url(server.admin_url) as client:
            assert client.get("kept") == b"yes"
    finally:
        assert server.stop(process) == 0
    assert (found["maxmemory"], found["maxmemory-policy"]) == (str(32 * 1024 * 1024), "noeviction")
    assert (found["appendonly"], found["appendfsync"], found["bind"]) == ("yes", "always", "127.0.0.1")


@pytest.mark.slow
def test_an_ordinary_user_has_everything_in_the_home(folder: Path) -> None:
    home = folder / "home"
    home.mkdir(mode=0o700)
    if AS_ROOT:
        nobody = pwd.getpwnam("nobody")
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        reach = subprocess.run(["/usr/bin/test", "-x", sys.prefix], user=nobody.pw_uid, check=False)
        if reach.returncode != 0:
            pytest.skip(f"{sys.prefix}, with the servers' programs, lies where an ordinary user can't go")
    options = ServerOptions(data_root=folder / "no", cache_root=folder / "no")
    ports = free_ports(2)

    def given() -> None:
        for server in (Postgres(home, ports[0], options), Redis(home, ports[1], options)):
            assert server.user is None
            process = server.start()
            assert server.stop(process) == 0
            assert not (home / server.name).is_symlink()

    _as_nobody(given)
    assert (home / "postgres" / "data" / "PG_VERSION").exists()
    assert not (folder / "no").exists()


@pytest.mark.slow
@root_only
def test_data_is_linked_from_a_home_that_its_user_cannot_enter(
    folder: Path, home: Path, options: ServerOptions
) -> None:
    server = Postgres(home, free_ports(1)[0], options)
    assert (home / "postgres").is_symlink()
    assert server.folder.is_relative_to(options.data_root)
    found = server.folder.stat()
    assert server.user
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (server.user.uid, 0o700)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700

    assert Postgres(home, server.port, options).folder == server.folder
    shutil.rmtree(home)
    home.mkdir(mode=0o700)
    fresh = Postgres(home, server.port, options)
    assert fresh.folder != server.folder, "a new home must not take over the data of a removed one"
    shutil.rmtree(fresh.folder)
    with pytest.raises(EmbeddedError, match="which isn't there"):
        Postgres(home, server.port, options)


@pytest.mark.slow
@root_only
def test_a_server_of_root_starts_whatever_the_umask_of_this_or_an_earlier_start(
    folder: Path, home: Path, hasty: ServerOptions, private_umask: None
) -> None:
    redis = Redis(home, free_ports(1)[0], hasty)
    group = redis.folder.parent
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (hasty.data_root, group, redis.folder)]
    assert modes == [0o755, 0o711, 0o700]
    assert redis.stop(redis.start()) == 0

    hasty.data_root.chmod(0o700)
    group.chmod(0o700)
    assert Postgres(home, 1, hasty).folder.parent == group, "a closed folder of an earlier start is opened"
    group.chmod(0o700)
    assert Redis(home, 1, hasty).folder == redis.folder


@pytest.mark.slow
@root_only
def test_copied_programs_can_be_run_whatever_the_umask(
    folder: Path, home: Path, options: ServerOptions, monkeypatch: pytest.MonkeyPatch, private_umask: None
) -> None:
    private = folder / "private"
    private.mkdir()
    shutil.copy(redis_server(None, options.cache_root), private / "redis-server")
    monkeypatch.setenv("PATH", str(private))
    server = Redis(home, free_ports(1)[0], options)
    assert server.stop(server.start()) == 0
    assert Path(server.command()[0]).is_relative_to(options.cache_root)


@pytest.mark.slow
@root_only
def test_a_closed_folder_above_the_data_is_named_with_its_remedy(folder: Path, home: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    options = ServerOptions(data_root=closed / "data")
    for _ in range(2):
        with pytest.raises(EmbeddedError, match=f"^{closed} can't be entered by user .*: chmod a\\+x {closed}; or "):
            Postgres(home, 1, options)
    closed.chmod(0o711)
    assert Postgres(home, 1, options).folder.parent == Redis(home, 1, options).folder.parent


@pytest.mark.slow
@root_only
def test_data_stays_inside_a_home_that_its_user_can_enter(home: Path, options: ServerOptions) -> None:
    home.chmod(0o711)
    assert Postgres(home, 1, options).folder == home / "postgres"
    assert not options.data_root.exists()


@pytest.mark.slow
@root_only
def test_programs_out_of_reach_are_copied_once(
    folder: Path, options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = postgres_programs(None, options.cache_root).parents[1]
    private = folder / "private"
    private.mkdir(mode=0o700)
    for name in (programs.name, f"{programs.name}.libs"):
        shutil.copytree(programs.parent / name, private / name, symlinks=True, copy_function=os.link)
    shutil.copy(redis_server(None, options.cache_root), private / "redis-server")
    monkeypatch.syspath_prepend(private)
    monkeypatch.setenv("PATH", str(private))
    home = folder / "home"
    home.mkdir(mode=0o700)

    for kind in (Postgres, Redis):
        server = kind(home, free_ports(1)[0], options)
        server.stop(server.start())
        program = Path(server.command()[0])
        assert program.is_relative_to(options.cache_root)
        made = program.stat().st_ino
        assert Path(kind(home, 1, options).command()[0]).stat().st_ino == made
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    options.cache_root.chmod(0o777)  # now any user could put a program there
    monkeypatch.setenv("TMPDIR", str(folder / "nowhere"))
    monkeypatch.setattr(tempfile, "tempdir", str(home / "lock" / "x"))
    (home / "lock").touch()
    with pytest.raises(EmbeddedError, match="only root can write"):
        Redis(home, 1, options).command()


@pytest.mark.slow
def test_data_left_by_another_start_is_taken_over_or_refused_with_a_reason(home: Path, hasty: ServerOptions) -> None:
    server = Postgres(home, 1, hasty)
    server.prepare()

    # After a crash the pid file may name an unrelated process.
    pid_file = server.data / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{server.data}\n")
    server.prepare()
    assert not pid_file.exists()

    (server.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedError, match="contains data of PostgreSQL 17, but this is PostgreSQL 18"):
        server.prepare()

    (home / "postgres-password").unlink()
    with pytest.raises(EmbeddedError, match="postgres-password is missing"):
        _ = Postgres(home, 1, hasty).url


@pytest.mark.slow
def test_a_server_that_cannot_start_shows_the_end_of_its_log(home: Path, options: ServerOptions) -> None:
    reason = r"redis ended with exit code 1(.|\n)*ddress already in use"
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(EmbeddedError, match=reason),
    ):
        Redis(home, taken.getsockname()[1], options).start()


def test_children_are_started_from_the_main_thread_only(home: Path) -> None:
    errors: list[EmbeddedError] = []

    def attempt() -> None:
        try:
            spawn(ProgramSpec(["true"], {}), log=home / "logs" / "x.log", death_signal=signal.SIGKILL)
        except EmbeddedError as error:
            errors.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert "main thread" in str(errors[0])


@pytest.mark.slow
def test_a_large_log_is_put_aside_at_the_next_start(home: Path) -> None:
    log = home / "logs" / "x.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    process = spawn(ProgramSpec(["/bin/echo", "new"], {}), log=log, death_signal=signal.SIGKILL)
    process.wait(PATIENCE_SECONDS)
    assert log.read_text() == "new\n"
    assert log.with_name("x.log.1").stat().st_size > 10 * 1024 * 1024


def test_ports_are_distinct_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    with socket.create_server(("127.0.0.1", ports[0])):
        pass


def _as_nobody(given: Callable[[], None]) -> None:
    """Run `given` as an ordinary user in a fork, because that user may be unable to start Python."""
    if not AS_ROOT:
        given()
        return
    nobody = pwd.getpwnam("nobody")
    socket.getaddrinfo("127.0.0.1", 1)  # loads a codec, which the fork may be unable to do
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            given()
            code = 0
        except BaseException:  # noqa: BLE001  # the fork must exit here in any case
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as report:
        text = report.read()  # ends when the child does: its own children don't inherit the pipe
    assert os.waitpid(child, 0)[1] == 0, text
