"""Bad input at a sweep's front door: refused before Ray starts, in one line, nothing touched."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.sweeps.front_door import Door


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        # keys
        (["trainer.epsilom=1"], ["trainer.epsilom", "did you mean trainer.epsilon"]),
        (["trainer=1"], ["trainer is a section", "trainer.epsilon"]),
        (["trainer.epsilon"], ["'trainer.epsilon'", "key=value"]),
        # types
        (["trainer.epochs=many"], ["trainer.epochs is 'many'"]),
        (["trainer.augment=perhaps"], ["trainer.augment is 'perhaps'"]),
        (["seed=-1"], ["seed is -1"]),
        (["trainer.epsilon=[1,two]"], ["trainer.epsilon is 'two'"]),
        (["trainer.noise=lapalce"], ["trainer.noise is 'lapalce'", "one of laplace"]),
        # numbers
        (["trainer.epsilon=-1"], ["epsilon is -1", "above 0"]),
        (["trainer.epsilon=.nan"], ["epsilon is nan", "must be a finite number above 0"]),
        (["trainer.epsilon=[]"], ["trainer.epsilon is an empty list", "at least one"]),
        (["trainer.delta=0"], ["delta is 0", "strictly between 0 and 1"]),
        (["trainer.epochs=0"], ["epochs is 0", "at least 1"]),
        # labels that make no sweep
        (["audit.canaries=[50,60]"], ["audit.canaries", "run a sweep for each value"]),
        (["audit.canaries=100000"], ["100000", "1438 training examples", "at most 1438"]),
        (
            ["method=prior_labels", "trainer.prior.source=clusters", "trainer.prior.clusters=2000"],
            ["clusters is 2000, but there are 1438 examples"],
        ),
        # data
        (["data.name=mnist"], ["mnist", "labeldp data fetch mnist", "LABELDP_DATA"]),
        (["data.hold_out=none"], ["hold_out", "data.name=own", "digits"]),
        (["data.name=own"], ["path", "data.path"]),
        (["data.name=own", "data.path=none.npz"], ["none.npz is not there", "data.path"]),
        # the command line itself
        (["--resume", "sometimes"], ["sometimes", "auto", "must", "never"]),
        (["--max-minutes", "0"], ["max_minutes is 0", "above 0"]),
        (["--max-epsilon-total", "0"], ["epsilon is 0", "above 0"]),
    ],
)
def test_settings_are_refused(door: Door, arguments: list[str], words: list[str]) -> None:
    code, line = door.refuse(*arguments)
    assert code == 2
    for word in words:
        assert word in line


FEATURES = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
LABELS = np.arange(300) % 3
INFINITE_IN_ROW_7 = FEATURES.copy()
INFINITE_IN_ROW_7[7, 2] = np.inf


TEST = {"test_features": FEATURES, "test_labels": LABELS, "num_classes": 3}
ONE_PART = {"features": FEATURES, "labels": LABELS}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (
            {"train_features": FEATURES, "train_labels": np.where(LABELS == 2, 7, LABELS), **TEST},
            ["train_labels[2] is not one of the classes", "0..2"],
        ),
        (
            {"train_features": INFINITE_IN_ROW_7, "train_labels": LABELS, **TEST},
            ["row 7, column 2 is inf", "finite"],
        ),
        (ONE_PART, ["how many classes", "data.classes=K"]),
        (
            {**ONE_PART, "num_classes": 3},
            ["data.hold_out=public", "data.hold_out=none", "test split"],
        ),
        ({"features": np.array([{}] * 300), "labels": LABELS}, ["no Python objects"]),
    ],
)
@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_data_of_the_users_own_are_refused(
    door: Door, arrays: dict[str, NDArray[np.generic]], words: list[str]
) -> None:
    np.savez(door.here / "own.npz", allow_pickle=True, **arrays)
    code, line = door.refuse("data.name=own", "data.path=own.npz")
    assert code == 2
    for word in words:
        assert word in line
