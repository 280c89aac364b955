"""The namespace that sweeps run in: closed by default, its tracking server behind passwords."""

import re

from tests.infra.documents import ROOT, Document, load, load_all
from tests.infra.kuberay import CLUSTER, check_pod, check_schema, schema_of

METADATA_SERVICE = "169.254.169.254/32"


def documents(path: str, kind: str) -> list[Document]:
    return [document for document in load_all(path) if document["kind"] == kind]


def test_the_namespace_is_closed() -> None:
    policies = documents("k8s/networkpolicy.yaml", "NetworkPolicy")
    specs = [policy["spec"] for policy in policies]
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} in specs, "denied by default"
    for spec in specs:
        kinds = {kind.lower() for kind in spec["policyTypes"]}
        assert set(spec) - {"podSelector", "policyTypes"} <= kinds
        for rule in spec.get("ingress", []):
            peers = rule["from"]
            assert peers and not any(peer == {} or "ipBlock" in peer for peer in peers)
            # All ports are open to its like only.
            assert "ports" in rule or peers == [{"podSelector": spec["podSelector"]}]
        for rule in spec.get("egress", []):
            for peer in rule.get("to", [{"ipBlock": {}}]):
                assert "ipBlock" not in peer or METADATA_SERVICE in peer["ipBlock"]["except"]
    # Each pod that a manifest makes is let through by a policy of its own role.
    selected = {spec["podSelector"].get("matchLabels", {}).get("labeldp/role") for spec in specs}
    texts = [(ROOT / "infra/k8s" / name).read_text() for name in ("rayjob.yaml", "mlflow.yaml")]
    roles = set(re.findall(r"labeldp/role: ([\w-]+)", "".join(texts)))
    assert roles == {"ray", "submitter", "mlflow", "postgres"} and roles <= selected


def test_the_rules_of_policies_and_pods_fit_the_schemas_too() -> None:
    # KubeRay's schema holds Kubernetes' own for pods and for policies' rules.
    spec = schema_of(CLUSTER)["properties"]["spec"]["properties"]
    head = spec["networkPolicy"]["properties"]["head"]["properties"]
    for policy in documents("k8s/networkpolicy.yaml", "NetworkPolicy"):
        for kind in ("ingress", "egress"):
            check_schema(policy["spec"].get(kind, []), head[f"{kind}Rules"])
    template = spec["headGroupSpec"]["properties"]["template"]
    for kind in ("StatefulSet", "Deployment"):
        for workload in documents("k8s/mlflow.yaml", kind):
            # Of metadata KubeRay's schema knows no fields.
            check_schema(workload["spec"]["template"], template)
            check_pod(workload["spec"]["template"])


def test_the_tracking_server_is_behind_a_password_and_off_the_internet() -> None:
    services = documents("k8s/mlflow.yaml", "Service")
    assert {service["spec"]["type"] for service in services} == {"ClusterIP"}
    (deployment,) = documents("k8s/mlflow.yaml", "Deployment")
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--app-name=basic-auth" in server["command"]
    (hosts,) = [text for text in server["command"] if text.startswith("--allowed-hosts=")]
    head = load(CLUSTER)["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    (address,) = {each["value"] for each in head["env"] if each["name"] == "MLFLOW_TRACKING_URI"}
    # The Host header that our clients send, port included; without it they are answered 403.
    assert address.removeprefix("http://") in hosts.split("=")[1].split(",")
    # Secrets are created by hand, never committed.
    assert not documents("k8s/mlflow.yaml", "Secret")
