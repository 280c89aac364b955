"""Ray cluster and job: KubeRay's schemas know every field, and rules say what schemas can't."""

from tests.infra.documents import load, strings
from tests.infra.kuberay import CLUSTER, JOB, SCHEMAS, check_pod, check_schema, schema_of


def test_the_manifests_fit_kuberay_s_schemas() -> None:
    for path in SCHEMAS:
        check_schema(load(path), schema_of(path))


def test_a_cluster_is_closed_scales_to_nothing_and_keeps_results() -> None:
    spec = load(CLUSTER)["spec"]
    assert tuple(int(part) for part in spec["rayVersion"].split(".")[:2]) >= (2, 52)  # tokens
    assert spec["authOptions"]["mode"] == "token" and spec["authOptions"]["secretName"]
    assert spec["enableInTreeAutoscaling"] is True
    assert 0 < spec["autoscalerOptions"]["idleTimeoutSeconds"] <= 300
    head = spec["headGroupSpec"]
    assert head["serviceType"] == "ClusterIP" and not head.get("enableIngress")
    assert head["rayStartParams"]["num-cpus"] == "0", "the head takes no trials"
    mounts = head["template"]["spec"]["containers"][0]["volumeMounts"]
    assert "/results" in [mount["mountPath"] for mount in mounts]
    check_pod(head["template"])
    for group in spec["workerGroupSpecs"]:
        assert group["minReplicas"] == group["replicas"] == 0 < group["maxReplicas"] <= 16
        pods = group["template"]["spec"]
        assert pods["automountServiceAccountToken"] is False
        assert pods["nodeSelector"], "workers land in the spot pool only"
        check_pod(group["template"])


def test_a_job_runs_once_on_the_same_cluster_and_ends() -> None:
    spec = load(JOB)["spec"]
    assert spec["rayClusterSpec"] == load(CLUSTER)["spec"]
    assert spec.get("backoffLimit", 0) == 0, "a retry makes another cluster"
    # Its default is 2, and a submitter that retries hides the failure of the job.
    assert spec["submitterConfig"]["backoffLimit"] == 0
    assert spec.get("submissionMode", "K8sJobMode") == "K8sJobMode", "others run a job twice"
    assert spec["activeDeadlineSeconds"] > 0 and spec["preRunningDeadlineSeconds"] > 0
    # The cluster does not outlive its job; deletion rules exclude this way and its ttl.
    assert spec["shutdownAfterJobFinishes"] is True
    assert "deletionRules" not in spec.get("deletionStrategy", {})
    assert "--results /results" in spec["entrypoint"] and "--resume" in spec["entrypoint"]
    shown = list(strings(spec.get("runtimeEnvYAML")))
    assert not any("TOKEN" in text or "PASSWORD" in text for text in shown)
    check_pod(spec["submitterPodTemplate"])
