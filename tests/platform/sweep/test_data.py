"""Data of a sweep: keys that go together, sizes for plans, and their refusals."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.platform.sweep.configuration import (
    DataSettings,
    EvaluationSettings,
    TrialConfig,
    config_hash,
    with_changes,
)
from labeldp.platform.sweep.driver import load_data
from labeldp.platform.sweep.plan import size_of_data
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.data.splits import League

OWN = DataSettings(name="own", hold_out=HoldOut.NONE, classes="3")


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
def test_counts_are_those_of_the_data_that_a_sweep_loads(
    settings: DataSettings, share: float | None, tmp_path: Path
) -> None:
    if settings.name == "own":
        features = np.arange(200, dtype=np.float32).reshape(100, 2)
        np.savez(tmp_path / "mine.npz", features=features, labels=np.arange(100) % 3)
        settings = replace(settings, path=str(tmp_path / "mine.npz"))
    evaluation = EvaluationSettings(held_out_share=share)
    size = size_of_data(settings, evaluation=evaluation)
    data = load_data(settings, evaluation=evaluation)
    assert (size.num_labels, size.held_out) == (len(data.train_labels), data.num_held_out)
    assert size.num_classes == data.public.num_classes
    assert size.has_test_split == data.public.has_test_split


def own(**settings: Any) -> DataSettings:
    return DataSettings(name="own", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (DataSettings(name="mnist", root="nowhere"), "nowhere"),
        (DataSettings(classes="10"), "data.classes: only for your own data, but data.name is dig"),
        (DataSettings(labels="y.npy"), "data.labels: only for your own data"),
        (DataSettings(hold_out_seed=3), "data.hold_out_seed: only for your own data"),
        (own(path="nowhere.csv"), "nowhere.csv"),
        (own(path="X.npy"), r"data\.labels=FILE\.npy"),
        (own(path="X.csv", labels="y.npy"), "holds its labels itself"),
        (own(path="a.csv", test_labels="t.npy"), "data.test_path is None; a second file of labels"),
        (own(path="X.npy", labels="y.npy", test_path="T.npy"), "data.test_labels=FILE"),
        (own(path="a.csv", test_path="b.csv", hold_out=HoldOut.NONE), "leave one of them"),
        (own(path="a.csv", hold_out_seed=1), "set data.hold_out=public"),
        (own(path="a.csv", hold_out_seed=1, hold_out=HoldOut.NONE), "no rows are held out"),
        (own(path="X.npy", labels="y.npy", embeddings="x.npy"), "embeddings of your own images"),
    ],
    ids=str,
)
def test_plan_and_start_refuse_in_the_same_words(settings: DataSettings, message: str) -> None:
    refusals = []
    for read in (size_of_data, load_data):
        with pytest.raises(ValueError, match=message) as caught:
            read(settings, evaluation=EvaluationSettings())
        refusals.append(str(caught.value))
    assert refusals[0] == refusals[1]


def test_embeddings_stand_for_a_set_with_a_name_and_change_a_trial(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1797, 3)))
    config = with_changes(TrialConfig(), {"data.embeddings": str(tmp_path / "x.npy")})
    public = load_data(config.data).public
    assert public.train_features.shape == (1438, 3)
    assert public.provenance.league is League.NOT_STATED
    changed = config_hash(config, data_fingerprint="f")
    assert changed != config_hash(TrialConfig(), data_fingerprint="f")
