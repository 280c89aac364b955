"""raw_row_files: a matrix in a `.csv` has a header or none; the rest is tried by `predict`."""

from pathlib import Path

import numpy as np
import pytest
import torch

from labeldp.platform.cli.raw_row_files import read_rows
from labeldp.trainers.data.columns import Numbers
from labeldp.trainers.data.labelled_data import load_own
from labeldp.trainers.data.own_files import HoldOut, OwnSource
from labeldp.trainers.data.preprocessing import Preprocessing

MATRIX = np.array([[1.0, 2.5], [3.0, -4.0]])
PREPROCESSING = Preprocessing(steps=(Numbers.fit(MATRIX),))


@pytest.mark.parametrize("header", ["", "width,height\n"])
def test_a_matrix_with_and_without_a_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}1.0,2.5\n3,-4\n")
    features = PREPROCESSING(read_rows(str(path), PREPROCESSING))
    assert (features == PREPROCESSING(MATRIX)).all()


def test_a_number_that_is_missing_becomes_the_median(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("1.0,2.5\n3,\n")
    features = PREPROCESSING(read_rows(str(path), PREPROCESSING))
    assert (features == PREPROCESSING([[1.0, 2.5], [3.0, (2.5 - 4.0) / 2]])).all()


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_training_file_read_again_gives_its_features(tmp_path: Path, mark: str) -> None:
    lines = ["id,size,member,city,when,label"]
    lines += [
        f"p{i},{i * i if i != 9 else ''},{i % 3 == 0},{' c' * (i % 4)},2026-01-{11 + i},{i % 2}"
        for i in range(20)
    ]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines).replace(",", mark).replace("True", "true"))
    source = OwnSource(path=path, hold_out=HoldOut.NONE, classes=2)
    public = load_own(source).public
    again = public.preprocessing(read_rows(str(path), public.preprocessing))
    assert torch.equal(again, public.train_features)
    # A number with an indicator, two truth values, four texts of which one is missing, a date.
    assert again.shape == (20, 2 + 2 + 4 + 1)
    assert again[:, 2:8].sum() == 20 * 2  # every category is known
    assert again[:, 1].nonzero().tolist() == [[9]]
