"""Convex references: unbiased gradients, the papers' algorithms, the ball, refusals."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from torch.nn import functional

from labeldp.trainers.methods.convex import label_variance, unbiased_labels
from labeldp.trainers.settings.methods import ConvexConfig, Iterate, Noise
from tests.trainers.small_data import digits, trained

DRAWS = 100_000
WEIGHTS, FEATURES = (
    np.random.default_rng(5).normal(size=(3, 4)),
    np.random.default_rng(6).normal(size=3),
)


def gradients() -> NDArray[np.float64]:
    """Gradient of cross-entropy for each of the K labels [K, D, K], by differentiation."""
    result = []
    for label in range(4):
        parameters = torch.tensor(WEIGHTS, requires_grad=True)
        loss = functional.cross_entropy(
            (torch.tensor(FEATURES) @ parameters)[None], torch.tensor([label])
        )
        (gradient,) = torch.autograd.grad(loss, [parameters])
        result.append(gradient.numpy())
    return np.stack(result)


@pytest.mark.parametrize("noise", [noise for noise in Noise if noise is not Noise.OPTIMAL])
def test_the_gradient_is_unbiased_and_varies_as_stated(noise: Noise) -> None:
    """Over 100,000 draws every entry lies within 5 standard errors of the exact gradient."""
    mechanism = ConvexConfig(noise=noise, epsilon=1.0).mechanism(4)
    released = mechanism.release(np.full(DRAWS, 2), generator=np.random.default_rng(0))
    estimates = unbiased_labels(released, mechanism)
    assert estimates.dtype == np.float32 and estimates.shape == (DRAWS, 4)
    np.testing.assert_allclose(estimates.sum(1), 1, atol=1e-4)
    assert estimates.var(0).sum() == pytest.approx(label_variance(mechanism), rel=0.02)
    drawn = FEATURES[:, None] * (softmax(FEATURES @ WEIGHTS) - estimates)[:, None, :]
    error = drawn.std(0) / math.sqrt(DRAWS) + 1e-7
    exact = gradients()[2]
    assert (np.abs(drawn.mean(0) - exact) < 5 * error).all()
    # The test can tell: the raw release in place of the estimate is off by far.
    if noise is Noise.RANDOMIZED_RESPONSE:
        raw = FEATURES[:, None] * (softmax(FEATURES @ WEIGHTS) - np.eye(4)[released])[:, None, :]
        assert (np.abs(raw.mean(0) - exact) > 20 * raw.std(0) / math.sqrt(DRAWS)).all()


@pytest.mark.parametrize("iterate", list(Iterate))
def test_a_pass_is_the_algorithm_step_by_step(iterate: Iterate) -> None:
    """A plain loop: K gradients per example, Eq. (7), the theorem's steps, the projection."""
    data, vault = digits(train=60)
    config = ConvexConfig(epsilon=2.0, batch_size=1, diameter=4.0, iterate=iterate)
    trainer = trained(config, (data, vault), epochs=0, seed=3)
    metrics = trainer.epoch()
    images = data.train_features.double().flatten(1) / 255
    scaled = (images - data.mean[0]) / data.std[0]
    features = np.concatenate([scaled.numpy(), np.ones((60, 1))], axis=1)
    features /= math.sqrt((features**2).sum(1).mean())
    noisy = vault.release(config.mechanism(10)).values
    growth, keep = math.exp(2.0), math.exp(2.0) / (math.exp(2.0) + 9)
    factor = (growth + 9) / (growth - 1)
    moment = 2 + factor**2 * (1 - keep**2 - 9 * ((1 - keep) / 9) ** 2)
    weights, average, loss = np.zeros((65, 10)), np.zeros((65, 10)), 0.0
    projected = 0
    for step, row in enumerate(np.random.default_rng([3, 0]).permutation(60), start=1):
        log_p = log_softmax(features[row] @ weights)
        loss += factor * (-log_p[noisy[row]] + log_p.sum() / (growth + 9))
        each = [np.outer(features[row], np.exp(log_p) - np.eye(10)[k]) for k in range(10)]
        gradient = factor * (each[noisy[row]] - sum(each) / (growth + 9))
        weights = weights - 4.0 / math.sqrt(moment * step) * gradient
        norm = float(np.linalg.norm(weights))
        projected += int(norm > 2)
        weights *= min(1.0, 2 / norm)
        average += weights
    assert 0 < projected < 60
    expected = weights if iterate is Iterate.LAST else average / 60
    np.testing.assert_allclose(trainer.weights, expected, atol=1e-5)
    assert metrics.loss == pytest.approx(loss / 60, rel=1e-5)
    predicted = trainer.predict(data.train_features)
    np.testing.assert_allclose(predicted, softmax(features @ expected, axis=1), atol=1e-5)
