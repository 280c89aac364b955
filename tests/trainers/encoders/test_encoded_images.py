"""encoded_images: what steps share that hold an encoder."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from labeldp.trainers.encoders.encoded_images import EncodedImages
from labeldp.trainers.models.features import PatchStep
from labeldp.trainers.models.patches import RandomPatchStep


@dataclass(frozen=True)
class Flat:
    """Projects all pixels."""

    projection: Tensor | None

    def __call__(self, images: Tensor) -> Tensor:
        assert self.projection is not None
        return images.flatten(1).float() @ self.projection


def test_rows_of_any_kind_are_encoded_and_the_shape_is_known() -> None:
    step = EncodedImages(encoder=Flat(torch.eye(12)[:, :5]))
    rows = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
    assert step(rows).tolist() == [[0, 1, 2, 3, 4], [12, 13, 14, 15, 16]]
    assert step.shape == tuple(step(rows).shape[1:])


def test_an_encoder_that_is_not_fitted_has_no_shape() -> None:
    with pytest.raises(AssertionError, match="it is fitted"):
        _ = EncodedImages(encoder=Flat(None)).shape


@pytest.mark.parametrize("kind", [PatchStep, RandomPatchStep])
def test_both_steps_of_patches_are_such(kind: type) -> None:
    assert issubclass(kind, EncodedImages)
