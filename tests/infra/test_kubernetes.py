"""Kubernetes: KubeRay's schemas know every field, and rules say the rest."""

import configparser
import copy
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from tests.shared_material import shared_path
from tests.source_tree import ROOT

Document = dict[str, Any]

#: Names of variables whose values must not stand in a file.
SECRET = re.compile(r"PASSWORD|TOKEN$|SECRET|ACCESS_KEY")


def load_all(path: str) -> list[Document]:
    return list(yaml.safe_load_all((ROOT / "infra" / path).read_text()))


def load(path: str) -> Document:
    (document,) = load_all(path)
    return document


def strings(node: Any) -> Iterator[str]:
    """Yield every string of a tree, keys included."""
    if isinstance(node, dict):
        for pair in node.items():
            yield from strings(list(pair))
    elif isinstance(node, list):
        for value in node:
            yield from strings(value)
    elif isinstance(node, str):
        yield node


def is_pinned(image: str) -> bool:
    """Whether an image has a digest, or a tag that does not move: one with a number."""
    digest = re.search(r"@sha256:[0-9a-f]{64}$", image)
    tag = re.search(r":([\w.-]+)$", image)
    return bool(digest or (tag and tag[1] != "latest" and re.search(r"\d", tag[1])))


CLUSTER, JOB = "k8s/raycluster.yaml", "k8s/rayjob.yaml"
SCHEMAS = {CLUSTER: "rayclusters.v1.schema.json", JOB: "rayjobs.v1.schema.json"}


def schema_of(path: str) -> Document:
    schema: Document = json.loads(shared_path("schemas", SCHEMAS[path]).read_text())
    return schema


