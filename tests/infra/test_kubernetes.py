"""Ray cluster and job: KubeRay's schemas know every field, and rules say what schemas can't."""

from tests.infra.documents import Document, load, strings
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


def test_we_have_no_complaint_of_cluster_and_job() -> None:
    assert cluster_complaints(load(CLUSTER)["spec"]) == []
    assert job_complaints(load(JOB)["spec"]) == []


def test_the_job_makes_the_cluster_that_the_cluster_file_describes() -> None:
    assert load(JOB)["spec"]["rayClusterSpec"] == load(CLUSTER)["spec"]


HEAD = "headGroupSpec.template.spec"
WORKERS = "workerGroupSpecs.0"


RULES = {"deletionRules": [{"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED"}}]}
