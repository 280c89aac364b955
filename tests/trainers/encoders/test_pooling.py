"""pooling: vectors as they are, sequences and maps on the user's word only."""

import pytest
import torch

from labeldp.trainers.encoders.encoder import Pool, vectors_of


def test_vectors_and_maps_of_one_place_are_vectors() -> None:
    assert vectors_of(torch.ones(2, 3), pool=None, encoder="e").shape == (2, 3)
    assert vectors_of(torch.ones(2, 3, 1, 1), pool=None, encoder="e").shape == (2, 3)


def test_what_is_taken_of_a_sequence() -> None:
    sequence = torch.arange(12.0).view(1, 3, 4)
    assert vectors_of(sequence, pool=Pool.CLS, encoder="e").tolist() == [[0, 1, 2, 3]]
    assert vectors_of(sequence, pool=Pool.MEAN, encoder="e").tolist() == [[4, 5, 6, 7]]
    maps = sequence.view(1, 3, 2, 2)
    assert vectors_of(maps, pool=Pool.MEAN, encoder="e").tolist() == [[1.5, 5.5, 9.5]]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (torch.ones(2, 197, 768), r"shape \(2, 197, 768\) .* sequences of 197 vectors .* --pool"),
        (torch.ones(2, 8, 7, 7), r"8 maps of 7 x 7.* --pool mean"),
        (torch.ones(2), r"shape \(2,\)"),
        (torch.tensor(1.0), r"shape \(\) for 0 images"),
        (torch.ones(2, 3, dtype=torch.int64), "torch.int64"),
        ((torch.ones(2, 3),), "a tuple and not a tensor"),
    ],
)
def test_anything_else_is_refused_with_its_shape(output: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)e returns .*{message}"):
        vectors_of(output, pool=None, encoder="e")