def closed(schema: Any) -> Any:
    """The same schema, which refuses unknown fields too; an API server drops or refuses them."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


def check_schema(node: Any, schema: Document) -> None:
    errors = jsonschema.Draft7Validator(closed(schema)).iter_errors(node)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


def check_pod(pod: Document) -> None:
    """A pod template has no privileges, limits, pinned images, and secrets by reference."""
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    assert "labeldp/role" in pod["metadata"]["labels"], "no network policy selects it"
    for container in spec.get("initContainers", []) + spec["containers"]:
        assert is_pinned(container["image"])
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]
        for variable in container.get("env", []):
            secret = SECRET.search(variable["name"])
            assert not secret or "secretKeyRef" in variable.get("valueFrom", {})


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
    # fashion_mnist and kmnist are fetched by plain HTTP.
    (ray,) = (
        spec for spec in specs if "ray" in spec["podSelector"].get("matchLabels", {}).values()
    )
    assert {80, 443} <= {port["port"] for rule in ray["egress"] for port in rule.get("ports", [])}
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


# The cluster launcher's files: Ray accepts them, and they can neither stand open nor run away.

AWS, GCP = "ray/aws-gpu-spot.yaml", "ray/gcp-gpu-spot.yaml"
TOKEN_PATH = "/home/labeldp/.ray/auth_token"


def check(config: Document) -> None:
    """Nothing is open to the internet, every number is capped, and a token is required."""
    texts = list(strings(config))
    assert [text for text in texts if re.search(r"\b0\.0\.0\.0\b|(^|\s)::/0", text)] == []
    assert not any("RAY_AUTH_TOKEN=" in text for text in texts)
    assert config["provider"]["use_internal_ips"] is True
    assert config["provider"]["cache_stopped_nodes"] is False, "stopped nodes cost their disks"
    assert 0 < config["idle_timeout_minutes"] <= 5 and 0 < config["max_workers"] <= 16
    for key in ("setup_commands", "head_setup_commands", "worker_setup_commands"):
        assert config[key] == [], "Ray's defaults, or ours, install over the image"
    assert all(is_pinned(config["docker"][key]) for key in ("head_image", "worker_image"))
    kinds = set()
    for name, node in config["available_node_types"].items():
        launch, resources = node["node_config"], node["resources"]
        market = launch.get("InstanceMarketOptions", {}).get("MarketType")
        spot = market == "spot" or launch.get("scheduling", {}).get("provisioningModel") == "SPOT"
        if name == config["head_node_type"]:
            assert resources["CPU"] == 0 == resources.get("GPU", 0), "the head takes no trials"
            assert not spot and node["max_workers"] == 0
        else:
            kinds.add(launch.get("InstanceType", launch.get("machineType")))
            assert spot and resources["GPU"] >= 1
            assert node["min_workers"] == 0 < node["max_workers"] <= config["max_workers"]
        if config["provider"]["type"] == "aws":
            assert launch["MetadataOptions"]["HttpTokens"] == "required"
            # Ray would make a group that opens port 22, on a public subnet, with all rights.
            assert launch["SecurityGroupIds"] and launch["SubnetIds"]
            assert "IamInstanceProfile" in launch
            disks = launch["BlockDeviceMappings"]
            assert disks and all(disk["Ebs"]["Encrypted"] for disk in disks)
        else:
            interfaces = launch["networkInterfaces"]
            assert interfaces and not any("accessConfigs" in each for each in interfaces)
    assert len(kinds) >= 2, "spot runs out of one type at a time"
    assert TOKEN_PATH in config["file_mounts"]
    for side in ("head", "worker"):
        commands = [each for each in config[f"{side}_start_ray_commands"] if "ray start" in each]
        assert commands
        for command in commands:
            assert "RAY_AUTH_MODE=token" in command
            assert f"RAY_AUTH_TOKEN_PATH={TOKEN_PATH}" in command
            assert side == "worker" or "--dashboard-host=127.0.0.1" in command


@pytest.mark.parametrize("path", [AWS, GCP])
def test_ray_accepts_the_file_and_it_is_closed_and_capped(path: str) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config
    from ray.scripts.scripts import start

    config = load(path)
    prepared: Document = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    check(config)
    # The rules hold for what Ray makes of it too: its defaults have not put anything back.
    check(prepared)
    known = {option for parameter in start.params for option in parameter.opts}
    commands = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    used = {option for command in commands for option in re.findall(r"(--[\w-]+)", command)}
    assert len(used) >= 5 and used <= known
    for command in commands:
        subprocess.run(["bash", "-n", "-c", command], check=True)


# The tracking server's compose file: on loopback, behind a password, its stores out of reach.

COMPOSE = "mlflow/compose.yaml"


def test_the_compose_file_is_closed() -> None:
    compose = load(COMPOSE)
    internal = {name for name, network in compose["networks"].items() if network.get("internal")}
    for service in compose["services"].values():
        ports = service.get("ports", [])
        assert is_pinned(service["image"])
        assert all(isinstance(port, str) and port.startswith("127.0.0.1:") for port in ports)
        assert ports or set(service.get("networks", ["default"])) <= internal
        assert not service.get("privileged") and service.get("network_mode") != "host"
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable):  # refused where it is empty
                assert re.fullmatch(r"\$\{\w+:\?[^}]*\}", value)
    # A password in an address is shown to every `ps`.
    assert not any(re.search(r"://\w+:[^@/]+@", text) for text in strings(compose))
    server = compose["services"]["mlflow"]
    command = server["command"]
    options = dict(text.removeprefix("--").split("=", 1) for text in command if "=" in text)
    assert options["app-name"] == "basic-auth"
    assert "--disable-security-middleware" not in command and "*" not in options["allowed-hosts"]
    assert options["backend-store-uri"].startswith("postgresql+psycopg://")
    assert options["artifacts-destination"].startswith("s3://")
    assert "default-artifact-root" not in options, "clients would need keys of the object store"
    for step in ("migrate", "bucket"):
        assert server["depends_on"][step]["condition"] == "service_completed_successfully"


def test_every_variable_is_in_the_example_and_none_has_a_value() -> None:
    example = (ROOT / "infra/mlflow/.env.example").read_text()
    lines = [line for line in example.splitlines() if line and not line.startswith("#")]
    used = set(re.findall(r"\$\{(\w+)", (ROOT / "infra" / COMPOSE).read_text()))
    assert {line.removesuffix("=") for line in lines} == used
    assert all(line.endswith("=") for line in lines)


def test_the_filled_in_env_file_stays_out_of_git() -> None:
    command = ["git", "-C", str(ROOT), "check-ignore", "--quiet", "infra/mlflow/.env"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode == 128:
        pytest.skip("this copy of the sources is not a git repository")
    assert done.returncode == 0


def test_the_server_s_users_are_in_postgres_and_see_nothing_by_default() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "infra/mlflow/basic_auth.ini")
    settings = parser["mlflow"]
    assert settings["default_permission"] == "NO_PERMISSIONS"
    assert settings["database_uri"] == "postgresql+psycopg://mlflow@postgres:5432/mlflow"
    assert "admin_password" not in settings
