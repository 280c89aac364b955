"""The namespace that sweeps run in: closed by default, its tracking server behind passwords."""

from collections.abc import Iterator
from typing import Any

from tests.infra.documents import Document, load, load_all
from tests.infra.kuberay import CLUSTER, JOB, pod_complaints, schema_complaints, schema_of

METADATA_SERVICE = "169.254.169.254/32"


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
