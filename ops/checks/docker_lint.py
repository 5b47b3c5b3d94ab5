"""Static checks of the Dockerfile and docker-compose.yml; also `docker compose config`, if available."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "ops" / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker-compose.yml"
SECRETS = ROOT / "ops" / "docker" / "secrets.yml"

# services whose image writes outside its volumes
WRITES_ITS_ROOT = {"postgres"}


def dockerfile_faults(text: str) -> list[str]:
    """Return the faults of a Dockerfile, one line each."""
    steps = _steps(text)
    faults = []
    stages: set[str] = set()
    for keyword, rest in steps:
        if keyword == "FROM":
            image, *alias = rest.split(" AS ")
            if image.strip() not in stages:
                faults += image_faults("FROM", image.strip()) or digest_faults("FROM", image.strip())
            stages.update(name.strip() for name in alias)
        elif keyword == "ADD":
            faults.append("ADD: use COPY, or download with a checksum")
        elif keyword == "RUN":
            faults += [
                f"RUN pip install without {flag}: {command.strip()}"
                for command in re.split(r"&&|;", rest)
                if re.search(r"\bpip\b.* install\b", command)
                for flag in _missing_pip_flags(command)
            ]
    faults += _variance_faults(steps)
    last = dict(steps[_last_from(steps) :])
    user = last.get("USER", "root").split(":")[0]
    if user in {"root", "0"}:
        faults.append("the last stage runs as root: set USER")
    if last.get("HEALTHCHECK", "NONE").startswith("NONE"):
        faults.append("the last stage has no HEALTHCHECK")
    if not last.get("ENTRYPOINT", "[").startswith("["):
        faults.append("ENTRYPOINT: use the JSON form, so that signals reach the process")
    return faults


def _variance_faults(steps: list[tuple[str, str]]) -> Iterator[str]:
    """Yield what could make two builds of one commit differ."""
    has_time = False
    for keyword, rest in steps:
        if keyword == "FROM":
            has_time = False
        has_time |= keyword == "ARG" and rest.startswith("SOURCE_DATE_EPOCH")
        if keyword != "RUN":
            continue
        if not has_time:
            yield f"RUN without ARG SOURCE_DATE_EPOCH before it in its stage: {rest}"
        if reached := re.findall(r"\b(?:apt-get|apt|apk|curl|wget|git)\b(?=\s)", rest):
            yield f"RUN {reached[0]}: a build reaches the package index alone, whose files have hashes"
        if "compileall" in rest and "--invalidation-mode unchecked-hash" not in rest:
            yield "RUN compileall without --invalidation-mode unchecked-hash: bytecode would contain times"
    installs = any(keyword == "RUN" and "pip" in rest and " install " in rest for keyword, rest in steps)
    if installs and not any(keyword == "RUN" and "compileall" in rest for keyword, rest in steps):
        yield "pip install without a later compileall: each start would compile"


def compose_faults(text: str) -> list[str]:
    """Return the faults of a compose file, one line each."""
    services: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    faults = []
    for name, service in services.items():
        found = []
        if "build" not in service:
            found += image_faults("image", str(service.get("image", "")))
        if "healthcheck" not in service:
            found.append("no healthcheck; a service that cannot have one needs `disable: true`")
        if "restart" not in service:
            found.append("no restart rule: set restart")
        found += _limit_faults(service)
        if service.get("privileged") or service.get("network_mode") == "host" or service.get("pid") == "host":
            found.append("reaches into the host: remove privileged, network_mode: host and pid: host")
        if "no-new-privileges:true" not in service.get("security_opt", []):
            found.append("no-new-privileges isn't set")
        if not service.get("read_only") and name not in WRITES_ITS_ROOT:
            found.append("the root file system is writable: set read_only")
        if (
            "build" not in service
            and service.get("profiles")
            and service.get("user", "0").split(":")[0] in {"0", "root"}
        ):
            found.append("the user of its image is unknown: set a user that isn't root")
        found += [f"port {port} is open to the network" for port in service.get("ports", []) if not _is_local(port)]
        found += [
            f"{key} holds a secret: take it from the environment"
            for key, value in dict(service.get("environment", {})).items()
            if re.search("PASSWORD|SECRET|_KEY$|AUTH$|_URL$", key)
            and value not in {None, ""}
            and "${" not in str(value)
        ]
        found += [
            f"{mount} is mounted writable: add :ro, or use a volume"
            for mount in map(str, service.get("volumes", []))
            if mount.startswith((".", "/")) and not mount.endswith(":ro")
        ]
        found += [
            f"depends on {other}, which isn't there" for other in service.get("depends_on", {}) if other not in services
        ]
        faults += [f"{name}: {fault}" for fault in found]
    return faults


def _limit_faults(service: dict[str, Any]) -> Iterator[str]:
    if "mem_limit" not in service:
        yield "no memory limit: set mem_limit"
    if "max-size" not in service.get("logging", {}).get("options", {}):
        yield "its log grows without limit: set logging with max-size"


def engine_faults() -> list[str]:
    """Return the errors of `docker compose config`; none if Docker or its compose plugin is missing."""
    docker = shutil.which("docker")
    if docker is None:
        return []
    installed = subprocess.run([docker, "compose", "version"], capture_output=True, check=False)
    if installed.returncode:
        return []
    passwords = dict.fromkeys(("POSTGRES_PASSWORD", "DATABASE_PASSWORD", "REDIS_PASSWORD"), "only-to-check")
    faults = []
    for files in (["--file", str(COMPOSE)], ["--file", str(COMPOSE), "--file", str(SECRETS)]):
        done = subprocess.run(
            [docker, "compose", *files, "config", "--quiet"],
            capture_output=True,
            text=True,
            env=os.environ | passwords,
            check=False,
        )
        faults += done.stderr.strip().splitlines() if done.returncode else []
    return faults


def _steps(text: str) -> list[tuple[str, str]]:
    """Return the instructions with their arguments, with continued lines joined and comments removed."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    pairs = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(keyword.upper(), rest.strip()) for keyword, _, rest in pairs]


