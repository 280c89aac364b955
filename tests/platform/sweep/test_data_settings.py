"""data_settings: what is said of own files goes together, and to own files only."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.sweep.configuration import (
    DataSettings,
    TrialConfig,
    config_hash,
    with_changes,
)
from labeldp.platform.sweep.driver import load_data
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.encoders.provenance import League


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("labels", "y.npy"),
        ("split_column", "part"),
        ("drop", "id"),
        ("test_path", "t.csv"),
        ("test_labels", "t.npy"),
        ("hold_out_seed", 3),
        ("label_column", "y"),
        ("classes", "2"),
    ],
)
def test_keys_of_own_files_are_refused_elsewhere(key: str, value: str | int) -> None:
    config = with_changes(TrialConfig(), {f"data.{key}": value})
    with pytest.raises(ValueError, match=f"data.{key}: for data of your own, but data.name is dig"):
        load_data(config.data)
    changed = config_hash(config, data_fingerprint="f")
    assert changed != config_hash(TrialConfig(), data_fingerprint="f")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "X.npy"}, r"data\.labels=FILE\.npy"),
        ({"path": "X.csv", "labels": "y.npy"}, "holds its labels itself"),
        ({"path": "a.csv", "test_labels": "t.npy"}, "data.test_path names no file"),
        ({"path": "X.npy", "labels": "y.npy", "test_path": "T.npy"}, "data.test_labels=FILE"),
        ({"path": "a.csv", "test_path": "b.csv", "hold_out": HoldOut.NONE}, "leave one of them"),
        ({"path": "a.csv", "hold_out_seed": 1}, "say data.hold_out=public"),
        ({"path": "a.csv", "hold_out_seed": 1, "hold_out": HoldOut.NONE}, "no rows are held out"),
    ],
)
def test_what_does_not_go_together(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_data(DataSettings(name="own", **settings))  # type: ignore[arg-type]


def test_embeddings_are_for_sets_with_a_name_and_change_a_trial(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1797, 3)))
    config = with_changes(TrialConfig(), {"data.embeddings": str(tmp_path / "x.npy")})
    public = load_data(config.data).public
    assert public.train_features.shape == (1438, 3)
    assert public.provenance.league is League.NOT_STATED
    changed = config_hash(config, data_fingerprint="f")
    assert changed != config_hash(TrialConfig(), data_fingerprint="f")
    own = DataSettings(name="own", path="X.npy", labels="y.npy", embeddings="x.npy")
    with pytest.raises(ValueError, match="embeddings of your own images are your features"):
        load_data(own)
