"""Where a user's own data lie and what they say of them: files, columns, the split, the classes.

>>> OwnSource(path="mine.csv", label_column="bought", drop=("id",), classes=("no", "yes")).classes
('no', 'yes')
>>> OwnSource(path="X.npy")
Traceback (most recent call last):
    ...
ValueError: X.npy holds features alone; name the file of their labels: data.labels=FILE.npy
"""

import os
from dataclasses import dataclass
from pathlib import Path

from labeldp.mechanisms import _validate
from labeldp.trainers.data_sets.own_rows import HoldOut, StatedClasses

#: A file of one array: features in one, labels in another.
ONE_ARRAY = ".npy"


@dataclass(frozen=True, kw_only=True)
class OwnSource:
    """The user's own data.

    Attributes:
        path: A file of features and labels, or an `.npy` of features alone.
        labels: The `.npy` of labels that goes with an `.npy` of features.
        label_column: Which column of a table holds the labels; `label` if not given.
        split_column: Which column, or array of an `.npz`, says `train` or `test`; `split` if not
            given, where there is one.
        drop: Columns of a table that are left out.
        test_path: A second file of the same kind, whose rows are for testing: **its labels are
            public**.
        test_labels: The labels that go with it, where it is an `.npy`; public as well.
        hold_out: What becomes of labels for testing where nothing of the above says it.
        hold_out_seed: Which rows PUBLIC holds out; public.
        classes: How many there are, or their names in order.
    """

    path: str | os.PathLike[str] | None = None
    labels: str | os.PathLike[str] | None = None
    label_column: str | None = None
    split_column: str | None = None
    drop: tuple[str, ...] = ()
    test_path: str | os.PathLike[str] | None = None
    test_labels: str | os.PathLike[str] | None = None
    hold_out: HoldOut | None = None
    hold_out_seed: int = 0
    classes: StatedClasses | None = None

    def __post_init__(self) -> None:
        """Check that what is named goes together."""
        _validate.whole(hold_out_seed=self.hold_out_seed)
        if self.hold_out_seed and self.hold_out is not HoldOut.PUBLIC:
            raise ValueError(
                f"data.hold_out_seed is {self.hold_out_seed}, but no rows are held out at random; "
                "say data.hold_out=public, or leave the seed out"
            )
        if self.test_labels is not None and self.test_path is None:
            raise ValueError(
                f"data.test_labels is {self.test_labels}, but data.test_path names no file of "
                "features that they belong to"
            )
        _check_pair(self.path, self.labels, key="data.labels", of="data.path")
        _check_pair(self.test_path, self.test_labels, key="data.test_labels", of="data.test_path")
        if self.test_path is not None and self.hold_out is not None:
            raise ValueError(
                f"data.hold_out is {self.hold_out}, but data.test_path={self.test_path} brings a "
                "public test split; leave one of them out"
            )


def _check_pair(
    features: str | os.PathLike[str] | None,
    labels: str | os.PathLike[str] | None,
    *,
    key: str,
    of: str,
) -> None:
    """Refuse an `.npy` without its second file, and a second file without an `.npy`."""
    single = features is not None and Path(features).suffix == ONE_ARRAY
    if single and labels is None:
        raise ValueError(
            f"{features} holds features alone; name the file of their labels: {key}=FILE.npy"
        )
    if labels is not None and not single:
        raise ValueError(
            f"{key} is {labels}, but {of} is {features}; a second file of labels goes with "
            "features in an .npy, and every other file holds its labels itself"
        )
