"""The loss, against its formulas written out, and what it is there to prevent."""

from typing import Any

import numpy as np
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
