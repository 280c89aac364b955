"""own_features: rows of any scale come out alike; what is made of which file is tried elsewhere."""

import numpy as np
import pytest

from labeldp.trainers.data_sets.own_features import LARGEST_SQUARED_NORM, prepared


@pytest.mark.parametrize("width", [3, 64, 65, 768])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e6])
def test_no_row_is_longer_on_average_than_stated(width: int, scale: float) -> None:
    random = np.random.default_rng(0)
    matrix = scale * random.normal(1, 2, (300, width))
    found = prepared(matrix, matrix[:5], where="X")
    squared = float((found.train.astype(float) ** 2).sum(1).mean())
    assert squared == pytest.approx(min(width, LARGEST_SQUARED_NORM), rel=1e-4)
    assert found.preprocessing is not None
    np.testing.assert_array_equal(found.preprocessing(matrix), found.train)


def test_columns_that_never_change_do_not_count() -> None:
    random = np.random.default_rng(0)
    matrix = np.concatenate([random.normal(0, 2, (300, 60)), np.full((300, 100), 7.0)], axis=1)
    found = prepared(matrix, matrix[:5], where="X")
    assert float((found.train.astype(float) ** 2).sum(1).mean()) == pytest.approx(60, rel=1e-4)


def test_columns_with_names_are_scaled_as_those_without() -> None:
    random = np.random.default_rng(0)
    matrix = random.normal(1, 2, (300, 200))
    columns = {f"x{place}": column for place, column in enumerate(matrix.T)}
    named = prepared(columns, {name: column[:5] for name, column in columns.items()}, where="X")
    np.testing.assert_allclose(
        named.train, prepared(matrix, matrix[:5], where="X").train, rtol=1e-5, atol=1e-7
    )


def test_text_becomes_one_hot() -> None:
    found = prepared({"a": np.array(["x", "y"])}, {"a": np.array(["y", "z"])}, where="X")
    assert found.train.tolist() == [[1, 0], [0, 1]] and found.test.tolist() == [[0, 1], [0, 0]]
