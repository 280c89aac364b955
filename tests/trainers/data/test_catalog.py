"""A data set is one record: with it in the catalog the set is fetched, checked, listed and read."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli.data_sets import entries
from labeldp.trainers.data.catalog import DATASETS, DataSet, Layout, PublishedFile, fetch
from labeldp.trainers.data.files import read_lines
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.splits import Splits, held_out

CONTENT = "".join(f"{label},{10 * label + 1}\n" for label in [0, 1, 1, 0] * 5)


def read_coins(root: Path) -> Splits:
    rows = np.array([line.split(",") for line in read_lines(root / "coins/all.csv")], dtype=float)
    features, labels = rows[:, 1:].astype(np.float32), rows[:, 0].astype(np.int64)
    test = held_out(len(rows))
    return Splits(
        train_features=features[~test],
        train_labels=labels[~test],
        test_features=features[test],
        test_labels=labels[test],
        num_classes=2,
    )


def write_files(root: Path, files: Sequence[PublishedFile]) -> None:
    """What a download does, without a network."""
    for file in files:
        (root / file.path).parent.mkdir(parents=True, exist_ok=True)
        (root / file.path).write_text(CONTENT)


COINS = DataSet(
    name="coins",
    description="20 tossed coins",
    layouts=(
        Layout(
            folder="coins",
            files=(
                PublishedFile(
                    path="coins/all.csv",
                    size=len(CONTENT),
                    md5=hashlib.md5(CONTENT.encode()).hexdigest(),
                ),
            ),
            read=read_coins,
        ),
    ),
    download=write_files,
)


def test_one_record_is_all_that_a_data_set_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(DATASETS, "coins", COINS)
    (entry,) = (entry for entry in entries(tmp_path) if entry["name"] == "coins")
    assert not entry["present"] and entry["command"] == "labeldp data fetch coins"
    assert fetch("coins", tmp_path) == tmp_path / "coins"
    assert COINS.check(tmp_path) == []
    data = load("coins", root=tmp_path)
    assert data.public.train_features.shape == (16, 1) and len(data.public.test_labels) == 4
    np.testing.assert_array_equal(data.train_labels, data.public.train_features[:, 0] > 5)
    (tmp_path / "coins/all.csv").write_text(CONTENT.replace("11", "12"))
    assert "has MD5" in COINS.check(tmp_path)[0]


def test_a_record_says_how_people_get_the_set_by_one_way() -> None:
    with pytest.raises(ValueError, match="coins has neither of download and by_hand"):
        replace(COINS, download=None)
    with pytest.raises(ValueError, match="coins has both of download and by_hand"):
        replace(COINS, by_hand="toss them")
    assert replace(COINS, download=None, by_hand="toss them").command == "toss them"


def test_the_layout_that_is_there_in_part_is_the_one_that_is_named(tmp_path: Path) -> None:
    whole = COINS.layouts[0].files[0]
    two = tuple(replace(whole, path=f"parts/{number}.csv") for number in (1, 2))
    both = replace(COINS, layouts=(Layout(folder="parts", files=two, read=read_coins),))
    write_files(tmp_path, two[:1])
    either = replace(both, layouts=(*both.layouts, *COINS.layouts))
    assert not either.available(tmp_path)
    assert "parts or coins" in either.what_is_missing(tmp_path)
    assert "parts/2.csv is missing" in both.what_is_missing(tmp_path)
    write_files(tmp_path, two)
    assert either.layout(tmp_path) is both.layouts[0]
