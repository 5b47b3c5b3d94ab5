"""Write the manifests of the lanes from `app.queues.LANES`: a Deployment, a disruption budget and a scaler each.

`make docs` writes the files, and a test fails if they are outdated: a new lane gets its manifests from `make docs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from app.queues import LANES
from ops.checks.writing import ROOT, write

FOLDER: Final = ROOT / "ops" / "kubernetes"
NAMESPACE: Final = "ebbing"
IMAGE: Final = "ebbing:0.1.0"
PROMETHEUS: Final = "http://prometheus-operated.monitoring.svc:9090"


@dataclass(frozen=True, slots=True)
class Lane:
    """The resources and scaling of a lane.

    Attributes:
        memory: Memory request, about the measured use of an idle and a busy worker. The limit is twice as much.
        most: Maximum number of workers.
        age_seconds: Age of the oldest pending entry above which more workers start.
        reaches_out: True if the lane calls the model provider or cold storage.
    """

    memory: str = "384Mi"
    most: int = 4
    age_seconds: int = 60
    reaches_out: bool = True


# Exceptions to the defaults.
OWN: Final[dict[str, Lane]] = {
    "ingest": Lane(most=8, age_seconds=10, reaches_out=False),
    "maintain": Lane(memory="512Mi", most=2, age_seconds=900),
}

HEADER: Final = (
    "# Written by `make docs` from app/queues.py and ops/checks/kubernetes_pages.py: change those, not this.\n"
)


def pages() -> dict[Path, str]:
    """Return the content of each file."""
    lanes = {name: OWN.get(name, Lane()) for name in LANES}
    workers = [made for name, lane in lanes.items() for made in (_worker(name, lane), _budget(name))]
    scalers = [_scaler(name, lane) for name, lane in lanes.items()]
    return {FOLDER / "base" / "lanes.yaml": _written(workers), FOLDER / "keda" / "scaling.yaml": _written(scalers)}


def _written(documents: list[dict[str, Any]]) -> str:
    return HEADER + str(yaml.dump_all(documents, sort_keys=False, width=120, explicit_start=True))


def _about(name: str) -> dict[str, Any]:
    return {"name": f"worker-{name}", "namespace": NAMESPACE, "labels": _labels(name)}


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "ebbing", "app.kubernetes.io/component": f"worker-{name}"}


def _worker(name: str, lane: Lane) -> dict[str, Any]:
    number, unit = int(lane.memory[:-2]), lane.memory[-2:]
    ping = f'exec celery -A workers.celery_app inspect ping --timeout 5 --destination "{name}@$HOSTNAME"'
    container = {
        "name": "worker",
        "image": IMAGE,
        "args": ["worker", "--lane", name],
        "envFrom": [{"configMapRef": {"name": "ebbing"}}, {"secretRef": {"name": "ebbing"}}],
        "resources": {
            "requests": {"cpu": "100m", "memory": lane.memory},
            "limits": {"memory": f"{2 * number}{unit}"},
        },
        # pings this pod's own worker over the broker; five failures in a row, since the broker may be down briefly
        "livenessProbe": {
            "exec": {"command": ["/bin/sh", "-c", ping]},
            "initialDelaySeconds": 30,
            "periodSeconds": 60,
            "timeoutSeconds": 15,
            "failureThreshold": 5,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
            {"name": "home", "mountPath": "/var/lib/ebbing"},
        ],
    }
    reach = {"ebbing/reaches-out": "yes"} if lane.reaches_out else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _about(name),
        "spec": {
            # no number of replicas: the scaler sets it, or Kubernetes uses one
            "selector": {"matchLabels": _labels(name)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": _labels(name) | reach},
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    # longer than EBBING_SHUTDOWN_SECONDS, within which a slice is finished or handed back
                    "terminationGracePeriodSeconds": 30,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 10001,
                        "runAsGroup": 10001,
                        "fsGroup": 10001,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container],
                    "volumes": [
                        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
                        {"name": "home", "emptyDir": {"sizeLimit": "64Mi"}},
                    ],
                },
            },
        },
    }


def _budget(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _about(name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _labels(name)}},
    }


def _scaler(name: str, lane: Lane) -> dict[str, Any]:
    trigger = {
        "type": "prometheus",
        # not divided by the number of workers: an age does not depend on their number
        "metricType": "Value",
        "metadata": {
            "serverAddress": PROMETHEUS,
            "query": f'max(ebbing_lane_oldest_age_seconds{{lane="{name}"}})',
            "threshold": str(lane.age_seconds),
            # missing values mean a fault, not an idle lane: the number of workers stays unchanged
            "ignoreNullValues": "false",
        },
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": _about(name),
        "spec": {
            "scaleTargetRef": {"name": f"worker-{name}"},
            "pollingInterval": 15,
            "minReplicaCount": 1,
            "maxReplicaCount": lane.most,
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {
                        "scaleUp": {
                            "stabilizationWindowSeconds": 30,
                            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
                        },
                        "scaleDown": {
                            "stabilizationWindowSeconds": 600,
                            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}],
                        },
                    }
                }
            },
            "triggers": [trigger],
        },
    }


if __name__ == "__main__":
    for path, text in pages().items():
        write(path, text)
