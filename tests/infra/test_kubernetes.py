"""The Kubernetes manifests: against KubeRay's schemas, and against rules that schemas can't say."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.infra.documents import Document, broken, image_complaints, load, load_all, strings
from tests.shared_material import shared_path

CLUSTER, JOB = "k8s/raycluster.yaml", "k8s/rayjob.yaml"
SCHEMAS = {CLUSTER: "rayclusters.v1.schema.json", JOB: "rayjobs.v1.schema.json"}
METADATA_SERVICE = "169.254.169.254/32"


def schema_of(path: str) -> Document:
    """Return KubeRay's schema for a manifest."""
    text = shared_path("schemas", SCHEMAS[path]).read_text()
    schema: Document = json.loads(text)
    return schema


def unknown_fields(node: Any, schema: Document, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that a schema does not know; an API server drops or refuses them.

    `jsonschema` lets them pass, because a custom resource's schema says so nowhere.
    """
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(node, list):
        for position, value in enumerate(node):
            yield from unknown_fields(value, schema.get("items", {}), f"{path}.{position}")
    elif isinstance(node, dict) and ("properties" in schema or "additionalProperties" in schema):
        extra = schema.get("additionalProperties")
        for key, value in node.items():
            inner = schema.get("properties", {}).get(
                key, extra if isinstance(extra, dict) else None
            )
            if inner is None:
                yield f"{path}.{key}"
            else:
                yield from unknown_fields(value, inner, f"{path}.{key}")


def schema_complaints(node: Any, schema: Document) -> list[str]:
    """Return what a schema has against a node, unknown fields included."""
    errors = jsonschema.Draft7Validator(schema).iter_errors(node)
    return [f"{error.json_path}: {error.message}" for error in errors] + [
        f"{path} is unknown" for path in unknown_fields(node, schema)
    ]


def pod_complaints(pod: Document) -> list[str]:
    """Return what is wrong with a pod template, whoever makes pods of it."""
    spec = pod["spec"]
    found = []
    if not spec.get("securityContext", {}).get("runAsNonRoot"):
        found.append("may run as root")
    if any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")):
        found.append("shares the host's namespaces")
    if "labeldp/role" not in pod.get("metadata", {}).get("labels", {}):
        found.append("has no labeldp/role: no network policy selects it")
    for container in spec.get("initContainers", []) + spec["containers"]:
        found += image_complaints(container["image"])
        if container.get("securityContext", {}).get("allowPrivilegeEscalation") is not False:
            found.append("may escalate its privileges")
        if not container.get("resources", {}).get("limits"):
            found.append("has no limits")
        for variable in container.get("env", []):
            secret = any(word in variable["name"] for word in ("PASSWORD", "TOKEN", "SECRET"))
            if secret and "secretKeyRef" not in variable.get("valueFrom", {}):
                found.append(f"{variable['name']} does not come from a secret")
    return found


def cluster_complaints(spec: Document) -> list[str]:
    """Return what is wrong with the specification of a Ray cluster."""
    found = []
    version = tuple(int(part) for part in spec.get("rayVersion", "0").split(".")[:2])
    auth = spec.get("authOptions", {})
    if auth.get("mode") != "token":
        found.append("no token: anybody who reaches the dashboard runs code")
    elif version < (2, 52):
        found.append("token mode needs Ray 2.52")
    if not auth.get("secretName"):
        found.append("no secretName: the token is another one for each cluster")
    if not spec.get("enableInTreeAutoscaling"):
        found.append("does not scale: set enableInTreeAutoscaling")
    if not 0 < spec.get("autoscalerOptions", {}).get("idleTimeoutSeconds", 0) <= 300:
        found.append("idle workers stay: set idleTimeoutSeconds to at most 300")
    head = spec["headGroupSpec"]
    if head.get("serviceType") != "ClusterIP" or head.get("enableIngress"):
        found.append("the head is reachable from outside")
    if head["rayStartParams"].get("num-cpus") != "0":
        found.append("the head takes trials: set num-cpus to 0")
    mounts = head["template"]["spec"]["containers"][0].get("volumeMounts", [])
    if "/results" not in [mount["mountPath"] for mount in mounts]:
        found.append("the results die with the head")
    found += pod_complaints(head["template"])
    for group in spec["workerGroupSpecs"]:
        if group.get("minReplicas") != 0 or group.get("replicas") != 0:
            found.append("workers run without work")
        if not 0 < group.get("maxReplicas", 0) <= 16:
            found.append("maxReplicas caps nothing")
        pods = group["template"]["spec"]
        if pods.get("automountServiceAccountToken") is not False:
            found.append("workers hold a token of the API server")
        if not pods.get("nodeSelector"):
            found.append("workers may land outside the spot pool")
        found += pod_complaints(group["template"])
    return found


def job_complaints(spec: Document) -> list[str]:
    """Return what is wrong with the specification of a RayJob."""
    found = cluster_complaints(spec["rayClusterSpec"])
    if spec.get("backoffLimit", 0) != 0:
        found.append("a retry makes another cluster: set backoffLimit to 0")
    # Its default is 2, and a submitter that retries hides the failure of the job.
    if spec.get("submitterConfig", {}).get("backoffLimit") != 0:
        found.append("the submitter submits twice: set its backoffLimit to 0")
    if spec.get("submissionMode", "K8sJobMode") != "K8sJobMode":
        found.append("submissionMode is not K8sJobMode: others kill a job or run it twice")
    for key in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        if spec.get(key, 0) <= 0:
            found.append(f"no {key}: it may cost for ever")
    deletes = spec.get("shutdownAfterJobFinishes", False)
    if spec.get("ttlSecondsAfterFinished", 0) > 0 and not deletes:
        found.append("ttlSecondsAfterFinished needs shutdownAfterJobFinishes")
    if "deletionRules" in spec.get("deletionStrategy", {}):
        if deletes or spec.get("ttlSecondsAfterFinished"):
            found.append("deletionRules exclude shutdownAfterJobFinishes and its ttl")
    elif not deletes:
        found.append("the cluster outlives its job")
    if "--results /results" not in spec["entrypoint"] or "--resume" not in spec["entrypoint"]:
        found.append("a second submission starts over")
    if any("TOKEN" in text or "PASSWORD" in text for text in strings(spec.get("runtimeEnvYAML"))):
        found.append("a secret in the runtime environment is shown to all")
    return found + pod_complaints(spec["submitterPodTemplate"])


def policy_complaints(policies: list[Document]) -> list[str]:
    """Return what is wrong with a set of network policies."""
    found = []
    specs = [policy["spec"] for policy in policies]
    everything = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    if everything not in specs:
        found.append("nothing is denied by default")
    for spec in specs:
        if not set(spec) - {"podSelector", "policyTypes"} <= {
            kind.lower() for kind in spec["policyTypes"]
        }:
            found.append("a rule of a kind that policyTypes does not name")
        for rule in spec.get("ingress", []):
            peers = rule.get("from", [])
            if not peers or any(peer == {} or "ipBlock" in peer for peer in peers):
                found.append("ingress from anywhere")
            if "ports" not in rule and peers != [{"podSelector": spec["podSelector"]}]:
                found.append("ingress to all ports from others than its like")
        for rule in spec.get("egress", []):
            for peer in rule.get("to", [{"ipBlock": {}}]):
                block = peer.get("ipBlock")
                if block is not None and METADATA_SERVICE not in block.get("except", []):
                    found.append("egress reaches the metadata service")
    return found


def documents(path: str, kind: str) -> list[Document]:
    return [document for document in load_all(path) if document["kind"] == kind]


def test_the_manifests_fit_kuberay_s_schemas() -> None:
    for path in SCHEMAS:
        assert schema_complaints(load(path), schema_of(path)) == []


def test_the_schemas_walk_refuses_what_kuberay_does_not_know() -> None:
    schema = schema_of(JOB)
    for where, value, complaint in [
        ("spec.activeDeadlineSecond", 5, ".spec.activeDeadlineSecond is unknown"),
        ("spec.rayClusterSpec.headGroupSpec.replicas", 1, "headGroupSpec.replicas is unknown"),
        ("spec.submitterPodTemplate.spec.containers.0.img", "x", "containers.0.img is unknown"),
        ("spec.rayClusterSpec.authOptions.mode", "tokens", "is not one of"),
        ("spec.activeDeadlineSeconds", "1d", "is not of type"),
        ("spec.rayClusterSpec.headGroupSpec.template", ..., "is a required property"),
    ]:
        found = schema_complaints(broken(load(JOB), where, value), schema)
        assert any(complaint in text for text in found), (where, found)


def test_we_have_no_complaint_of_cluster_and_job() -> None:
    assert cluster_complaints(load(CLUSTER)["spec"]) == []
    assert job_complaints(load(JOB)["spec"]) == []


def test_the_job_makes_the_cluster_that_the_cluster_file_describes() -> None:
    assert load(JOB)["spec"]["rayClusterSpec"] == load(CLUSTER)["spec"]


HEAD = "headGroupSpec.template.spec"
WORKERS = "workerGroupSpecs.0"


@pytest.mark.parametrize(
    ("where", "value", "complaint"),
    [
        ("authOptions", ..., "no token"),
        ("authOptions.mode", "disabled", "no token"),
        ("authOptions.secretName", ..., "no secretName"),
        ("rayVersion", "2.51.1", "2.52"),
        ("enableInTreeAutoscaling", False, "does not scale"),
        ("autoscalerOptions", ..., "idle workers"),
        ("headGroupSpec.serviceType", "LoadBalancer", "from outside"),
        ("headGroupSpec.enableIngress", True, "from outside"),
        ("headGroupSpec.rayStartParams", {}, "takes trials"),
        (f"{HEAD}.containers.0.volumeMounts", [], "die with the head"),
        (f"{HEAD}.securityContext", {}, "as root"),
        (f"{HEAD}.hostNetwork", True, "host's namespaces"),
        (f"{HEAD}.containers.0.image", "labeldp", "not pinned"),
        (f"{HEAD}.containers.0.resources", {}, "no limits"),
        (f"{HEAD}.containers.0.securityContext", {}, "escalate"),
        (f"{HEAD}.containers.0.env.2", {"name": "A_PASSWORD", "value": "x"}, "from a secret"),
        ("headGroupSpec.template.metadata", {}, "no labeldp/role"),
        (f"{WORKERS}.maxReplicas", 2147483647, "caps nothing"),
        (f"{WORKERS}.minReplicas", 1, "without work"),
        (f"{WORKERS}.template.spec.nodeSelector", {}, "outside the spot pool"),
        (f"{WORKERS}.template.spec.automountServiceAccountToken", ..., "API server"),
    ],
)
def test_each_rule_of_clusters_notices(where: str, value: Any, complaint: str) -> None:
    found = cluster_complaints(broken(load(CLUSTER)["spec"], where, value))
    assert any(complaint in text for text in found), found


RULES = {"deletionRules": [{"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED"}}]}


@pytest.mark.parametrize(
    ("where", "value", "complaint"),
    [
        ("rayClusterSpec.authOptions", ..., "no token"),
        ("backoffLimit", 3, "another cluster"),
        ("submitterConfig", ..., "submits twice"),
        ("submissionMode", "HTTPMode", "K8sJobMode"),
        ("activeDeadlineSeconds", ..., "no activeDeadlineSeconds"),
        ("preRunningDeadlineSeconds", 0, "no preRunningDeadlineSeconds"),
        ("shutdownAfterJobFinishes", False, "needs shutdownAfterJobFinishes"),
        ("shutdownAfterJobFinishes", ..., "outlives"),
        ("deletionStrategy", RULES, "exclude"),
        ("entrypoint", "python /app/sweeps/alibi_cifar100.py", "starts over"),
        ("runtimeEnvYAML", "env_vars: {RAY_AUTH_TOKEN: x}", "shown to all"),
        ("submitterPodTemplate.spec.securityContext", {}, "as root"),
    ],
)
def test_each_rule_of_jobs_notices(where: str, value: Any, complaint: str) -> None:
    found = job_complaints(broken(load(JOB)["spec"], where, value))
    assert any(complaint in text for text in found), found


def test_the_namespace_is_closed() -> None:
    policies = documents("k8s/networkpolicy.yaml", "NetworkPolicy")
    assert policy_complaints(policies) == []
    # Each pod that a manifest makes is let through by a policy of its own role.
    selected = {
        policy["spec"]["podSelector"].get("matchLabels", {}).get("labeldp/role")
        for policy in policies
    }
    workloads = [load(CLUSTER), load(JOB), *load_all("k8s/mlflow.yaml")]
    roles = set(_values_of("labeldp/role", workloads))
    assert roles == {"ray", "submitter", "mlflow", "postgres"}
    assert roles <= selected


def _values_of(key: str, node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from _values_of(key, value)
    elif isinstance(node, list):
        for value in node:
            yield from _values_of(key, value)


@pytest.mark.parametrize(
    ("name", "where", "value", "complaint"),
    [
        ("deny-all", "podSelector", {"matchLabels": {"a": "b"}}, "denied by default"),
        ("deny-all", "policyTypes", ["Ingress"], "denied by default"),
        ("postgres", "ingress.0.from", [], "from anywhere"),
        ("mlflow", "ingress.0.from", [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "from anywhere"),
        ("mlflow", "ingress.0.ports", ..., "all ports"),
        ("mlflow", "policyTypes", ["Ingress"], "does not name"),
        ("ray", "egress.2.to.0.ipBlock.except", [], "metadata service"),
        ("ray", "egress.2.to", ..., "metadata service"),
    ],
)
def test_each_rule_of_policies_notices(name: str, where: str, value: Any, complaint: str) -> None:
    policies = documents("k8s/networkpolicy.yaml", "NetworkPolicy")
    changed = [
        policy | {"spec": broken(policy["spec"], where, value)}
        if policy["metadata"]["name"] == name
        else policy
        for policy in policies
    ]
    assert changed != policies
    found = policy_complaints(changed)
    assert any(complaint in text for text in found), found


def test_the_rules_of_policies_and_pods_fit_the_schemas_too() -> None:
    # KubeRay's schema holds Kubernetes' own for pods and for policies' rules.
    spec = schema_of(CLUSTER)["properties"]["spec"]["properties"]
    head = spec["networkPolicy"]["properties"]["head"]["properties"]
    for policy in documents("k8s/networkpolicy.yaml", "NetworkPolicy"):
        for kind in ("ingress", "egress"):
            rules = policy["spec"].get(kind, [])
            assert schema_complaints(rules, head[f"{kind}Rules"]) == []
    template = spec["headGroupSpec"]["properties"]["template"]
    for kind in ("StatefulSet", "Deployment"):
        for workload in documents("k8s/mlflow.yaml", kind):
            pods = workload["spec"]["template"]
            # Of metadata KubeRay's schema knows no fields.
            assert schema_complaints(pods, template) == []
            assert pod_complaints(pods) == []


def test_the_tracking_server_is_behind_a_password_and_off_the_internet() -> None:
    services = documents("k8s/mlflow.yaml", "Service")
    assert {service["spec"]["type"] for service in services} == {"ClusterIP"}
    (deployment,) = documents("k8s/mlflow.yaml", "Deployment")
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--app-name=basic-auth" in server["command"]
    (hosts,) = [text for text in server["command"] if text.startswith("--allowed-hosts=")]
    (address,) = {
        variable["value"]
        for variable in load(CLUSTER)["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0][
            "env"
        ]
        if variable["name"] == "MLFLOW_TRACKING_URI"
    }
    # The Host header that our clients send, port included; without it they are answered 403.
    assert address.removeprefix("http://") in hosts.split("=")[1].split(",")
    assert not documents("k8s/mlflow.yaml", "Secret"), (
        "secrets are created by hand, never committed"
    )
