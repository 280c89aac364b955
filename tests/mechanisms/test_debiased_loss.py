"""Debiased loss: its exact expectation over randomized response is the loss on the true labels."""

import math

import numpy as np
import pytest
import torch

from labeldp.mechanisms.randomized_response import (
    RandomizedResponse,
    debiased_loss,
    debiased_loss_weights,
)


@pytest.mark.parametrize("num_classes", [2, 10])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0, 50.0])
def test_the_expectation_is_the_loss_on_the_true_label(num_classes: int, epsilon: float) -> None:
    losses = np.random.default_rng(1).exponential(size=num_classes)
    mechanism = RandomizedResponse(epsilon=epsilon, num_classes=num_classes)
    outputs = np.arange(num_classes)
    # likelihood[o, y] = Pr[output o | label y]; one loss for every output that may come
    likelihood = np.exp(mechanism.log_likelihood(outputs))
    estimates = debiased_loss(np.tile(losses, (num_classes, 1)), outputs, epsilon=epsilon)
    np.testing.assert_allclose(likelihood.T @ estimates, losses, rtol=1e-9, atol=1e-9)


def test_weights_are_those_of_the_paper_and_survive_extremes() -> None:
    epsilon, num_classes = 1.7, 5
    mixing = num_classes / (math.exp(epsilon) + num_classes - 1)
    own, shared = debiased_loss_weights(epsilon=epsilon, num_classes=num_classes)
    assert own == pytest.approx(1 / (1 - mixing))
    assert shared == pytest.approx(mixing / num_classes / (1 - mixing))
    assert debiased_loss_weights(epsilon=1000.0, num_classes=5) == (1.0, 0.0)
    own, shared = debiased_loss_weights(epsilon=1e-12, num_classes=5)
    assert own == pytest.approx(5e12) and own - 5 * shared == pytest.approx(1.0, abs=1e-2)


def test_gradients_flow_and_tensors_agree_with_arrays() -> None:
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    noisy = torch.tensor([0, 1, 2, 3, 0, 1])
    losses = -logits.log_softmax(1)
    estimates = debiased_loss(losses, noisy, epsilon=1.0)
    expected = debiased_loss(losses.detach().numpy(), noisy.numpy(), epsilon=1.0)
    np.testing.assert_allclose(estimates.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    estimates.sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None and bool((logits.grad != 0).all())


def test_bad_input_is_refused() -> None:
    losses = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"must be \[N, K\] and \[N\]"):
        debiased_loss(losses, np.array([0]), epsilon=1.0)
    with pytest.raises(ValueError, match=r"noisy_labels\[1\] is 3"):
        debiased_loss(losses, np.array([0, 3]), epsilon=1.0)
    with pytest.raises(ValueError, match=r"noisy_labels\[1\] is -1"):
        debiased_loss(torch.ones(2, 3), torch.tensor([0, -1]), epsilon=1.0)
    for epsilon in (0.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon is"):
            debiased_loss(losses, np.array([0, 1]), epsilon=epsilon)
