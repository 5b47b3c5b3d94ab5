"""Container checks: what they detect, and that our own files pass."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.queues import LANES
from app.secret_settings import list_variables
from app.settings import Settings
from ops.checks.docker_lint import COMPOSE, DOCKERFILE, ROOT, SECRETS, compose_faults, dockerfile_faults

BASE = f"python:3.12.13-slim@sha256:{'0' * 64}"
GOOD_STAGE = f"""FROM {BASE}
ARG SOURCE_DATE_EPOCH=0
RUN pip install --no-cache-dir --no-compile --only-binary :all: --require-hashes -r x
RUN pip install --no-cache-dir --no-compile --no-deps --no-index x.whl
RUN python -m compileall --invalidation-mode unchecked-hash lib
USER 10001
HEALTHCHECK CMD ["true"]
ENTRYPOINT ["ebbing"]
"""
GOOD_SERVICE = """services:
  one:
    image: redis:8.10.2
    restart: unless-stopped
    read_only: true
    security_opt: ["no-new-privileges:true"]
    mem_limit: 1g
    logging: {driver: json-file, options: {max-size: 10m}}
    healthcheck: {disable: true}
"""


def test_our_containers_pass() -> None:
    assert dockerfile_faults(DOCKERFILE.read_text()) == []
    assert compose_faults(COMPOSE.read_text()) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ((BASE, "python"), "pin it to a full version"),
        ((BASE, "python:latest"), "pin it to a full version"),
        ((BASE, "python:3.12"), "pin it to a full version"),
        ((BASE, BASE.partition("@")[0]), "pin it to a digest"),
        (("USER 10001\n", ""), "runs as root"),
        (("USER 10001", "USER 0:0"), "runs as root"),
        (('HEALTHCHECK CMD ["true"]\n', ""), "no HEALTHCHECK"),
        (('["ebbing"]', "ebbing"), "JSON form"),
        (("USER 10001\n", "ADD http://example.org/x /x\nUSER 10001\n"), "use COPY"),
        (("install --no-cache-dir --no-compile --only", "install --no-compile \\\n --only"), "--no-cache-dir"),
        (("--no-cache-dir --no-compile --only", "--no-cache-dir --only"), "--no-compile"),
        ((" --require-hashes", ""), "--require-hashes"),
        ((" --only-binary :all:", ""), "--only-binary"),
        (("--no-deps --no-index", "--no-deps --only-binary :all:"), "--require-hashes"),
        (
            ("pip install --no-cache-dir --no-compile --only", "pip --python x install --no-compile --only"),
            "--no-cache-dir",
        ),
        (("ARG SOURCE_DATE_EPOCH=0\nRUN", "RUN true\nARG SOURCE_DATE_EPOCH=0\nRUN"), "without ARG SOURCE_DATE_EPOCH"),
        (("USER 10001\n", "RUN apt-get update\nUSER 10001\n"), "package index alone"),
        ((" --invalidation-mode unchecked-hash", ""), "would contain times"),
        (("RUN python -m compileall --invalidation-mode unchecked-hash lib\n", ""), "would compile"),
    ],
)
def test_a_fault_in_a_dockerfile_is_named(change: tuple[str, str], fault: str) -> None:
    assert dockerfile_faults(GOOD_STAGE) == []
    (found,) = dockerfile_faults(GOOD_STAGE.replace(*change))
    assert fault in found


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("redis:8.10.2", "redis"), "pin it"),
        (("    restart: unless-stopped\n", ""), "no restart rule"),
        (("    read_only: true\n", ""), "writable"),
        (('    security_opt: ["no-new-privileges:true"]\n', ""), "no-new-privileges"),
        (("    healthcheck: {disable: true}\n", ""), "no healthcheck"),
        (("    mem_limit: 1g\n", ""), "no memory limit"),
        (("max-size: 10m", "mode: blocking"), "grows without limit"),
        (("    read_only: true\n", "    read_only: true\n    privileged: true\n"), "into the host"),
        (("    read_only: true\n", '    read_only: true\n    ports: ["8000:8000"]\n'), "open to the network"),
        (("    read_only: true\n", "    read_only: true\n    environment: {REDIS_PASSWORD: x}\n"), "secret"),
        (("    read_only: true\n", "    read_only: true\n    depends_on: {two: {}}\n"), "isn't there"),
        (("    read_only: true\n", '    read_only: true\n    volumes: ["./ops:/etc/x"]\n'), "mounted writable"),
        (("    read_only: true\n", "    read_only: true\n    profiles: [x]\n"), "isn't root"),
        (("    read_only: true\n", '    read_only: true\n    profiles: [x]\n    user: "0:0"\n'), "isn't root"),
    ],
)
def test_a_fault_in_a_compose_file_is_named(change: tuple[str, str], fault: str) -> None:
    assert compose_faults(GOOD_SERVICE) == []
    (found,) = compose_faults(GOOD_SERVICE.replace(*change))
    assert fault in found


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def test_each_lane_has_a_worker() -> None:
    commands = [service["command"] for name, service in services().items() if name.startswith("worker-")]
    assert sorted(commands) == sorted(["worker", "--lane", lane] for lane in LANES)


def test_watching_is_asked_for_by_profile_and_nothing_leans_on_it() -> None:
    profiles = {name: service["profiles"] for name, service in services().items() if "profiles" in service}
    assert profiles == {"prometheus": ["prometheus"], "grafana": ["grafana"]}
    assert not any(set(service.get("depends_on", {})) & set(profiles) for service in services().values())


def test_what_is_mounted_lies_in_the_project() -> None:
    mounted = {
        mount.split(":")[0] for each in services().values() for mount in each.get("volumes", []) if mount[0] == "."
    }
    assert {"./ops/docker/postgres-roles.sh", "./ops/prometheus", "./ops/grafana/provisioning"} < mounted
    assert not [source for source in mounted if not (ROOT / source).exists()]


def test_each_setting_reaches_the_service_but_no_password_of_others() -> None:
    ours = {name: service for name, service in services().items() if service.get("image", "").startswith("ebbing:")}
    assert len(ours) == len(LANES) + 3
    for service in ours.values():
        assert service["env_file"] == [{"path": ".env", "required": False}]
        assert service["environment"]["POSTGRES_PASSWORD"] == service["environment"]["GRAFANA_PASSWORD"] == ""


def test_each_variable_of_the_compose_file_is_explained_beside_it() -> None:
    """Otherwise operators would have to read the compose file to know which variables to set."""
    asked = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", COMPOSE.read_text()))
    assert asked <= set(re.findall(r"^(?:# )?([A-Z_]+)=", (ROOT / ".env.example").read_text(), flags=re.MULTILINE))


def overridden(name: str) -> dict[str, Any]:
    """Return what `ops/docker/secrets.yml` changes of a service."""
    service: dict[str, Any] = yaml.safe_load(SECRETS.read_text())["services"][name]
    return service


def test_secrets_of_every_container_can_be_files_instead_of_variables() -> None:
    """No secret of docker-compose.yml is left in a variable, and each file is mounted where its variable says."""
    secret = re.compile(r"\$\{(\w*PASSWORD)\b")
    assert {name for name, service in services().items() if secret.search(str(service.get("environment")))} <= set(
        yaml.safe_load(SECRETS.read_text())["services"]
    )
    for name, service in services().items():
        ours = service.get("image", "").startswith("ebbing:")
        with_secrets = {key for key, value in service.get("environment", {}).items() if secret.search(str(value))}
        if ours:
            with_secrets |= {"EBBING_MASTER_KEY", "EBBING_METRICS_TOKEN"}
        if not with_secrets:
            continue
        changed = overridden(name)
        assert {key: changed["environment"][key] for key in with_secrets} == dict.fromkeys(with_secrets, "")
        files = {key: path for key, path in changed["environment"].items() if key.endswith("_FILE")}
        assert {re.sub("_*FILE$", "", key) for key in files} == with_secrets - {"REDISCLI_AUTH"}
        if ours:
            assert {key.removesuffix("_FILE") for key in files} <= set(list_variables(Settings))
        folders = {volume["target"]: volume["source"] for volume in changed["volumes"]}
        assert all(target == f"/run/secrets/{source.removeprefix('./secrets/')}" for target, source in folders.items())
        used = {path.rpartition("/")[0] for path in re.findall(r"/run/secrets/[\w/-]+", str(changed["environment"]))}
        used |= {"/run/secrets/redis"} if name == "redis" else set()
        assert folders.keys() == used, "a container must not see the secrets of another"
        assert all(volume["read_only"] for volume in changed["volumes"])


@pytest.mark.slow
def test_the_commands_for_secrets_in_files_write_each_file(tmp_path: Path) -> None:
    page = (ROOT / "ops" / "deployment.md").read_text()
    [commands] = [
        block
        for block in re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL)
        if "mkdir" in block and "secrets/" in block
    ]
    lines = [line for line in commands.splitlines() if not line.startswith("chown")]
    subprocess.run(["/bin/sh", "-euc", "\n".join(lines)], cwd=tmp_path, check=True, stdin=subprocess.DEVNULL)
    written = {f"/run/{path.relative_to(tmp_path)}" for path in tmp_path.rglob("*") if path.is_file()}
    services_text = SECRETS.read_text().partition("\nx-environment")[2]
    assert written == set(re.findall(r"/run/secrets/[a-z]+/[a-z-]+", services_text))
    assert all(len((tmp_path / path.removeprefix("/run/")).read_text().splitlines()) == 1 for path in written)
    modes = {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")}
    assert modes == {0}
    password = (tmp_path / "secrets" / "postgres" / "database-password").read_text().strip()
    url = (tmp_path / "secrets" / "service" / "database-url").read_text().strip()
    assert url == f"postgresql://ebbing_service:{password}@postgres:5432/ebbing"


def run_with_program(
    tmp_path: Path, name: str, command: list[str], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with a program of this name that prints its arguments and the password of Redis."""
    program = tmp_path / name
    program.write_text('#!/bin/sh\necho "$REDISCLI_AUTH $*"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "REDISCLI_AUTH": "", **variables}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, stdin=subprocess.DEVNULL
    )


