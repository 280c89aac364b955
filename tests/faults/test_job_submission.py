"""`ray job submit` with a token, without one, and where a secret of the environment may not go."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.job_cluster import JobCluster, copy_of_the_project

SECRET = "planted-3b1f0a77c2"


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for sockets, whose paths have 107 characters at most."""
    folder = Path(tempfile.mkdtemp(prefix="ldp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.fault
@pytest.mark.ray_cluster
def test_a_job_needs_the_token_and_nothing_secret_is_written(short_folder: Path) -> None:
    results, project = short_folder / "results", copy_of_the_project(short_folder / "project")
    command = ["python", "sweeps/quickstart.py", "--smoke", "--results", str(results), "--json"]
    command += ["trainer.epochs=1", "trainer.epsilon=4.0"]
    with JobCluster(short_folder, environment={"LABELDP_TEST_PASSWORD": SECRET}) as cluster:
        refused = cluster.submit(project, *command, token=False)
        assert cluster.get(token=False)[0] == 401 and refused.returncode != 0
        assert "oken authentication is enabled" in refused.stdout

        # The sweep runs from the uploaded copy.
        accepted = cluster.submit(project, *command)
        assert not cluster.has_the_project()
        assert accepted.returncode == 0, accepted.stdout
        assert len(list((results / "trials").glob("*.json"))) == 4
        (report,) = [line for line in accepted.stdout.splitlines() if line.startswith("{")]
        assert json.loads(report)["finished"] == 4

        assert cluster.has_in_its_environment(SECRET)
        status, jobs = cluster.get()
        assert status == 200 and "quickstart.py" in jobs
        for word in (SECRET, cluster.token):
            assert word not in jobs + refused.stdout + accepted.stdout
            found = [
                path
                for path in short_folder.rglob("*")
                if path.is_file()
                and path != cluster.token_file
                and not path.is_relative_to(short_folder / "venv")
                and word.encode() in path.read_bytes()
            ]
            assert found == []
        assert list((short_folder / "ray").rglob("*.log")), "there were logs to look at"
