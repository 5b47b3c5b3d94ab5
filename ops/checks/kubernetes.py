"""Static checks of ops/kubernetes: Kubernetes' own schemas, and our requirements on each manifest."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import jsonschema
import yaml
from kubernetes_validate import utils as schemas
from referencing import Registry, Resource

from app.queues import LANES
from app.settings import Settings
from ops.checks.docker_lint import image_faults
from ops.checks.kubernetes_pages import FOLDER, NAMESPACE

# The oldest and the newest version that the manifests are checked against.
VERSIONS: Final = ("1.32", "1.37")
# Variables read by cloud providers' tools; all other names in the manifests are Ebbing's settings.
FOREIGN: Final = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
EXAMPLE: Final = "secret.example.yaml"
OWNER: Final = "ebbing-owner"
PROBED: Final = {"api": {"startupProbe", "readinessProbe", "livenessProbe"}, "worker": {"livenessProbe"}}

_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
# KEDA's own schema is not among Kubernetes'; this one covers the fields that we use.
SCALED_OBJECT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["scaleTargetRef", "minReplicaCount", "maxReplicaCount", "triggers"],
    "additionalProperties": False,
    "properties": {
        "scaleTargetRef": {"type": "object", "required": ["name"], "additionalProperties": {"type": "string"}},
        "pollingInterval": {"type": "integer", "minimum": 1},
        "minReplicaCount": {"type": "integer", "minimum": 1},
        "maxReplicaCount": {"type": "integer", "minimum": 1},
        "advanced": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "horizontalPodAutoscalerConfig": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"behavior": {"type": "object"}},
                }
            },
        },
        "triggers": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["type", "metadata"],
                "additionalProperties": False,
                "properties": {
                    "type": {"const": "prometheus"},
                    "metricType": {"enum": ["AverageValue", "Value"]},
                    "metadata": _TEXTS | {"required": ["serverAddress", "query", "threshold"]},
                },
            },
        },
    },
}
# The Prometheus operator's schema isn't among Kubernetes' either.
SERVICE_MONITOR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["selector", "endpoints"],
    "additionalProperties": False,
    "properties": {
        "selector": {"type": "object", "required": ["matchLabels"], "properties": {"matchLabels": _TEXTS}},
        "endpoints": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["port", "path", "honorLabels"],
                "additionalProperties": False,
                "properties": {
                    "port": {"type": "string"},
                    "path": {"const": "/metrics"},
                    "interval": {"type": "string", "pattern": r"^\d+s$"},
                    "scrapeTimeout": {"type": "string", "pattern": r"^\d+s$"},
                    "honorLabels": {"const": True},
                    "authorization": {
                        "type": "object",
                        "required": ["credentials"],
                        "additionalProperties": False,
                        "properties": {"type": {"const": "Bearer"}, "credentials": _TEXTS},
                    },
                },
            },
        },
    },
}
OTHERS: Final = {"ScaledObject": SCALED_OBJECT, "ServiceMonitor": SERVICE_MONITOR}


def manifests() -> dict[str, list[dict[str, Any]]]:
    """Return all documents, by file."""
    return {
        str(path.relative_to(FOLDER)): [document for document in yaml.safe_load_all(path.read_text()) if document]
        for path in sorted(FOLDER.rglob("*.yaml"))
    }


def faults(files: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the faults of the manifests, one line each."""
    documents = [(name, document) for name, found in files.items() for document in found]
    plain = [document for _, document in documents if document["kind"] != "Kustomization"]
    found = [
        f"{name}: {document['kind']} {document.get('metadata', {}).get('name', '')}: {fault}"
        for name, document in documents
        for check in _CHECKS
        for fault in check(document)
    ]
    return [
        *found,
        *_kustomization_faults(files),
        *_links(plain),
        *_service_faults(plain),
        *_source_faults(plain),
        *_lane_faults(plain),
    ]


def _schema_faults(document: dict[str, Any]) -> Iterator[str]:
    if document["kind"] == "Kustomization":
        return
    if document["kind"] in OTHERS:
        validator = jsonschema.Draft202012Validator(OTHERS[document["kind"]])
        yield from (f"{error.json_path} {error.message}" for error in validator.iter_errors(document["spec"]))
        # the scaler's behaviour field is that of a HorizontalPodAutoscaler, which has a schema
        behavior = document["spec"].get("advanced", {}).get("horizontalPodAutoscalerConfig", {}).get("behavior")
        if behavior is None:
            return
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": "any"}, "maxReplicas": 1, "behavior": behavior}
        document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}
    for version in VERSIONS:
        try:
            validator = _validator(version, document["kind"], document["apiVersion"])
        except FileNotFoundError:
            yield f"Kubernetes {version} has no {document['kind']} of {document['apiVersion']}"
            continue
        yield from (
            f"Kubernetes {version}: {error.json_path} {error.message}" for error in validator.iter_errors(document)
        )


