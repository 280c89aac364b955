"""raw_row_files: a matrix in a `.csv` has a header or none; the rest is tried by `predict`."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli.raw_row_files import read_rows
from labeldp.trainers.data_sets.tables import Numbers
from labeldp.trainers.preprocessing import Preprocessing

MATRIX = np.array([[1.0, 2.5], [3.0, -4.0]])
PREPROCESSING = Preprocessing(steps=(Numbers.fit(MATRIX),))


@pytest.mark.parametrize("header", ["", "width,height\n"])
def test_a_matrix_with_and_without_a_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}1.0,2.5\n3,-4\n")
    features = PREPROCESSING(read_rows(str(path), PREPROCESSING))
    assert (features == PREPROCESSING(MATRIX)).all()


def test_a_number_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("1.0,2.5\n3,\n")
    with pytest.raises(ValueError, match="row 1, column 1 is nan"):
        PREPROCESSING(read_rows(str(path), PREPROCESSING))
