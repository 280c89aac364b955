"""extensions: methods and data sets of another package work; a broken one breaks nothing else."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from labeldp.platform.cli.config_keys import all_keys
from labeldp.platform.cli.data_sets import entries
from labeldp.platform.cli.doctor import _extensions
from labeldp.platform.settings.configuration import (
    ConfigurationError,
    TrialConfig,
    config_hash,
    flatten,
    with_changes,
)
from labeldp.platform.settings.methods import METHODS
from labeldp.platform.settings.sweep import Grid, Sweep, Variant, plan_trials
from labeldp.trainers.base import ExtensionError
from labeldp.trainers.data.catalog import DATASETS, find
from labeldp.trainers.methods.settings import AlibiConfig
from tests.platform.cli.asked import refusal
from tests.source_tree import ROOT

PAGE = (ROOT / "docs" / "extending.md").read_text()
FIT = """
import numpy as np
from labeldp import LabelPrivateClassifier
from labeldp.trainers.models.trained_model import load_model
X = np.random.default_rng(0).normal(size=(400, 5))
y = np.where(X[:, 0] > 0, "yes", "no")
model = LabelPrivateClassifier("nearest_mean", epsilon=3.0, delta=0.0, classes=["no", "yes"])
model.fit(X, y).save("model")
assert (model.method_, model.epsilon_) == ("nearest_mean", 3.0) and model.score(X, y) > 0.8
assert (load_model("model").predict(X) == model.predict(X)).all()
"""

OTHER_PACKAGE = '''\
"""A method and a data set of one's own."""

from labeldp.trainers.methods.settings import AlibiConfig
from labeldp.trainers.data.catalog import DataSet
from labeldp.trainers.base import Count, settings
from labeldp.trainers.settings.trainer import TrainerDefaults


@settings
class LouderConfig(AlibiConfig):
    """ALIBI, but louder."""

    loudness: Count = 3


@settings
class QuietConfig:
    """Settings that say half of what is asked of them."""

    epochs: Count = 1

    def planned_charge(self, *, num_classes, seed):
        return None

    def start(self, *, data, labels, seed, performance):
        raise AssertionError("nobody starts it")


@settings
class InheritingConfig(QuietConfig, TrainerDefaults):
    """The same, with the defaults."""


def read_corners(folder):
    raise AssertionError("nobody reads it")


