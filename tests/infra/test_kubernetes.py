"""Ray cluster and job: KubeRay's schemas know every field, and rules say what schemas can't."""

from typing import Any

import pytest

from tests.infra.documents import Document, broken, load, strings
from tests.infra.kuberay import CLUSTER, JOB, SCHEMAS, pod_complaints, schema_complaints, schema_of


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
