"""One of each that people add, as the files it takes: new ones, and lines in those that are there.

`tests/test_adding_things.py` puts them into a copy of the repository, counts and runs them. They
are small but whole, tests included; the mechanism is that of docs/adding_a_mechanism.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.source_tree import ROOT


@dataclass(frozen=True, kw_only=True)
class Addition:
    """Something new.

    Attributes:
        name: Of what is added, as it stands in the names of its files.
        new: Path -> content of the files that it brings.
        lines: Path -> (what stands there, what stands there afterwards) of files that it changes.
        appended: Path -> what is put at the end of a file.
    """

    name: str
    new: Mapping[str, str]
    lines: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    appended: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> set[str]:
        """All files to touch."""
        return {*self.new, *self.lines, *self.appended}

    def put_into(self, root: Path) -> None:
        """Add it to the repository at `root`."""
        for name, text in self.new.items():
            assert not (root / name).exists(), f"{name} is there already"
            (root / name).write_text(text)
        for name, changes in self.lines.items():
            content = (root / name).read_text()
            for old, new in changes:
                assert content.count(old) == 1, f"{name} holds {old!r} {content.count(old)} times"
                content = content.replace(old, new)
            (root / name).write_text(content)
        for name, text in self.appended.items():
            (root / name).write_text((root / name).read_text().rstrip("\n") + "\n\n\n" + text)


def _mechanism() -> str:
    """The example of the page for those who add one, without the lines that try it."""
    page = (ROOT / "docs" / "adding_a_mechanism.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)\n```", page, re.DOTALL)
    return str(code).partition("\n\nvault = ")[0] + "\n"


MECHANISM = Addition(
    name="high_or_low",
    new={
        "mechanisms/high_or_low.py": f'"""A rating, rounded and flipped."""\n\n{_mechanism()}',
        "tests/mechanisms/test_high_or_low.py": '''\
"""high_or_low: released through the vault, drawn and charged once."""

import numpy as np

from labeldp.mechanisms import HighOrLow, LabelVault


def test_high_or_low() -> None:
    labels = np.random.default_rng(0).integers(5, size=10_000)
    vault = LabelVault(labels=labels, num_classes=5)
    release = vault.release(HighOrLow(epsilon=1.0, num_classes=5))
    again = vault.release(HighOrLow(epsilon=1.0, num_classes=5))
    assert (again.key, vault.epsilon(delta=0.0)) == (release.key, 1.0)
    flipped = np.mean(release.values != (labels >= 2.5))
    assert abs(flipped - 1 / (1 + np.e)) < 0.025  # over five standard errors
''',
    },
    lines={
        "mechanisms/__init__.py": (
            (
                "| | `rr_with_prior`, `cluster_prior`, `label_moments` |\n",
                "| | `rr_with_prior`, `cluster_prior`, `label_moments` |\n"
                "| ... to each rating? | `high_or_low` |\n",
            ),
            (
                "from labeldp.mechanisms.bit_flip import BitFlip as BitFlip\n",
                "from labeldp.mechanisms.bit_flip import BitFlip as BitFlip\n"
                "from labeldp.mechanisms.high_or_low import HighOrLow as HighOrLow\n",
            ),
        )
    },
)

TRAINER = Addition(
    name="nearest_mean",
    new={
        "trainers/nearest_mean.py": '''\
"""Whose mean is nearest: the mean features of each class, by randomized response."""

import time
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.trainers.schedules import EpochMetrics
from labeldp.trainers.trainer import PlannedCharge, Trainer, TrainerDefaults


@dataclass(frozen=True, kw_only=True)
class NearestMeanConfig(TrainerDefaults):
    """What noise there is on labels."""

    epsilon: float = 1.0
    epochs: int = 1
    delta: float = 1e-5

    def mechanism(self, num_classes):
        return RandomizedResponse(epsilon=self.epsilon, num_classes=num_classes)

    def planned_charge(self, *, num_classes, seed):
        mechanism = self.mechanism(num_classes)
        return PlannedCharge.of(mechanism)

    def start(self, *, data, labels, seed, performance):
        return NearestMean(data, labels.release(self.mechanism(data.num_classes)).values)


class NearestMean(Trainer):
    """A mean for each class [K, D]."""

    def __init__(self, data, noisy):
        self.data = data
        rows = data.train_features.flatten(1).numpy()
        self.means = np.stack([rows[noisy == label].mean(0) for label in range(data.num_classes)])
        self.epochs = 0

    def epoch(self):
        self.epochs += 1
        started = time.perf_counter()
        accuracy = self.evaluate()
        seconds = time.perf_counter() - started
        return EpochMetrics(
            epoch=self.epochs, loss=1 - accuracy, val_accuracy=accuracy, seconds=seconds
        )

    def evaluate(self):
        return self.data.test_accuracy(self.predict(self.data.test_features).argmax(1))

    def predict(self, features):
        rows = features.flatten(1).numpy()
        distances = ((rows[:, None] - self.means) ** 2).sum(2)
        return softmax(-distances, axis=1).astype(np.float32)

    def state_dict(self):
        return {"means": self.means, "epochs": self.epochs}

    def load_state_dict(self, state):
        self.means, self.epochs = state["means"], state["epochs"]
''',
        "tests/trainers/test_nearest_mean.py": '''\
"""nearest_mean: started by its configuration, it learns two clouds and pays what it planned."""

from labeldp.platform.configuration import TrialConfig, with_changes
from labeldp.trainers.performance import Performance
from tests.trainers.tiny_data import table


def test_nearest_mean() -> None:
    changes = {"method": "nearest_mean", "trainer.epsilon": 3.0}
    config = with_changes(TrialConfig(), changes).trainer
    data, labels = table(train=400)
    model = config.start(data=data, labels=labels, seed=0, performance=Performance())
    assert model.epoch().val_accuracy > 0.9
    planned = config.planned_charge(num_classes=2, seed=0)
    assert planned.event.epsilon == 3.0
''',
    },
    lines={
        "platform/configuration.py": (
            (
                "from labeldp.trainers.performance import Performance\n",
                "from labeldp.trainers.nearest_mean import NearestMeanConfig\n"
                "from labeldp.trainers.performance import Performance\n",
            ),
            (
                '    "lp_mst": LpMstConfig,\n',
                '    "lp_mst": LpMstConfig,\n    "nearest_mean": NearestMeanConfig,\n',
            ),
        )
    },
)

DATA_SET = Addition(
    name="corners",
    new={},
    lines={
        "trainers/data_sets/catalog.py": (
            (
                "from functools import partial\n\n",
                "from functools import partial\n\nimport numpy as np\n\n",
            ),
            (
                "from labeldp.trainers.data_sets.images",
                "from labeldp.trainers.data_sets.files import Splits\n"
                "from labeldp.trainers.data_sets.images",
            ),
            (
                "\n_RECORDS = (\n",
                """
