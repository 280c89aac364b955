"""infra/README.md: its numbers follow from the manifests, and what it names is there."""

import re

from tests.infra.documents import ROOT, load

README = (ROOT / "infra/README.md").read_text()


def test_the_cost_of_a_job_is_what_the_manifests_cap_it_at() -> None:
    spec = load("k8s/rayjob.yaml")["spec"]
    workers = sum(group["maxReplicas"] for group in spec["rayClusterSpec"]["workerGroupSpecs"])
    hours = spec["activeDeadlineSeconds"] // 3600
    assert f"at most {workers * hours} GPU hours" in README
    for path in ("ray/aws-gpu-spot.yaml", "ray/gcp-gpu-spot.yaml"):
        assert load(path)["max_workers"] == workers


def test_the_files_that_it_names_are_there() -> None:
    named = set(re.findall(r"\binfra/[\w./-]+\.(?:yaml|gpu|mlflow|ini)\b", README))
    assert len(named) >= 5
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_secrets_that_manifests_read_are_created_with_their_keys() -> None:
    manifests = "".join(path.read_text() for path in (ROOT / "infra/k8s").glob("*.yaml"))
    keys = re.findall(r"secretKeyRef: \{name: ([\w-]+), key: ([\w-]+)\}", manifests)
    assert len(set(keys)) >= 5
    for name, key in {*keys, ("labeldp-ray-token", "auth_token")}:
        (line,) = [line for line in README.splitlines() if f"secret generic {name} " in line]
        assert re.search(rf"--from-(file|literal)={key}\b", line), (name, key)
