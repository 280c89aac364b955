"""A small package of somebody else's, with a method and a data set, as if it were installed."""

from pathlib import Path

NEAREST_MEAN = '''\
"""A method and a data set of one's own."""

import numpy as np

from labeldp.trainers.settings.methods import AlibiConfig
from labeldp.trainers.data.catalog import DataSet, Layout
from labeldp.trainers.data.splits import Splits
from labeldp.trainers.settings.base import Count, settings
from labeldp.trainers.trainer import TrainerDefaults


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
class InheritingConfig(TrainerDefaults, QuietConfig):
    """The same, with the defaults."""


def read_corners(root):
    table = (root / "corners" / "corners.txt").read_text().split()
    features = np.array(table, dtype=np.float32).reshape(-1, 2)
    labels = np.arange(len(features)) % 2
    return Splits(
        train_features=features[::2],
        train_labels=labels[: len(features[::2])],
        test_features=features[1::2],
        test_labels=labels[: len(features[1::2])],
        num_classes=2,
    )


CORNERS = DataSet(
    name="corners",
    description="points in two corners",
    layouts=(Layout(folder="corners", files=(), read=read_corners),),
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
    (folder / f"{name}_code.py").write_text(NEAREST_MEAN)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries.format(name=name))