def _last_from(steps: list[tuple[str, str]]) -> int:
    return max((place for place, (keyword, _) in enumerate(steps) if keyword == "FROM"), default=0)


def image_faults(where: str, image: str) -> list[str]:
    """Return the faults of an image's name; `where` begins each line."""
    if not re.search(r":v?\d+\.\d+\.\d+[\w.-]*$|@sha256:[0-9a-f]{64}$", image):
        return [f"{where} {image or '(none)'}: pin it to a full version"]
    return []


def digest_faults(where: str, image: str) -> list[str]:
    """Return the fault of an image's name without a digest; `where` begins the line."""
    if not re.search(r"@sha256:[0-9a-f]{64}$", image):
        return [f"{where} {image}: pin it to a digest, after its version"]
    return []


def _missing_pip_flags(command: str) -> list[str]:
    """Return the flags that an installation needs: from the index with hashes, or a local file without the index."""
    is_local = "--no-deps" in command and "--no-index" in command
    wanted = ["--no-cache-dir", "--no-compile", *(() if is_local else ("--require-hashes", "--only-binary :all:"))]
    return [flag for flag in wanted if flag not in command]


def _is_local(port: object) -> bool:
    host = port.get("host_ip", "") if isinstance(port, dict) else str(port)
    return str(host).startswith("127.0.0.1")


def main() -> int:
    """Check both files; return 1 if there is a fault."""
    faults = [f"{DOCKERFILE.name}: {fault}" for fault in dockerfile_faults(DOCKERFILE.read_text())]
    faults += [f"{COMPOSE.name}: {fault}" for fault in compose_faults(COMPOSE.read_text()) + engine_faults()]
    print("\n".join(faults) or "containers: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
