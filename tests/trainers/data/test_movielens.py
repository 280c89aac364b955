"""movielens: what a line becomes, who is unknown, and which line is wrong."""

from pathlib import Path

import numpy as np
import pytest
import torch

from labeldp.trainers.data import catalog
from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import DataFileError, DatasetMissing
from labeldp.trainers.data.labelled_data import FeatureKind, load
from labeldp.trainers.data.published import read_movielens
from labeldp.trainers.data.splits import held_out
from tests.trainers.ratings import write_ratings

LINES = ["3::10::5::978300760", "3::20::1::978302109", "9::10::3::978301968"]


def write_lines(root: Path, lines: list[str]) -> Path:
    folder = root / "ml-1m"
    folder.mkdir(exist_ok=True)
    (folder / "ratings.dat").write_text("\n".join(lines) + "\n")
    return folder


def test_every_rating_comes_out_once_and_as_it_was_written(tmp_path: Path) -> None:
    path = write_ratings(tmp_path, ratings=500)
    splits = read_movielens(path.parent)
    written = np.array([line.split("::") for line in path.read_text().splitlines()], dtype=int)
    test = held_out(500)
    assert splits.num_classes == 5 and splits.class_names == ("1", "2", "3", "4", "5")
    np.testing.assert_array_equal(splits.train_labels, written[~test, 2] - 1)
    np.testing.assert_array_equal(splits.test_labels, written[test, 2] - 1)
    for column in (0, 1):
        known = sorted(set(written[~test, column]))
        place = {name: known.index(name) + 1 for name in known}
        for rows, features in ((~test, splits.train_features), (test, splits.test_features)):
            expected = [place.get(name, 0) for name in written[rows, column]]
            np.testing.assert_array_equal(features[:, column], expected)


def test_users_and_movies_that_training_never_saw_are_place_0(tmp_path: Path) -> None:
    test = held_out(40)
    lines = [
        f"{1000 if test[i] else 5}::{(2, 2000)[i % 2] if test[i] else 7}::{i % 5 + 1}::0"
        for i in range(40)
    ]
    splits = read_movielens(write_lines(tmp_path, lines))
    assert (splits.train_features == 1).all()
    assert (splits.test_features == 0).all()


def test_as_a_data_set_it_holds_identifiers(tmp_path: Path) -> None:
    write_ratings(tmp_path)
    data = load("movielens_1m", root=tmp_path)
    assert data.public.kind is FeatureKind.IDENTIFIERS
    assert data.public.train_features.dtype == torch.int64
    assert data.public.cardinalities == (101, 61)
    assert data.public.mean == data.public.std == ()
    few = load("movielens_1m", root=tmp_path, limit=50).public
    assert len(few.train_features) == 50 and few.fingerprint != data.public.fingerprint


def test_where_it_is_not_there_the_message_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing, match=r"ratings\.dat is missing.*curl .*ml-1m\.zip"):
        load("movielens_1m", root=tmp_path)
    with pytest.raises(ValueError, match=r"can't be fetched: curl .*grouplens\.org"):
        catalog.fetch("movielens_1m", tmp_path)
    write_ratings(tmp_path)
    assert any(
        "the published file 24,594,131" in text for text in find("movielens_1m").check(tmp_path)
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "line 3 is empty; a line holds one rating, user::movie::stars::seconds"),
        ("   ", "line 3 is empty"),
        ("3::20::4", "line 3 has 3 of the 4 columns user::movie::stars::seconds; one is missing"),
        ("3,20,4,978302109", "line 3 has 1 of the 4 columns.*commas"),
        ("3::20::4::978302109::x", "line 3 has 5 columns; there are 4"),
        ("3::20::6::978302109", "line 3 has an unknown rating; MovieLens-1M knows 1, 2, 3, 4, 5"),
        ("3::20::0::978302109", "line 3 has an unknown rating"),
        ("3::20::3.5::978302109", "line 3 has an unknown rating.*half stars.*data.name=own"),
        ("3::20::::978302109", "line 3 has an unknown rating"),
        ("ann::20::4::978302109", "line 3 has user 'ann' and movie '20'; both must be whole"),
        ("3::-2::4::978302109", "line 3 has user '3' and movie '-2'"),
        (f"3::{'9' * 20}::4::978302109", "line 3 has user 3 and movie 9{20}; numbers have 18"),
    ],
)
def test_a_bad_line_is_named_and_its_rating_is_not_shown(
    tmp_path: Path, line: str, message: str
) -> None:
    folder = write_lines(tmp_path, [*LINES[:2], line, LINES[2]])
    with pytest.raises(DataFileError, match=message) as caught:
        read_movielens(folder)
    assert str(folder / "ratings.dat") in str(caught.value)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_ratings(tmp_path: Path, count: int) -> None:
    folder = write_lines(tmp_path, LINES[:count])
    if not count:
        (folder / "ratings.dat").write_text("")
    with pytest.raises(DataFileError, match=f"holds {count} ratings"):
        read_movielens(folder)