@cache
def _validator(version: str, kind: str, api_version: str) -> jsonschema.Draft202012Validator:
    """Return a cached validator: the package's `validate` would reread megabytes of definitions for each document."""
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = schemas.schema_contents(f"{_folder(version)}/{kind.lower()}-{group}.json", version)
    registry = _definitions(version) @ Registry()
    return jsonschema.Draft202012Validator(schema, registry=Resource.from_contents(schema) @ registry)


@cache
def _definitions(version: str) -> Resource[Any]:
    return Resource.from_contents(schemas.schema_contents(f"{_folder(version)}/_definitions.json", version))


def _folder(version: str) -> str:
    return f"kubernetes-json-schema/v{version}.0-local-strict"


def _place_faults(document: dict[str, Any]) -> Iterator[str]:
    if document["kind"] in {"Kustomization", "Namespace"}:
        return
    if document["metadata"].get("namespace") != NAMESPACE:
        yield f"isn't in the namespace {NAMESPACE}"
    if document["metadata"].get("labels", {}).get("app.kubernetes.io/name") != "ebbing":
        yield "has no label app.kubernetes.io/name: ebbing"


def _pod_faults(document: dict[str, Any]) -> Iterator[str]:
    if (pod := _pod(document)) is None:
        return
    context = pod.get("securityContext", {})
    if not context.get("runAsNonRoot") or not context.get("runAsUser"):
        yield "may run as root: set runAsNonRoot and runAsUser"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccompProfile: RuntimeDefault"
    if pod.get("automountServiceAccountToken") is not False:
        yield "gets a token of the cluster: set automountServiceAccountToken: false"
    if any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
        yield "reaches into the host"
    declared = {volume["name"] for volume in pod.get("volumes", [])}
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        yield from _container_faults(container)
        if missing := {mount["name"] for mount in container.get("volumeMounts", [])} - declared:
            yield f"mounts {', '.join(sorted(missing))}, which is no volume"
    if any("emptyDir" not in volume for volume in pod.get("volumes", [])):
        yield "has a volume that isn't its own: use emptyDir"


def _container_faults(container: dict[str, Any]) -> Iterator[str]:
    yield from image_faults(container["name"], str(container.get("image", "")))
    context = container.get("securityContext", {})
    if context.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation isn't false"
    if not context.get("readOnlyRootFilesystem"):
        yield "the root file system is writable: set readOnlyRootFilesystem"
    if context.get("capabilities", {}).get("drop") != ["ALL"] or context["capabilities"].get("add"):
        yield "keeps capabilities: set drop: [ALL] without add"
    resources = container.get("resources", {})
    yield from (
        f"resources.{what}.{of} isn't set"
        for what, of in (("requests", "cpu"), ("requests", "memory"), ("limits", "memory"))
        if of not in resources.get(what, {})
    )
    if missing := PROBED.get(container["name"], set()) - set(container):
        yield f"has no {', '.join(sorted(missing))}"
    for name in sorted(PROBED.get(container["name"], set()) & set(container)):
        if container[name].get("httpGet", {}).get("path") == "/readyz":
            yield f"{name} asks /readyz, which fails while PostgreSQL is away or Redis is full: use /healthz or /startz"


def _setting_faults(document: dict[str, Any]) -> Iterator[str]:
    known = {f"EBBING_{name}".upper() for name in Settings.model_fields} | FOREIGN
    given = {**document.get("data", {}), **document.get("stringData", {})}
    pod = _pod(document) or {"containers": []}
    names = [*given, *(each["name"] for container in pod["containers"] for each in container.get("env", []))]
    yield from (f"{name} is no setting (ops/settings.md)" for name in names if name not in known)
    secret = re.compile("PASSWORD|SECRET|KEY$|KEY_ID$|DATABASE_URL$|REDIS_URL$")
    if document["kind"] == "ConfigMap":
        yield from (f"{name} is a secret" for name in given if secret.search(name))
    if document["kind"] == "Secret":
        yield from (f"{name} holds a value" for name, value in given.items() if "CHANGE-ME" not in value)


_CHECKS: Final[tuple[Callable[[dict[str, Any]], Iterator[str]], ...]] = (
    _schema_faults,
    _place_faults,
    _pod_faults,
    _setting_faults,
)


