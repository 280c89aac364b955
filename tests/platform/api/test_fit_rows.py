"""fit_rows: every kind of X becomes features that its own preprocessing makes again."""

import numpy as np
import pandas as pd
import pytest

from labeldp.platform.api.fit_rows import (
    RowKind,
    all_numbers,
    columns_of,
    digest_of,
    kind_of,
    names_of,
    public_rows,
)

GENERATOR = np.random.default_rng(0)
NUMBERS = GENERATOR.normal(size=(50, 4)) * [1, 1e6, 1e-6, 0] + 3
TABLE = pd.DataFrame({"age": np.arange(50.0), "city": ["Bern", "Rome"] * 25})
SMALL = GENERATOR.integers(0, 255, size=(50, 8, 8), dtype=np.uint8)
LARGE = GENERATOR.integers(0, 255, size=(50, 20, 20, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("rows", "kind", "steps"),
    [
        (NUMBERS, RowKind.NUMBERS, ["numbers", "scaled"]),
        (TABLE, RowKind.NAMED, ["columns", "scaled"]),
        (SMALL, RowKind.IMAGES, ["images"]),
        (LARGE, RowKind.IMAGES, ["images", "patches"]),
    ],
    ids=["numbers", "table", "small images", "large images"],
)
def test_rows_are_prepared_and_prepared_alike_again(
    rows: object, kind: RowKind, steps: list[str]
) -> None:
    data = public_rows(rows, num_classes=3)
    assert kind_of(rows) is kind
    assert [step.kind for step in data.preprocessing.steps] == steps
    assert (data.preprocessing(rows) == data.train_features).all()
    assert not data.has_test_split
    if data.train_features.ndim == 2:
        assert float(data.train_features.square().sum(1).mean()) == pytest.approx(1.0, rel=1e-4)


def test_digests_tell_rows_apart_to_the_last_bit() -> None:
    def digest(rows: object) -> str:
        return digest_of(public_rows(rows, num_classes=2), rows)

    other = NUMBERS.copy()
    other[7, 1] = np.nextafter(other[7, 1], 2e9)
    assert digest(NUMBERS) == digest(NUMBERS.copy()) != digest(other)
    assert digest(NUMBERS) != digest(NUMBERS[::-1])
    assert digest(TABLE) == digest(TABLE.copy()) != digest(TABLE[::-1])


def test_what_is_no_number_is_seen() -> None:
    assert all_numbers(TABLE[["age"]]) and not all_numbers(TABLE)
    found = columns_of(NUMBERS, ("a", "b", "c", "d"))
    assert list(found) == ["a", "b", "c", "d"] and (found["b"] == NUMBERS[:, 1]).all()


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (pd.DataFrame({"day": [1.0, "x", 2.0]}), "row 1, column 'day' holds a str"),
        (pd.DataFrame({"age": [1.0, np.inf, 2.0]}), "row 1, column 'age' is inf"),
        (SMALL / 255, "they must be uint8"),
    ],
)
def test_rows_that_can_not_be_used_are_named(rows: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        public_rows(rows, num_classes=2)


def test_names_of_rows_may_be_a_column_of_texts() -> None:
    people = pd.Series(["ada", "bob"])
    texts, numbers = names_of(people), names_of(pd.Index([7, 8]))
    assert texts is not None and texts.dtype.kind == "U"
    assert numbers is not None and numbers.tolist() == [7, 8]
    assert names_of(None) is None
    # What may not be a name is refused by whom it is given to, and is not made one here.
    missing = names_of(pd.Series(["ada", None]))
    assert missing is not None and missing.dtype.kind == "O"
