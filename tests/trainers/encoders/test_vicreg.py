"""The loss, against its formulas written out, and what it is there to prevent."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.trainers.encoders.pretraining import concern, vicreg

WEIGHTS = {"invariance": 25.0, "variance": 25.0, "covariance": 1.0}
FIRST, SECOND = torch.randn(2, 30, 5, generator=torch.Generator().manual_seed(0)).unbind(0)


def plainly(first: NDArray[Any], second: NDArray[Any], **weights: float) -> float:
    """Equations 1 to 6 of the paper, number by number."""
    count, dimensions = first.shape
    apart = sum(((first[b] - second[b]) ** 2).sum() for b in range(count)) / count / dimensions
    spread = common = 0.0
    for rows in (first, second):
        for d in range(dimensions):
            deviation = np.sqrt(rows[:, d].var(ddof=1) + 1e-4)
            spread += max(0.0, 1 - deviation) / dimensions / 2
        covariances = np.cov(rows.T)
        for d in range(dimensions):
            for other in range(dimensions):
                common += covariances[d, other] ** 2 / dimensions if d != other else 0.0
    parts = {"invariance": apart, "variance": spread, "covariance": common}
    return float(sum(weights[name] * part for name, part in parts.items()))


def test_it_is_the_papers() -> None:
    found = vicreg(0.5 * FIRST, SECOND, **WEIGHTS)
    wanted = plainly(0.5 * FIRST.double().numpy(), SECOND.double().numpy(), **WEIGHTS)
    assert abs(float(found) - wanted) < 1e-4 * wanted


def test_the_loss_of_descriptions_that_are_all_the_same() -> None:
    same = torch.full((30, 5), 0.3)
    assert "same vector for every image has 24.75" in str(concern([9.0, 24.75], variance=25.0))
    assert abs(float(vicreg(same, same, **WEIGHTS)) - 24.75) < 1e-5


@pytest.mark.parametrize(
    "losses",
    [
        [],
        [30.0],  # of one epoch nothing can be said
        [21.0, 18.6, 16.4],
        [22.58, 23.43, 21.68, 22.59, 21.89, 21.01, 22.19, 21.63, 21.79, 21.35],
        [20.84, 20.17, 19.54, 19.68, 19.46, 19.24, 19.29, 19.26],
        [40.0, 24.0],
    ],
)
def test_losses_that_fall_are_passed_in_silence(losses: list[float]) -> None:
    assert concern(losses, variance=25.0) is None


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([21.0, 21.5], "it was 21 in epoch 1, 21 at its lowest in epoch 1, and is 21.5 in epoch 2"),
        ([21.0, 21.0], "the loss does not fall"),
        ([22.0, 18.0, 20.5], "18 at its lowest in epoch 2, and is 20.5 in epoch 3"),
        ([22.0, 24.75, 24.75], "is 24.75 in epoch 3, and one with the same vector for every image"),
        (
            [658181.88, 11403.86, 301902.25],
            "tells images apart: its loss is 301902 in epoch 3",
        ),
    ],
)
def test_losses_that_do_not_are_told_with_cause_and_way_out(
    losses: list[float], words: str
) -> None:
    said = concern(losses, variance=25.0)
    assert said is not None and words in said
    assert "learning rate that is too high" in said
    assert "--learning-rate" in said and "--batch-size" in said and "--replace" in said


def test_where_variance_has_no_weight_a_constant_is_no_yardstick() -> None:
    assert concern([3.0, 1.0], variance=0.0) is None
    assert concern([1.0, 3.0], variance=0.0) is not None
