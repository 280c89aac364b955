"""data_size: as many labels as a sweep will have, and the same refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.sweep.configuration import DataSettings, EvaluationSettings
from labeldp.platform.sweep.data_size import size_of_data
from labeldp.platform.sweep.driver import load_data
from labeldp.trainers.data.own_files import HoldOut

OWN = DataSettings(name="own", hold_out=HoldOut.NONE, classes="3")


@pytest.fixture
def own_file(tmp_path: Path) -> str:
    path = tmp_path / "mine.npz"
    features = np.arange(200, dtype=np.float32).reshape(100, 2)
    np.savez(path, features=features, labels=np.arange(100) % 3)
    return str(path)


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        (DataSettings(), None),
        (DataSettings(limit=100), 0.25),
        (OWN, None),  # a tenth is held out where nothing is public
        (OWN, 0.5),
        (replace(OWN, hold_out=HoldOut.PUBLIC), None),
    ],
    ids=str,
)
def test_counts_are_those_of_what_a_sweep_loads(
    settings: DataSettings, share: float | None, own_file: str
) -> None:
    if settings.name == "own":
        settings = replace(settings, path=own_file)
    evaluation = EvaluationSettings(held_out_share=share)
    size = size_of_data(settings, evaluation=evaluation)
    data = load_data(settings, evaluation=evaluation)
    held_out = data.num_held_out
    assert (size.num_labels, size.held_out) == (len(data.train_labels), held_out)
    assert size.num_classes == data.public.num_classes
    assert size.has_test_split == data.public.has_test_split


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        (DataSettings(name="mnist", root="nowhere"), None),
        (DataSettings(classes="10"), None),
        (DataSettings(limit=10), 0.9),
        (DataSettings(name="own", path="nowhere.csv"), None),
    ],
    ids=str,
)
def test_both_refuse_in_the_same_words(settings: DataSettings, share: float | None) -> None:
    evaluation = EvaluationSettings(held_out_share=share)
    said = []
    for read in (size_of_data, load_data):
        with pytest.raises(ValueError) as caught:
            read(settings, evaluation=evaluation)
        said.append(str(caught.value))
    assert said[0] == said[1]
