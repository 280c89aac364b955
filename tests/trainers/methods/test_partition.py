"""Parts of the labels: disjoint, complete, public, and refused where they make no sense."""

import inspect

import numpy as np
import pytest

from labeldp.trainers.methods.lp_mst import partition
from labeldp.trainers.settings.methods import LpMstConfig


@pytest.mark.parametrize("shares", [(1.0,), (0.65, 0.35), (0.5, 0.3, 0.2), (0.1,) * 10])
def test_parts_are_disjoint_and_complete(shares: tuple[float, ...]) -> None:
    parts = partition(997, shares=shares, seed=3)
    together = np.concatenate(parts)
    assert sorted(together.tolist()) == list(range(997))
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - 997 * share) <= 1
        assert (np.diff(part) > 0).all()


def test_a_partition_that_depends_on_labels_cannot_be_asked_for() -> None:
    """The cut gets a count, shares and a seed: there is no way to hand it labels."""
    assert list(inspect.signature(partition).parameters) == ["num_examples", "shares", "seed"]
    with pytest.raises(ValueError, match="num_examples is array"):
        partition(np.array([0, 1, 1]), shares=(0.5, 0.5), seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shares", "stages", "message"),
    [
        ((0.5, 0.4), 2, "sum to 0.9"),
        ((), 2, "0 shares"),
        ((0.5, 0.3, 0.2), 2, "3 shares"),
        ((1.0, 0.0), 2, "splits is .*above 0"),
        (None, 0, "stages is 0"),
    ],
)
def test_bad_shares(shares: tuple[float, ...] | None, stages: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LpMstConfig(splits=shares, stages=stages)


def test_a_part_without_examples_is_refused() -> None:
    with pytest.raises(ValueError, match=r"splits\[1\] is 0.01, which is less than one of 10"):
        partition(10, shares=(0.99, 0.01), seed=0)
