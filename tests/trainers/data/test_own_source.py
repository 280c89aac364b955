"""own_source: what is named goes together; the settings' own test tries what does not."""

import pytest

from labeldp.trainers.data.own_files import HoldOut, OwnSource


def test_files_that_go_together() -> None:
    OwnSource(path="X.npy", labels="y.npy", test_path="T.npy", test_labels="t.npy")
    OwnSource(path="a.csv", test_path="b.csv", drop=("id",))
    OwnSource(path="a.parquet", hold_out=HoldOut.PUBLIC, hold_out_seed=3)


def test_a_seed_is_a_whole_number() -> None:
    with pytest.raises(ValueError, match="hold_out_seed"):
        OwnSource(path="a.csv", hold_out=HoldOut.PUBLIC, hold_out_seed=-1)
