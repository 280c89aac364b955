"""Convex references: gradients unbiased and the paper's, the ball, the rate, resuming, prices."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from torch.nn import functional

from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.vault import Release
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.convex import Convex, label_variance, unbiased_labels
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import ConvexConfig, Iterate, Noise
from tests.trainers.tiny_data import SeededSource, digits

ON_CPU = Performance(device=Device.CPU)
PRIVATE = [Noise.RANDOMIZED_RESPONSE, Noise.GAUSSIAN, Noise.LAPLACE, Noise.SUBSET]
DRAWS = 100_000


def started(config: ConvexConfig, given: tuple[PublicData, SeededSource], seed: int = 0) -> Convex:
    data, labels = given
    trainer: Convex = config.start(data=data, labels=labels, seed=seed, performance=ON_CPU)
    return trainer


def gradients(weights: NDArray[Any], features: NDArray[Any]) -> NDArray[np.float64]:
    """Gradient of cross-entropy for each of the K labels [K, D, K], by differentiation."""
    result = []
    for label in range(weights.shape[1]):
        parameters = torch.tensor(weights, requires_grad=True)
        logits = torch.tensor(features) @ parameters
        loss = functional.cross_entropy(logits[None], torch.tensor([label]))
        (gradient,) = torch.autograd.grad(loss, [parameters])
        result.append(gradient.numpy())
    return np.stack(result)


def one_example(classes: int = 4, columns: int = 3) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(5)
    return random.normal(size=(columns, classes)), random.normal(size=columns)


@pytest.mark.parametrize("noise", PRIVATE)
def test_the_gradient_is_unbiased_over_100_000_draws(noise: Noise) -> None:
    """Every entry lies within 5 standard errors of the exact gradient."""
    weights, features = one_example()
    label, config = 2, ConvexConfig(noise=noise, epsilon=1.0)
    mechanism = config.mechanism(4)
    labels = np.full(DRAWS, label)
    released = mechanism.release(labels, generator=np.random.default_rng(0))
    residuals = softmax(features @ weights) - unbiased_labels(released, mechanism)
    drawn = features[:, None] * residuals[:, None, :]
    error = drawn.std(0) / math.sqrt(DRAWS)
    exact = gradients(weights, features)[label]
    assert (np.abs(drawn.mean(0) - exact) < 5 * error).all()
    # The test can tell: the raw release in place of the estimate is off by far.
    if noise is Noise.RANDOMIZED_RESPONSE:
        raw = features[:, None] * (softmax(features @ weights) - np.eye(4)[released])[:, None, :]
        assert (np.abs(raw.mean(0) - exact) > 20 * raw.std(0) / math.sqrt(DRAWS)).all()


def test_randomized_response_gives_equation_7() -> None:
    """(e^eps + K - 1) / (e^eps - 1) (g_z - sum_k g_k / (e^eps + K - 1)), for every z."""
    weights, features = one_example()
    all_gradients, growth = gradients(weights, features), math.exp(0.7)
    mechanism = ConvexConfig(epsilon=0.7).mechanism(4)
    ours = (
        features[:, None]
        * (softmax(features @ weights) - unbiased_labels(np.arange(4), mechanism))[:, None, :]
    )
    total = all_gradients.sum(0) / (growth + 3)
    for noisy in range(4):
        equation = (growth + 3) / (growth - 1) * (all_gradients[noisy] - total)
        np.testing.assert_allclose(ours[noisy], equation, rtol=1e-5, atol=1e-6)


def test_gaussian_noise_is_algorithm_6_with_exact_calibration() -> None:
    """Noise on labels, seen as noise on gradients, is isotropic noise projected on their span."""
    weights, features = one_example()
    mechanism = ConvexConfig(noise=Noise.GAUSSIAN, epsilon=1.0).mechanism(4)
    assert isinstance(mechanism, GaussianNoise)
    span = gradients(weights, features).reshape(4, -1)
    _, sizes, directions = np.linalg.svd(span)
    basis = directions[: (sizes > 1e-9).sum()]
    assert len(basis) == 3  # K - 1, whatever the number of features
    noise = np.random.default_rng(0).normal(scale=mechanism.noise_std, size=(DRAWS, 4))
    zero = np.array([0.0, 0.0, 1.0, 0.0])
    on_labels = unbiased_labels(zero + noise, mechanism) - zero
    on_gradients = (features[None, :, None] * on_labels[:, None, :]).reshape(DRAWS, -1)
    # s of Algorithm 6 is |x| times the noise on labels, and its gradients differ by sqrt(2) |x|.
    scale = float(np.linalg.norm(features)) * mechanism.noise_std
    expected = scale**2 * basis.T @ basis
    covariance = on_gradients.T @ on_gradients / DRAWS
    np.testing.assert_allclose(covariance, expected, atol=0.02 * scale**2)
    differences = span[:, None] - span[None]
    most = np.linalg.norm(differences, axis=2).max()
    assert scale / most == pytest.approx(mechanism.event.noise_multiplier, rel=1e-6)


@pytest.mark.parametrize("noise", [*PRIVATE, Noise.NONE])
@pytest.mark.parametrize("classes", [2, 5])
def test_estimates_sum_to_1_and_vary_as_stated(noise: Noise, classes: int) -> None:
    mechanism = ConvexConfig(noise=noise, epsilon=1.5).mechanism(classes)
    released = mechanism.release(np.ones(DRAWS, dtype=int), generator=np.random.default_rng(1))
    estimates = unbiased_labels(released, mechanism)
    assert estimates.dtype == np.float32 and estimates.shape == (DRAWS, classes)
    np.testing.assert_allclose(estimates.sum(1), 1, atol=1e-4)
    assert estimates.var(0).sum() == pytest.approx(label_variance(mechanism), rel=0.02)


@pytest.mark.parametrize("iterate", list(Iterate))
def test_a_pass_is_the_algorithm_step_by_step(iterate: Iterate) -> None:
    """A plain loop: K gradients per example, Eq. (7), the theorem's steps, the projection."""
    given = digits(train=60)
    config = ConvexConfig(epsilon=2.0, batch_size=1, diameter=4.0, iterate=iterate)
    trainer = started(config, given, seed=3)
    metrics = trainer.epoch()
    images = given[0].train_features.double().flatten(1) / 255
    scaled = (images - given[0].mean[0]) / given[0].std[0]
    features = np.concatenate([scaled.numpy(), np.ones((60, 1))], axis=1)
    features /= math.sqrt((features**2).sum(1).mean())
    noisy = given[1].release(config.mechanism(10)).values
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
    logits = (scaled.numpy() @ expected[:-1] + expected[-1]) / math.sqrt(
        (np.square(scaled.numpy()).sum(1) + 1).mean()
    )
    predicted = trainer.predict(given[0].train_features)
    np.testing.assert_allclose(predicted, softmax(logits, axis=1), atol=1e-5)


def test_a_release_of_other_labels_is_refused() -> None:
    data, _ = digits(train=20)
    few = Release(key="", values=np.zeros(10, dtype=np.int64), indices=None)
    with pytest.raises(ValueError, match="speaks of 10 labels, but there are 20"):
        Convex(ConvexConfig(), data=data, release=few, seed=0)
    strange = Release(key="", values=np.full(20, 10), indices=None)
    with pytest.raises(ValueError, match=r"the release\[0\] is 10; with 10 classes"):
        Convex(ConvexConfig(), data=data, release=strange, seed=0)