def _download_corners(root, files):
    (root / "corners").mkdir(exist_ok=True)
    with open(root / files[0].path, "w") as file:
        for i in range(400):
            far = 150 * (i % 3 == 0)
            file.write(f"{(i * 37) % 100 + far},{(i * 53) % 100 + far},{int(i % 3 == 0)}\\n")


def _read_corners(root):
    table = np.loadtxt(root / "corners" / "corners.csv", delimiter=",")
    features, labels = table[:, :2].astype(np.float32), table[:, 2].astype(np.int64)
    return Splits(
        train_features=features[::2],
        train_labels=labels[::2],
        test_features=features[1::2],
        test_labels=labels[1::2],
        num_classes=2,
    )


_RECORDS = (
    DataSet(
        name="corners",
        description="400 points in two corners of a square",
        layouts=(
            Layout(
                folder="corners",
                files=published_files(
                    "corners", ("corners.csv", 3414, "9cfa3ba032cda2d6056524e0a6d390e7")
                ),
                read=_read_corners,
            ),
        ),
        download=_download_corners,
    ),
""",
            ),
        )
    },
    appended={
        "tests/trainers/test_data.py": """\
def test_corners(tmp_path: Path) -> None:
    from labeldp.trainers.data_sets.fetch import fetch

    with pytest.raises(DatasetMissing, match="labeldp data fetch corners"):
        load("corners", root=tmp_path)
    fetch("corners", tmp_path)
    assert DATASETS["corners"].check(tmp_path) == []
    data = load("corners", root=tmp_path)
    assert data.public.train_features.shape == (200, 2)
    assert np.bincount(data.train_labels).tolist() == [133, 67]
"""
    },
)

VERB = Addition(
    name="compose",
    new={
        "platform/cli/compose_verb.py": '''\
"""`labeldp epsilon compose`: what releases of the same labels cost together."""

from labeldp.platform.cli.privacy_verbs import EPSILON, numbers
from labeldp.platform.cli.verb import Verb


def _arguments(parser):
    numbers(parser, "--epsilon")
    parser.add_argument("--times", type=int, required=True, metavar="N")


def _compose(options):
    from labeldp.mechanisms.accounting import PureEvent, epsilon_of

    events = [PureEvent(epsilon=options.epsilon)] * options.times
    return {"epsilon": epsilon_of(events, delta=0.0)}


VERBS = (
    Verb(
        group=EPSILON,
        name="compose",
        summary="releases of the same labels, together",
        arguments=_arguments,
        run=_compose,
    ),
)
''',
        "tests/platform/cli/test_compose_verb.py": '''\
"""compose_verb: pure releases add up; what is no number is refused."""

from tests.platform.cli.asked import answer, refusal


def test_compose(capsys) -> None:
    assert answer(capsys, "epsilon", "compose", "--epsilon", "0.5", "--times", "3") == {
        "epsilon": 1.5
    }
    arguments = ("epsilon", "compose", "--epsilon", "-1", "--times", "3")
    assert "epsilon is -1.0" in refusal(capsys, *arguments)
''',
    },
)

METRIC = Addition(
    name="confidence_mean",
    new={},
    lines={
        "platform/trial.py": (
            (
                '"accuracy": trainer.evaluate()',
                '"accuracy": trainer.evaluate(), "confidence_mean": confidence_mean(trainer, data)',
            ),
        )
    },
    appended={
        "platform/trial.py": '''\
def confidence_mean(trainer: Any, data: PublicData) -> float:
    """How sure a model is of what it says of the public test split, on average."""
    return float(trainer.predict(data.test_features).max(1).mean())
''',
        "tests/platform/test_trial.py": """\
def test_the_mean_confidence_of_a_trial_is_a_metric() -> None:
    data, _ = digits(train=200)
    vault = LabelVault(labels=np.random.default_rng(0).integers(10, size=200), num_classes=10)
    outcome = run_trial(
        TWO_STAGES,
        data=data,
        vault=NearVault(vault),
        on_epoch=lambda metrics: None,
    )
    assert 0.1 <= outcome.metrics["confidence_mean"] <= 1
""",
    },
)
