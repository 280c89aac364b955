"""ALIBI and bit flips: targets, the gradient behind them, a prior's weight, refusals."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from torch.nn import functional

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.channels import SubsetSelection
from labeldp.mechanisms.posterior import PostProcessing, posterior
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse
from labeldp.trainers.methods.alibi import gradient_scale, targets_of
from labeldp.trainers.methods.convex import label_variance, unbiased_labels
from labeldp.trainers.methods.settings import (
    AlibiConfig,
    ConvexConfig,
    Iterate,
    LabelMechanism,
    Noise,
)
from labeldp.trainers.models.optimization import soft_cross_entropy
from labeldp.trainers.settings.training import Recipe
from tests.trainers.small_data import SeededVault, digits, small_table, trained

MECHANISMS: list[LabelMechanism] = [
    LaplaceNoise(epsilon=2.0, num_classes=4),
    GaussianNoise(noise_std=0.7, num_classes=4),
    RandomizedResponse(epsilon=2.0, num_classes=4),
    NoNoise(num_classes=4),
    SubsetSelection(epsilon=2.0, num_classes=4, subset_size=2),
]
LABELS = np.random.default_rng(0).integers(4, size=50)
LOG_PRIOR = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)).log_softmax(1)


def released(mechanism: LabelMechanism) -> NDArray[Any]:
    return np.asarray(mechanism.release(LABELS, generator=np.random.default_rng(1)))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("rule", list(PostProcessing))
def test_every_rule_gives_probabilities_and_smooths_true_labels_only(
    mechanism: LabelMechanism, rule: PostProcessing
) -> None:
    rows = torch.tensor([3, 0, 49, 3])
    plain, smooth = (
        targets_of(released(mechanism), mechanism, rule, smoothing=share)[rows]
        for share in (0.0, 0.2)
    )
    if rule.uses_prior and not isinstance(mechanism, NoNoise):
        plain, smooth = (posterior(part, LOG_PRIOR[rows]) for part in (plain, smooth))
    assert plain.shape == (4, 4) and plain.dtype == torch.float32 and (plain >= 0).all()
    torch.testing.assert_close(plain.sum(1), torch.ones(4))
    torch.testing.assert_close(plain[0], plain[3])
    if isinstance(mechanism, NoNoise):
        torch.testing.assert_close(smooth, 0.8 * plain + 0.05)
    else:
        assert torch.equal(smooth, plain)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_the_gradient_is_that_of_the_likelihood_of_the_release(mechanism: LabelMechanism) -> None:
    """Cross-entropy to the detached posterior moves as -log sum_c p_c L_c does."""
    values, logits = released(mechanism), LOG_PRIOR.double()
    targets = targets_of(values, mechanism, PostProcessing.MAP_WITH_PRIOR)
    ours = logits.clone().requires_grad_()
    log_probabilities = ours.log_softmax(1)
    if not isinstance(mechanism, NoNoise):
        targets = posterior(targets, log_probabilities.detach())
    (gradient,) = torch.autograd.grad(soft_cross_entropy(log_probabilities, targets), ours)
    direct = logits.clone().requires_grad_()
    likelihood = torch.from_numpy(np.asarray(mechanism.log_likelihood(values))).double()
    negative_log = -(likelihood + direct.log_softmax(1)).logsumexp(1).mean()
    (expected,) = torch.autograd.grad(negative_log, direct)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_an_even_gradient_is_as_long_as_that_of_labels(mechanism: LabelMechanism) -> None:
    log_likelihood = torch.from_numpy(mechanism.log_likelihood(released(mechanism))).double()
    logits = torch.zeros(log_likelihood.shape, dtype=torch.float64, requires_grad=True)
    loss = -(logits.log_softmax(1) + log_likelihood).logsumexp(1).sum()
    loss = loss * gradient_scale(log_likelihood)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert float(gradient.square().sum(1).mean()) == pytest.approx(1 - 1 / 4, rel=1e-9)


def test_networks_and_labels_that_do_not_fit_the_data_are_refused() -> None:
    data, labels = small_table()
    config = AlibiConfig(epochs=20, width=32, batch_size=32, epsilon=4.0, learning_rate=0.1)
    mirrored = replace(config, recipe=Recipe(mirrored=True))
    with pytest.raises(ValueError, match=r"recipe.mirrored True, but small table holds no images"):
        trained(mirrored, (data, SeededVault(labels, 3)), epochs=0)
    with pytest.raises(ValueError, match="has 10 labels, but small table has 400"):
        trained(config, (data, SeededVault(labels[:10], 3)), epochs=0)


# Convex references: unbiased gradients, the papers' algorithms, the ball, refusals.

DRAWS = 100_000
WEIGHTS = np.random.default_rng(5).normal(size=(3, 4))
FEATURES = np.random.default_rng(6).normal(size=3)


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
    parameters = torch.tensor(WEIGHTS, requires_grad=True)
    logits = torch.tensor(FEATURES) @ parameters
    loss = functional.cross_entropy(logits, torch.tensor(2))
    (gradient,) = torch.autograd.grad(loss, [parameters])
    exact = gradient.numpy()
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
    assert data.pixels is not None
    scaled = (images - data.pixels.mean[0]) / data.pixels.std[0]
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
