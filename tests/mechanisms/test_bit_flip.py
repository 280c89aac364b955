"""BitFlip: exact privacy, Bayes' rule by enumeration, an unbiased estimate."""

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.bit_flip import BitFlip


def every_outcome(mechanism: BitFlip) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """All bit vectors [2^K, K] and the probability of each given every label [2^K, K]."""
    num_classes, q = mechanism.num_classes, mechanism.flip_probability
    bits = np.array(list(itertools.product([0, 1], repeat=num_classes)), dtype=np.uint8)
    wrong = bits[:, None, :] != np.eye(num_classes, dtype=np.uint8)[None]
    return bits, np.where(wrong, q, 1 - q).prod(axis=2)


def test_log_likelihood_is_the_enumerated_one_up_to_a_constant_of_each_row() -> None:
    mechanism = BitFlip(epsilon=1.3, num_classes=4)
    bits, probability = every_outcome(mechanism)
    difference = mechanism.log_likelihood(bits) - np.log(probability)
    np.testing.assert_allclose(difference, np.broadcast_to(difference[:, :1], difference.shape))


def test_bad_input_is_refused() -> None:
    for epsilon in (0.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon is"):
            BitFlip(epsilon=epsilon, num_classes=3)
    with pytest.raises(ValueError, match="num_classes is 1"):
        BitFlip(epsilon=1.0, num_classes=1)
    mechanism = BitFlip(epsilon=1.0, num_classes=3)
    with pytest.raises(ValueError, match=r"labels\[0\] is not one of"):
        mechanism.release(np.array([3]), generator=np.random.default_rng())
    with pytest.raises(ValueError, match=r"must be \[N, 3\]"):
        mechanism.log_likelihood(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="bits row 1"):
        mechanism.log_likelihood(np.array([[0, 1, 0], [0, 2, 0]]))
    with pytest.raises(ValueError, match="bits row 0"):
        mechanism.log_likelihood(torch.tensor([[0.0, math.nan, 1.0]]))
