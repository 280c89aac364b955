"""How many files it takes to add a mechanism, a trainer, a data set, a verb or a metric.

One of each is put into a copy of the repository. What differs afterwards is counted, their tests
are run there, and then all of them together: the trainer on the data set, the metric in its record,
the verb from a shell.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT
from tests.things_to_add import DATA_SET, MECHANISM, METRIC, TRAINER, VERB, Addition

#: What is added, and the most files that it may take.
GOALS = {
    "mechanism": (MECHANISM, 3),
    "trainer": (TRAINER, 3),
    "data set": (DATA_SET, 2),
    "verb": (VERB, 2),
    "metric": (METRIC, 2),
}
FOLDERS = ("labeldp", "mechanisms", "trainers", "platform", "sweeps", "tests", "docs")
#: A trial of the trainer on the data set, its labels in a vault; then its record, read from disk.
TOGETHER = '''
import json, math, sys
from pathlib import Path
import numpy as np
from labeldp.mechanisms import LabelVault, SeededNoise
from labeldp.platform.configuration import TrialConfig, with_changes
from labeldp.platform.data_loading import load_data
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep import Sweep, plan_trials
from labeldp.platform.trial import run_trial
from labeldp.trainers.data_sets.fetch import fetch
from tests.platform.examples import a_record

class NearVault:
    """What a trial has of the vault, in this process."""

    def __init__(self, labels):
        self.vault, self.keys = LabelVault(labels=labels, num_classes=2), []

    def release(self, mechanism, *public, indices=None):
        noise = SeededNoise(seed=0)
        release = self.vault.release(mechanism, *public, indices=indices, noise=noise)
        self.keys.append(release.key)
        return release

    def canary_positions(self):
        return np.arange(3)

    def audit(self, confidences, **settings):
        assert confidences.shape == (3, 2)

    def epsilon(self, *, delta):
        return self.vault.epsilon(delta=0.0, keys=self.keys), 0.0

here = Path(sys.argv[1])
fetch("corners", here)
changes = {"method": "nearest_mean", "data.name": "corners", "trainer.epsilon": 4.0}
base = with_changes(TrialConfig(), {**changes, "data.root": str(here)})
(trial,) = plan_trials(Sweep(name="added", base=base))
data = load_data(trial.config.data)
vault = NearVault(data.train_labels)
outcome = run_trial(trial.config, data=data.public, vault=vault, on_epoch=lambda epoch: None)
folder = ResultsFolder(here / "results", sweep="added")
folder.keep(a_record(changes={**changes, "data.root": None}, figures=None, **outcome.metrics))
(record,) = folder.records().values()
print(json.dumps({"config": record.config, "metrics": record.metrics}))
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with one of each added."""
    copy = tmp_path_factory.mktemp("tree")
    ignore = shutil.ignore_patterns("__pycache__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignore)
    for path in ROOT.iterdir():
        if path.suffix in (".md", ".toml"):
            shutil.copy(path, copy)
    for addition, _ in GOALS.values():
        addition.put_into(copy)
    return copy


def run(tree: Path, *arguments: str) -> str:
    """Run Python in the copy, where `labeldp` is the copy's, and return what it prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("thing", GOALS)
def test_few_files_are_touched(thing: str) -> None:
    addition, most = GOALS[thing]
    assert len(addition.files) <= most, f"a {thing} takes {sorted(addition.files)}"
    assert any(path.startswith("tests/") for path in addition.files)


def test_nothing_else_was_touched(tree: Path) -> None:
    found = {
        path.relative_to(tree).as_posix()
        for path in tree.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and "__pycache__" not in path.parts
        # What is below labeldp/ is seen through its links' targets.
        and not path.relative_to(tree).as_posix().startswith("labeldp/")
        and not _as_it_was(path, ROOT / path.relative_to(tree))
    }
    assert found == set().union(*(addition.files for addition, _ in GOALS.values()))


def _as_it_was(path: Path, before: Path) -> bool:
    return before.is_file() and before.read_bytes() == path.read_bytes()


def test_their_tests_pass_and_the_rooms_are_in_order(tree: Path) -> None:
    """Also the map, the mirrors and who may import whom, which no addition had to be told to."""
    assert Path(run(tree, "-c", "import labeldp; print(labeldp.__file__)")).is_relative_to(tree)
    tests = [
        "tests/mechanisms/test_high_or_low.py",
        "tests/trainers/test_nearest_mean.py",
        "tests/trainers/test_data.py::test_corners",
        "tests/platform/cli/test_compose_verb.py",
        "tests/platform/test_trial.py::test_the_mean_confidence_of_a_trial_is_a_metric",
    ]
    rooms = [
        "every_module_has_a_mirroring_test_or_is_a_named_exception",
        "tests_are_where_their_modules_are",
        "only_who_is_named_takes_only_what_is_named_from_the_trusted_room",
        "the_drawing_of_imports_is_the_code",
        "maps_name_all_that_is_there_and_nothing_else",
        "the_map_of_platform_names_all_that_is_there_and_nothing_else",
        "modules_that_load_import_no_circles",
    ]
    every = [*tests, *(f"tests/test_rooms.py::test_{name}" for name in rooms)]
    said = run(tree, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *every)
    assert all(f"PASSED {test}" in said for test in every), said


def test_they_work_together(tree: Path, tmp_path: Path) -> None:
    found = json.loads(run(tree, "-c", TOGETHER, str(tmp_path)))
    assert (found["config"]["method"], found["config"]["data.name"]) == ("nearest_mean", "corners")
    metrics = found["metrics"]
    assert metrics["epsilon"] == 4.0 and metrics["accuracy"] > 0.9
    assert 0.5 <= metrics["confidence_mean"] <= 1


def test_the_verb_answers_in_a_shell(tree: Path) -> None:
    command = ("-m", "labeldp.platform.cli.command_line", "epsilon", "compose")
    said = run(tree, *command, "--epsilon", "0.5", "--times", "3", "--json")
    assert json.loads(said) == {"epsilon": 1.5}
    assert "compose" in run(tree, *command[:3], "--help")


@pytest.mark.parametrize("thing", GOALS)
def test_documents_name_these_files(thing: str) -> None:
    (row,) = re.findall(rf"^\| a {thing} \|(.*)\|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    addition: Addition = GOALS[thing][0]
    named = {path.replace("NAME", addition.name) for path in re.findall(r"`([\w/]+\.py)`", row)}
    assert named == addition.files
