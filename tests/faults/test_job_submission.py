"""`ray job submit` with a token, without one, and where a secret of the environment may not go."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.job_cluster import JobCluster, copy_of_the_project

pytestmark = [pytest.mark.fault, pytest.mark.ray_cluster]

SECRET = "planted-3b1f0a77c2"


@dataclass(frozen=True)
class Story:
    """A cluster on which a sweep was submitted twice: without its token, and with it."""

    cluster: JobCluster
    results: Path
    refused: "subprocess.CompletedProcess[str]"
    accepted: "subprocess.CompletedProcess[str]"


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    folder = Path(tempfile.mkdtemp(prefix="ldp"))  # short: sockets have paths of 107 characters
    results = folder / "results"
    command = ["python", "sweeps/quickstart.py", "--smoke", "--results", str(results), "--json"]
    command += ["trainer.epochs=1", "trainer.epsilon=4.0"]
    try:
        project = copy_of_the_project(folder / "project")
        with JobCluster(folder, environment={"LABELDP_TEST_PASSWORD": SECRET}) as cluster:
            refused = cluster.submit(project, *command, token=False)
            yield Story(cluster, results, refused, cluster.submit(project, *command))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_without_the_token_nothing_is_answered(story: Story) -> None:
    assert story.cluster.status(token=False) == 401
    assert story.refused.returncode != 0
    assert "oken authentication is enabled" in story.refused.stdout


def test_with_the_token_the_sweep_runs_from_the_uploaded_copy(story: Story) -> None:
    assert not story.cluster.has_the_project()
    assert story.accepted.returncode == 0, story.accepted.stdout
    assert len(list((story.results / "trials").glob("*.json"))) == 4
    (report,) = [line for line in story.accepted.stdout.splitlines() if line.startswith("{")]
    assert json.loads(report)["finished"] == 4


def test_neither_secret_nor_token_is_written_anywhere(story: Story) -> None:
    assert story.cluster.has_in_its_environment(SECRET)
    status, jobs = story.cluster.get("/api/jobs/")
    assert status == 200 and "quickstart.py" in jobs
    said = {"jobs": jobs, "refused": story.refused.stdout, "accepted": story.accepted.stdout}
    for word in (SECRET, story.cluster.token):
        assert [name for name, text in said.items() if word in text] == []
        found = [
            path
            for path in story.cluster.folder.rglob("*")
            if path.is_file()
            and path != story.cluster.token_file
            and not path.is_relative_to(story.cluster.folder / "venv")
            and word.encode() in path.read_bytes()
        ]
        assert found == []
    assert list((story.cluster.folder / "ray").rglob("*.log")), "there were logs to look at"
