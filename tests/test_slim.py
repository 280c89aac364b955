"""infra/slim.txt: with these packages alone the party that holds labels has all that it needs."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT

SLIM = ROOT / "infra" / "slim.txt"
#: Imports no package but those of infra/slim.txt: the environment has them all, and others.
ONLY_SLIM = """
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions
slim = {line.partition("==")[0].replace("-", "_") for line in open(SLIM) if "==" in line}
known = {name: {each.lower().replace("-", "_") for each in its}
         for name, its in packages_distributions().items()}
class OnlySlim(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in known and top != "labeldp" and not known[top] & slim:
            raise ModuleNotFoundError(f"No module named {name!r}", name=top)
sys.meta_path.insert(0, OnlySlim())
"""
#: Commands first, then Python: one process, since each takes seconds to load.
PARTY = """
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from labeldp import LabelPrivateClassifier, privatize
from labeldp.platform.cli.command_line import main

for line in (
    "data make conversions --rows 1000 -o log",
    "request log/features.parquet --id-column id --method moments --classes no,yes -o ask",
    "release log/labels.parquet --id-column id --label-column bought --request ask --epsilon 1"
    " -o release",
    "fit log/features.parquet --release release --estimator logistic -o model",
):
    assert main(line.split()) == 0, line
rows = np.random.default_rng(0).normal(size=(500, 3))
labels = (rows[:, 0] > 0).astype(int)
assert privatize(labels, epsilon=2, classes=[0, 1]).soft_labels().shape == (500, 2)
settings = {"epsilon": 4, "classes": 2, "estimator": LogisticRegression(), "random_state": 0}
for method in ("subset", "moment_labels"):
    model = LabelPrivateClassifier(method, **settings).fit(rows, labels)
    assert model.score(rows, labels) > 0.9, method
model.save("own")
model.fit_release(pd.read_parquet("log/features.parquet"), "release")
for line in ("predict model log/test.parquet -o predictions.csv", "sweep quickstart --smoke"):
    try:
        ended = main(line.split())
    except SystemExit as end:
        ended = end.code
    assert ended == 2, line
LabelPrivateClassifier(epsilon=4, classes=2).fit(rows, labels)
LabelPrivateClassifier("pate", epsilon=4, classes=2).fit(rows, labels)
"""


def what_the_party_with_labels_does(folder: Path, *, python: str, before: str = "") -> None:
    done = subprocess.run(
        [python, "-c", before + PARTY], cwd=folder, capture_output=True, text=True, timeout=300
    )
    # Two commands are refused, and so is the method's own model.
    missing = "is not installed, and this needs it: run `make install`"
    assert done.stderr.count(missing) == 3, done.stderr
    assert f"package 'torch' {missing}" in done.stderr.splitlines()[-1]


def test_slim_packages_are_enough_for_the_party_with_labels(tmp_path: Path) -> None:
    before = ONLY_SLIM.replace("SLIM)", f"{str(SLIM)!r})")
    what_the_party_with_labels_does(tmp_path, python=sys.executable, before=before)


def test_slim_packages_are_whole_and_those_that_the_suite_runs_with() -> None:
    lines = [line for line in SLIM.read_text().splitlines() if not line.startswith("#")]
    assert set(lines) <= set((ROOT / "constraints.txt").read_text().splitlines())
    names = {line.partition("==")[0] for line in lines}
    for name in sorted(names):
        for needed in importlib.metadata.requires(name) or ():
            if "extra ==" not in needed and "sys_platform" not in needed:
                wanted = re.split(r"[\[<>=!~ ;(]", needed)[0].lower().replace("_", "-")
                assert wanted in names, f"{name} needs {needed}"


@pytest.mark.benchmark
def test_slim_environment_is_made_and_works(tmp_path: Path) -> None:
    """Install the wheel by pip into an empty environment, which reaches a package index."""
    environment = tmp_path / "environment"
    python = str(environment / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=300)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, timeout=300, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel), "-r", str(SLIM)]
    done = subprocess.run(install, timeout=900, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot install: {done.stderr.splitlines()[-1]}")
    size = sum(file.stat().st_size for file in environment.rglob("*") if file.is_file())
    print(f"\nslim environment: {size / 1e6:.0f} MB")
    assert size < 700e6
    what_the_party_with_labels_does(tmp_path, python=python)
