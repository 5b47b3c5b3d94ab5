"""Kubernetes manifests: what the checks detect, that our own pass, and that each lane has its settings."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
import yaml

from app.queues import LANES
from app.secret_files import CLOUD_SECRETS
from app.secret_settings import list_variables
from app.settings import Settings
from ops.checks import kubernetes, kubernetes_pages
from ops.checks.kubernetes import faults, manifests
from ops.checks.kubernetes_pages import pages

Files = dict[str, list[dict[str, Any]]]
WRITTEN = manifests()


def changed(before: str, after: str, *, file: str) -> Files:
    """Return our manifests with every `before` in the JSON of one file replaced by `after`."""
    files = copy.deepcopy(WRITTEN)
    text = json.dumps(files[file])
    assert before in text
    files[file] = json.loads(text.replace(before, after))
    return files


def test_our_manifests_pass() -> None:
    assert faults(WRITTEN) == []


def test_the_lanes_manifests_are_the_generated_ones() -> None:
    for path, text in pages().items():
        assert path.read_text() == text, "run `make docs`"


def test_each_lane_has_a_deployment_and_a_scaler_of_its_own() -> None:
    names = [f"worker-{lane}" for lane in LANES]
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert [each["metadata"]["name"] for each in WRITTEN["base/lanes.yaml"] if each["kind"] == kind] == names
    assert [each["spec"]["scaleTargetRef"]["name"] for each in WRITTEN["keda/scaling.yaml"]] == names


def test_a_new_lane_is_missed_until_its_manifests_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with_another = {**LANES, "another": ("another",)}
    monkeypatch.setattr(kubernetes, "LANES", with_another)
    assert [fault for fault in faults(WRITTEN) if "another" in fault] == [
        "the lane another has no Deployment: run `make docs`",
        "the lane another has no ScaledObject: run `make docs`",
    ]
    monkeypatch.setattr(kubernetes_pages, "LANES", with_another)
    assert all("worker-another" in text for text in pages().values())


@pytest.mark.parametrize(
    ("file", "before", "after", "fault"),
    [
        ("monitoring/servicemonitor.yaml", '"honorLabels": true', '"honorLabels": false', "True was expected"),
        ("monitoring/servicemonitor.yaml", '"port": "http"', '"port": "web"', "doesn't select a port of one Service"),
        (
            "ingress/ingress.yaml",
            '"name": "api", "port"',
            '"name": "web", "port"',
            "the Service web, which isn't there",
        ),
        ("ingress/ingress.yaml", '"pathType"', '"type"', "'type' was unexpected"),
        ("base/api.yaml", '"replicas": 2', '"replicas": "two"', "'two' is not of type"),
        ("base/api.yaml", '"timeoutSeconds"', '"timeout"', "'timeout' was unexpected"),
        ("base/api.yaml", '"apps/v1"', '"apps/v1beta9"', "has no Deployment of apps/v1beta9"),
        ("base/api.yaml", "ebbing:0.1.0", "ebbing:latest", "pin it"),
        ("base/api.yaml", '"runAsNonRoot": true, ', "", "may run as root"),
        ("base/api.yaml", '"readOnlyRootFilesystem": true', '"readOnlyRootFilesystem": false', "writable"),
        ("base/api.yaml", '"drop": ["ALL"]', '"drop": []', "keeps capabilities"),
        ("base/api.yaml", '"drop": ["ALL"]', '"drop": ["ALL"], "add": ["NET_ADMIN"]', "keeps capabilities"),
        (
            "base/api.yaml",
            '"allowPrivilegeEscalation": false',
            '"allowPrivilegeEscalation": true',
            "allowPrivilegeEscalation",
        ),
        ("base/api.yaml", '"RuntimeDefault"', '"Unconfined"', "seccompProfile"),
        ("base/api.yaml", '"automountServiceAccountToken": false, ', "", "token of the cluster"),
        ("base/api.yaml", '"enableServiceLinks": false', '"hostNetwork": true', "into the host"),
        ("base/api.yaml", '"cpu": "250m", ', "", "resources.requests.cpu"),
        ("base/api.yaml", '"limits": {"memory": "640Mi"}', '"limits": {"cpu": "1"}', "resources.limits.memory"),
        ("base/api.yaml", '"/startz"', '"/readyz"', "startupProbe asks /readyz"),
        ("base/api.yaml", '"/healthz"', '"/readyz"', "readinessProbe asks /readyz"),
        ("base/api.yaml", '"startupProbe"', '"x-startupProbe"', "has no startupProbe"),
        ("base/api.yaml", '{"name": "scratch", "mountPath"', '{"name": "other", "mountPath"', "mounts other"),
        ("base/api.yaml", '"emptyDir": {"sizeLimit": "64Mi"}', '"hostPath": {"path": "/"}', "isn't its own"),
        ("base/api.yaml", '"secretRef": {"name": "ebbing"}', '"secretRef": {"name": "ebbing-owner"}', "owner's log-in"),
        ("base/api.yaml", '"secretRef": {"name": "ebbing"}', '"secretRef": {"name": "none"}', "reads Secret none"),
        ("base/beat.yaml", '"PodDisruptionBudget"', '"Disruption"', "has no Disruption of policy/v1"),
        ("base/beat.yaml", '"namespace": "ebbing"', '"namespace": "default"', "isn't in the namespace"),
        ("base/config.yaml", "EBBING_LOG_LEVEL", "EBBING_LOGLEVEL", "EBBING_LOGLEVEL is no setting"),
        ("base/config.yaml", "EBBING_LOG_LEVEL", "EBBING_MASTER_KEY", "is a secret"),
        ("base/secret.example.yaml", '"CHANGE-ME"', '"hunter2"', "holds a value"),
        ("base/kustomization.yaml", '"beat.yaml"', '"tick.yaml"', "leaves out beat.yaml"),
        ("base/kustomization.yaml", '"beat.yaml"', '"tick.yaml"', "lists tick.yaml"),
        ("keda/kustomization.yaml", '"../base"', '".."', "lists .., which isn't there"),
        ("base/lanes.yaml", '"ingest"]', '"digest"]', "the lane ingest has no Deployment"),
        ("base/lanes.yaml", '"ingest"]', '"digest"]', "Deployment of digest, which is no lane"),
        ("keda/scaling.yaml", 'lane=\\"ingest\\"', 'lane=\\"embed\\"', "the lane ingest has no ScaledObject"),
        ("keda/scaling.yaml", '"name": "worker-ingest"', '"name": "worker-x"', "scales worker-x"),
        ("keda/scaling.yaml", '"threshold"', '"treshold"', "'threshold' is a required property"),
        ("keda/scaling.yaml", '"maxReplicaCount"', '"maxReplicas"', "'maxReplicas' was unexpected"),
        ("keda/scaling.yaml", '"periodSeconds": 300', '"periodSeconds": "5m"', "'5m' is not of type"),
    ],
)
def test_a_fault_is_named(file: str, before: str, after: str, fault: str) -> None:
    found = faults(changed(before, after, file=file))
    assert any(fault in each for each in found), found


def test_labels_that_go_astray_are_named() -> None:
    files = copy.deepcopy(WRITTEN)
    deployment, *_ = files["base/api.yaml"]
    deployment["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] = "web"
    assert {fault for fault in faults(files) if "api" in fault} == {
        "Deployment api: selects other pods than its own",
        "Deployment api: has no PodDisruptionBudget",
        "Service api: doesn't select the pods of one Deployment",
        "PodDisruptionBudget api: doesn't select the pods of one Deployment",
    }


def test_each_secret_can_be_a_file_in_the_pods() -> None:
    """The patches fit the manifests: their paths exist, and the files are the keys of the example's Secrets."""
    [overlay] = WRITTEN["secret-files/kustomization.yaml"]
    keys = {
        f"/run/secrets/{secret['metadata']['name']}/{key}"
        for secret in yaml.safe_load_all((kubernetes_pages.FOLDER / "base" / kubernetes.EXAMPLE).read_text())
        for key in secret["stringData"]
    }
    patches = [operation for each in overlay["patches"] for operation in yaml.safe_load(each["patch"])]
    texts = [value for each in patches for value in re.findall(r"/run/secrets/[\w-]+/\w+", json.dumps(each["value"]))]
    assert sorted(texts) == sorted(keys)
    variables = set(re.findall(r"\b[A-Z]\w+_FILE\b", json.dumps(patches)))
    assert variables == {f"{path.rpartition('/')[2]}_FILE" for path in keys}
    known = {*list_variables(Settings), *(name for names in CLOUD_SECRETS.values() for name in names)}
    assert {name.removesuffix("_FILE") for name in variables} <= known
    workloads = [each for found in WRITTEN.values() for each in found if each["kind"] in {"Deployment", "Job"}]
    assert len(workloads) == len(LANES) + 3
    for each in workloads:
        spec = each["spec"]["template"]["spec"]
        [container] = spec["containers"]
        assert spec["volumes"]
        assert container["volumeMounts"]
        assert container["envFrom"]
        assert each["kind"] != "Job" or "env" not in container, "the patch would replace it"