def _kustomization_faults(files: dict[str, list[dict[str, Any]]]) -> list[str]:
    found = []
    for name, documents in files.items():
        folder, _, file = name.rpartition("/")
        if file != "kustomization.yaml":
            continue
        beside = {each.rpartition("/")[2] for each in files if each.rpartition("/")[0] == folder} - {file, EXAMPLE}
        bases = {f"../{each.rpartition('/')[0]}" for each in files if each.endswith("kustomization.yaml")}
        listed = set(documents[0]["resources"])
        found += [f"{name}: lists {each}, which isn't there" for each in sorted(listed - beside - bases)]
        found += [f"{name}: leaves out {each}" for each in sorted(beside - listed)]
    return found


def _links(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Yield faults in the labels and names by which manifests refer to each other."""
    pods = {_called(each): each["spec"]["template"]["metadata"]["labels"] for each in documents if _pod(each)}
    budgets = [each["spec"]["selector"]["matchLabels"] for each in documents if each["kind"] == "PodDisruptionBudget"]
    deployments = [each["metadata"]["name"] for each in documents if each["kind"] == "Deployment"]
    for each in documents:
        kind, spec, called = each["kind"], each.get("spec", {}), _called(each)
        if kind == "Deployment":
            if not _selects(spec["selector"]["matchLabels"], pods[called]):
                yield f"{called}: selects other pods than its own"
            if not any(_selects(wanted, pods[called]) for wanted in budgets):
                yield f"{called}: has no PodDisruptionBudget"
        if kind in {"Service", "PodDisruptionBudget"}:
            wanted = spec["selector"] if kind == "Service" else spec["selector"]["matchLabels"]
            if sum(_selects(wanted, labels) for labels in pods.values()) != 1:
                yield f"{called}: doesn't select the pods of one Deployment"
        if kind == "ScaledObject" and spec["scaleTargetRef"]["name"] not in deployments:
            yield f"{called}: scales {spec['scaleTargetRef']['name']}, which isn't there"


def _service_faults(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Yield faults in the names and ports by which manifests refer to Services."""
    services = [each for each in documents if each["kind"] == "Service"]
    for each in documents:
        if each["kind"] == "ServiceMonitor":
            wanted = each["spec"]["selector"]["matchLabels"]
            found = [service for service in services if _selects(wanted, service["metadata"]["labels"])]
            ports = {port["name"] for service in found for port in service["spec"]["ports"]}
            if len(found) != 1 or {endpoint["port"] for endpoint in each["spec"]["endpoints"]} - ports:
                yield f"{_called(each)}: doesn't select a port of one Service"
        if each["kind"] == "Ingress":
            paths = [path for rule in each["spec"]["rules"] for path in rule["http"]["paths"]]
            names = {path["backend"]["service"]["name"] for path in paths}
            for name in sorted(names - {service["metadata"]["name"] for service in services}):
                yield f"{_called(each)}: leads to the Service {name}, which isn't there"


def _source_faults(documents: list[dict[str, Any]]) -> Iterator[str]:
    """Yield faults in the sources of pods' settings."""
    there = {(each["kind"], each["metadata"]["name"]) for each in documents}
    kinds = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
    for each in documents:
        for container in (_pod(each) or {"containers": []})["containers"]:
            for kind, named in (pair for source in container.get("envFrom", []) for pair in source.items()):
                if (kinds[kind], named["name"]) not in there:
                    yield f"{_called(each)}: reads {kinds[kind]} {named['name']}, which isn't there"
                if named["name"] == OWNER and each["kind"] != "Job":
                    yield f"{_called(each)}: has the owner's log-in, which only the migration may use"


def _lane_faults(documents: list[dict[str, Any]]) -> Iterator[str]:
    workers, scaled = [], []
    for each in documents:
        args = (_pod(each) or {"containers": [{}]})["containers"][0].get("args", [])
        if args[:2] == ["worker", "--lane"]:
            workers.append(args[2])
        if each["kind"] == "ScaledObject":
            query = each["spec"]["triggers"][0]["metadata"]["query"]
            scaled += re.findall(r'ebbing_lane_oldest_age_seconds\{lane="(\w+)"\}', query)
    for what, lanes in (("Deployment", workers), ("ScaledObject", scaled)):
        yield from (f"the lane {lane} has no {what}: run `make docs`" for lane in LANES if lane not in lanes)
        yield from (f"{what} of {lane}, which is no lane" for lane in lanes if lane not in LANES)


def _pod(document: dict[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = document.get("spec", {}).get("template", {}).get("spec")
    return found


def _called(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def _selects(wanted: dict[str, str], labels: dict[str, str]) -> bool:
    return wanted.items() <= labels.items()


def main() -> int:
    """Check all manifests; return 1 if there is a fault."""
    found = faults(manifests())
    print("\n".join(found) or "kubernetes: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
