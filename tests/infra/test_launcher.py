"""The cluster launcher's files: Ray accepts them, and they can neither stand open nor run away."""

import copy
import re
import subprocess

import pytest

from tests.infra.documents import Document, is_pinned, load, strings

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
