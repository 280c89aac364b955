"""own_labels: text and values as places among the classes."""

import numpy as np
import pytest

from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.own_data import label_numbers, places_among


def numbers(labels: list[str], names: tuple[str, ...] | None = None) -> list[int]:
    found = label_numbers(np.array(labels), names, where="mine.csv", column="column 'y'")
    return [int(place) for place in found]


def test_names_come_before_numbers() -> None:
    assert numbers(["2", "1"], ("1", "2")) == [1, 0]
    assert numbers(["1", "0"], ("no", "yes")) == [1, 0]
    assert numbers([" 1", "-3"]) == [1, -3]
    assert label_numbers(np.array([5.5]), None, where="x", column="y").tolist() == [5.5]


@pytest.mark.parametrize("text", ["1.0", "", "--1", "1-", "9" * 19, "1e3", "²"])
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(DataFileError, match=r"row 1 is the first that is not a whole number"):
        numbers(["0", text])


def test_values_that_can_not_be_compared_are_none_of_the_classes() -> None:
    assert places_among([2, 1.0, np.int64(2)], [1, 2]).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match=r"y row 1 is none of the stated classes 1, 2 \(2 of 3"):
        places_among([1, [2], None], [1, 2])