CORNERS = DataSet(
    name="corners",
    description="points in two corners",
    reader=read_corners,
    by_hand="write corners/corners.txt",
)
NOTHING = 3
'''

ENTRIES = """\
[labeldp.methods]
louder = {name}_code:LouderConfig
nowhere = {name}_gone:Config
nothing = {name}_code:NOTHING
quiet = {name}_code:QuietConfig
inheriting = {name}_code:InheritingConfig
alibi = {name}_code:LouderConfig

[labeldp.data_sets]
corners = {name}_code:CORNERS
sunken = {name}_gone:SET
edges = {name}_code:CORNERS
nothing = {name}_code:NOTHING
"""


def install(folder: Path, name: str = "other_package", entries: str = ENTRIES) -> None:
    """Write the package and what an installer writes of it into a folder of `sys.path`."""
    (folder / f"{name}_code.py").write_text(OTHER_PACKAGE)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries.format(name=name))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("other_package_code", "second_package_code"):
        sys.modules.pop(name, None)


def test_a_method_of_another_package(installed: Path) -> None:
    config = with_changes(TrialConfig(), {"method": "louder", "trainer.loudness": 5})
    assert flatten(config)["trainer.loudness"] == 5
    assert config.trainer.planned_charge(num_classes=3, seed=0).event.epsilon > 0
    assert config_hash(config, data_fingerprint="f") != config_hash(
        with_changes(config, {"trainer.loudness": 6}), data_fingerprint="f"
    )
    with pytest.raises(ConfigurationError, match=r"trainer\.loudness is 0; .* at least 1"):
        with_changes(config, {"trainer.loudness": 0})
    with pytest.raises(ConfigurationError, match="did you mean louder"):
        with_changes(TrialConfig(), {"method": "loude"})
    with pytest.raises(ConfigurationError, match="takes LouderConfig, not AlibiConfig"):
        TrialConfig(method="louder", trainer=AlibiConfig())


def test_settings_without_a_required_part_are_refused_at_once(installed: Path) -> None:
    with pytest.raises(ExtensionError, match="it does not inherit from `TrainerDefaults`"):
        METHODS["quiet"]
    with pytest.raises(ExtensionError, match="but it has no delta; see docs"):
        METHODS["inheriting"]


def test_a_broken_extension_is_named(installed: Path) -> None:
    broken = r"'{}' comes from package other_package \(other_package_gone:.*\), which can't be imp"
    with pytest.raises(ValueError, match=broken.format("nowhere")):
        with_changes(TrialConfig(), {"method": "nowhere"})
    with pytest.raises(ExtensionError, match=broken.format("sunken")):
        find("sunken")
    with pytest.raises(ExtensionError, match="3 is not a class of settings: put `@settings` ab"):
        METHODS["nothing"]
    with pytest.raises(ExtensionError, match="it is a int and not a DataSet"):
        DATASETS["nothing"]
    with pytest.raises(ExtensionError, match="that is the record of 'corners'"):
        DATASETS["edges"]
    found = {entry["name"]: entry for entry in entries()}
    assert not found["sunken"]["present"]
    assert "repair or uninstall" in found["sunken"]["description"]
    checks = {check.name: check for check in _extensions()}
    assert not checks["method louder"].fix and not checks["data set corners"].fix
    assert checks["method nowhere"].fix == "repair or uninstall other_package"
    assert {each for facts in all_keys() for each in facts.methods} >= {"louder", "convex"}
    assert "comes from package other_package" in refusal("data", "check", "sunken")
    assert with_changes(TrialConfig(), {"method": "convex"}).method == "convex"


def test_two_packages_with_one_name(installed: Path) -> None:
    install(installed, "second_package", "[labeldp.methods]\nlouder = {name}_code:LouderConfig\n")
    # Found once per path: a package that comes later is seen by processes that start later.
    sys.path.insert(0, str(installed / "nowhere"))
    with pytest.raises(ExtensionError, match="by other_package and by second_package; uninstall"):
        METHODS["louder"]
    sys.path.remove(str(installed / "nowhere"))


def test_the_pages_own_package(tmp_path: Path) -> None:
    """Installed as the page shows it: every command and the classifier know its names."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "mypackage").mkdir(parents=True)
    project = re.search(r"^    \[project\]\n(?:    .*\n|\n)+", PAGE, re.M)
    assert project is not None
    (source / "pyproject.toml").write_text(textwrap.dedent(project[0]))
    method, data_set = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (source / "mypackage" / "__init__.py").touch()
    (source / "mypackage" / "nearest_mean.py").write_text(method)
    (source / "mypackage" / "corners.py").write_text(data_set)
    path = f"{target}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

    def run(*command: str) -> str:
        # xdist's workers state a narrow terminal.
        own = {"PYTHONPATH": path, "LABELDP_DATA": str(tmp_path), "COLUMNS": "120"}
        command, env = (sys.executable, *command), {**os.environ, **own}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    pip = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    run(*pip, "--target", str(target), str(source))
    verbs = (
        ["config", "nearest_mean"],
        ["plan", str(ROOT / "sweeps" / "quickstart.py"), "method=nearest_mean"],
        ["data", "list"],
    )
    main = "from labeldp.platform.cli.command_line import main"
    printed = run("-c", f"{main}\nfor words in {verbs}: assert main(words) == 0")
    assert re.search(r"trainer\.epsilon = 1\.0\n.*\n +Privacy loss", printed)
    assert "epsilon of all together  11 at delta 0\n" in printed
    assert re.search(r"corners +no", printed)
    run("-c", FIT)


def test_a_method_that_a_sweep_does_not_have_runs_on_the_axes_that_it_has() -> None:
    variants = [
        Variant(name="flips", changes={"method": "bit_flip"}),
        Variant(name="no privacy", changes={"trainer.noise": "none"}),
    ]
    space = {"trainer.epsilon": Grid(1.0, 2.0), "trainer.width": Grid(8, 16)}
    sweep = Sweep(name="s", base=TrialConfig(), variants=variants, space=space)
    assert {trial.variant for trial in plan_trials(sweep, {"method": "bit_flip"})} == {"flips"}
    trials = plan_trials(sweep, {"method": "convex"})
    assert [(trial.variant, trial.config.method, dict(trial.point)) for trial in trials] == [
        ("convex", "convex", {"trainer.epsilon": epsilon}) for epsilon in (1.0, 2.0)
    ]
    with pytest.raises(ConfigurationError, match=r"unknown key 'trainer\.width'"):
        plan_trials(sweep, {"method": "convex", "trainer.width": 8})
