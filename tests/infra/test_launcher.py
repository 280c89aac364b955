"""The cluster launcher's files: Ray accepts them, and they can neither stand open nor run away."""

import copy
import re
import subprocess

import pytest

from tests.infra.documents import Document, image_complaints, load, strings

AWS, GCP = "ray/aws-gpu-spot.yaml", "ray/gcp-gpu-spot.yaml"
TOKEN_PATH = "/home/labeldp/.ray/auth_token"


def checked_by_ray(config: Document) -> Document:
    """Return what `ray up` would work with; the only place that touches Ray's private functions."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared: Document = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    return prepared


def complaints(config: Document) -> list[str]:
    """Return what is wrong with a launcher's file, by our rules."""
    found = [f"{text!r} is the whole internet" for text in strings(config) if _is_world(text)]
    provider = config["provider"]
    if not provider.get("use_internal_ips"):
        found.append("nodes get public addresses: set use_internal_ips")
    if provider.get("cache_stopped_nodes", True):
        found.append("stopped nodes keep costing their disks: unset cache_stopped_nodes")
    if not 0 < config.get("idle_timeout_minutes", 0) <= 5:
        found.append("idle workers stay: set idle_timeout_minutes to at most 5")
    if not 0 < config.get("max_workers", 0) <= 16:
        found.append("max_workers caps nothing")
    for key in ("setup_commands", "head_setup_commands", "worker_setup_commands"):
        if config.get(key) != []:
            found.append(f"{key} is not empty: Ray's defaults, or ours, install over the image")
    for key in ("head_image", "worker_image"):
        found += image_complaints(config["docker"].get(key, "none"))
    return found + _node_complaints(config) + _start_complaints(config)


def _is_world(text: str) -> bool:
    return bool(re.search(r"\b0\.0\.0\.0\b|(^|\s)::/0", text))


def _node_complaints(config: Document) -> list[str]:
    found = []
    kinds = set()
    for name, node in config["available_node_types"].items():
        launch, resources = node["node_config"], node["resources"]
        is_spot = _is_spot(launch)
        if name == config["head_node_type"]:
            if resources.get("CPU") != 0 or resources.get("GPU", 0):
                found.append("the head takes trials: give it CPU: 0")
            if is_spot:
                found.append("the head is on spot: losing it loses the sweep")
            if node.get("max_workers") != 0:
                found.append("the head's type may be launched again as a worker")
        else:
            kinds.add(launch.get("InstanceType", launch.get("machineType")))
            if not is_spot:
                found.append(f"{name} is not on spot")
            if node.get("min_workers") != 0:
                found.append(f"{name} never goes away: set min_workers to 0")
            if not 0 < node.get("max_workers", 0) <= config.get("max_workers", 0):
                found.append(f"{name} has no max_workers of its own within the cluster's")
            if resources.get("GPU", 0) < 1:
                found.append(f"{name} has no GPU")
        closed = _aws_complaints if config["provider"]["type"] == "aws" else _gcp_complaints
        found += [f"{name}: {complaint}" for complaint in closed(launch)]
    if len(kinds) < 2:
        found.append("one instance type: spot runs out of one at a time")
    return found


def _is_spot(launch: Document) -> bool:
    market = launch.get("InstanceMarketOptions", {}).get("MarketType")
    model = launch.get("scheduling", {}).get("provisioningModel")
    return bool(market == "spot" or model == "SPOT")


def _aws_complaints(launch: Document) -> list[str]:
    found = []
    if launch.get("MetadataOptions", {}).get("HttpTokens") != "required":
        found.append("answers IMDSv1: require HttpTokens")
    if not launch.get("SecurityGroupIds"):
        found.append("no SecurityGroupIds: Ray makes a group that opens port 22 to the internet")
    if not launch.get("SubnetIds"):
        found.append("no SubnetIds: the default subnet is a public one")
    if "IamInstanceProfile" not in launch:
        found.append("no IamInstanceProfile: the head's default may do anything with EC2 and S3")
    disks = launch.get("BlockDeviceMappings", [])
    if not disks or not all(disk["Ebs"].get("Encrypted") for disk in disks):
        found.append("a disk is not encrypted")
    return found


def _gcp_complaints(launch: Document) -> list[str]:
    interfaces = launch.get("networkInterfaces", [])
    if not interfaces:
        return ["no networkInterfaces: Ray's default has a public address"]
    return ["has a public address" for interface in interfaces if "accessConfigs" in interface]


def _start_complaints(config: Document) -> list[str]:
    found = []
    if TOKEN_PATH not in config.get("file_mounts", {}):
        found.append("the token is not mounted")
    for side in ("head", "worker"):
        commands = [c for c in config.get(f"{side}_start_ray_commands", []) if "ray start" in c]
        if not commands:
            found.append(f"{side} never starts Ray")
        for command in commands:
            if "RAY_AUTH_MODE=token" not in command:
                found.append(f"{side} starts without token mode")
            if f"RAY_AUTH_TOKEN_PATH={TOKEN_PATH}" not in command:
                found.append(f"{side} does not read the mounted token")
            if side == "head" and "--dashboard-host=127.0.0.1" not in command:
                found.append("the dashboard listens beyond loopback")
    if any("RAY_AUTH_TOKEN=" in text for text in strings(config)):
        found.append("a token stands in the file")
    return found


@pytest.mark.parametrize("path", [AWS, GCP])
def test_ray_accepts_the_file_and_we_have_no_complaint(path: str) -> None:
    config = load(path)
    prepared = checked_by_ray(config)
    assert complaints(config) == []
    # The rules hold for what Ray makes of it too: its defaults have not put anything back.
    assert complaints(prepared) == []


HEAD, WORKER = "available_node_types.head", "available_node_types.spot_l4"
OPEN = [{"FromPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]


@pytest.mark.parametrize("path", [AWS, GCP])
def test_ray_start_knows_every_option_and_the_shell_every_command(path: str) -> None:
    from ray.scripts.scripts import start

    known = {option for parameter in start.params for option in parameter.opts}
    config = load(path)
    commands = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    used = {option for command in commands for option in re.findall(r"(--[\w-]+)", command)}
    assert len(used) >= 5
    assert used <= known
    for command in commands:
        subprocess.run(["bash", "-n", "-c", command], check=True)