@pytest.mark.slow
def test_redis_gets_its_password_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "redis-password"
    command = [
        part.replace("$$", "$").replace("/run/secrets/redis/redis-password", str(file))
        for part in [*overridden("redis")["entrypoint"], *services()["redis"]["command"][:2], "redis-server"]
    ]
    assert run_with_program(tmp_path, "docker-entrypoint.sh", command).returncode != 0
    file.write_text("\n")
    assert run_with_program(tmp_path, "docker-entrypoint.sh", command).returncode != 0, "an empty one admits anybody"
    file.write_text("secret\n")
    assert run_with_program(tmp_path, "docker-entrypoint.sh", command).stdout == "secret sh -c redis-server\n"


@pytest.mark.slow
def test_the_database_login_gets_its_password_from_the_variable_or_the_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    script = ["sh", str(ROOT / "ops" / "docker" / "postgres-roles.sh")]
    names = {"POSTGRES_USER": "postgres", "POSTGRES_DB": "ebbing", "DATABASE_PASSWORD_FILE": str(file)}
    assert "password=given" in run_with_program(tmp_path, "psql", script, **names, DATABASE_PASSWORD="given").stdout
    assert run_with_program(tmp_path, "psql", script, **names).stdout == "", "without a password, no login"
    file.write_text("secret\n")
    assert "password=secret" in run_with_program(tmp_path, "psql", script, **names, DATABASE_PASSWORD="").stdout
