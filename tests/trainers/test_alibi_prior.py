"""ALIBI with a prior, and a prior alone: what they cost, how the weight moves, exact resume."""

from dataclasses import replace

import numpy as np
import torch

from labeldp.trainers.methods.alibi import weight_of_prior
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import (
    AlibiPriorConfig,
    Noise,
    PriorSettings,
    PriorSource,
    label_mechanism,
)
from tests.trainers.tiny_data import digits

ON_CPU = Performance(device=Device.CPU)
CLUSTERS = PriorSettings(source=PriorSource.CLUSTERS, clusters=40)
MOMENTS = PriorSettings(source=PriorSource.MOMENTS, landmarks=300)
QUICK = AlibiPriorConfig(epochs=6, width=32, epsilon=2.0, learning_rate=0.1, prior=CLUSTERS)


def test_the_weight_falls_as_the_labels_tell_more() -> None:
    truth = np.arange(60_000) % 10
    prior = np.full((len(truth), 10), 0.02)
    prior[np.arange(len(truth)), truth] = 0.82
    weights = []
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        mechanism = label_mechanism(Noise.LAPLACE, epsilon=epsilon, delta=1e-5, num_classes=10)
        noisy = mechanism.release(truth, generator=np.random.default_rng(0))
        weights.append(weight_of_prior(prior, torch.from_numpy(mechanism.log_likelihood(noisy))))
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > 0.9
    assert weights[-1] < 0.1
    # Fewer examples have fewer labels to pool: the prior stays.
    few = weight_of_prior(prior[:600], torch.from_numpy(mechanism.log_likelihood(noisy))[:600])
    assert few > 0.5


def test_at_first_the_target_is_the_posterior_under_the_prior_alone() -> None:
    """And with a last weight of 0 it is ALIBI's own in the end."""
    data, labels = digits()
    config = replace(QUICK, prior_weight=0.0, epochs=10)
    trainer = config.start(data=data, labels=labels, seed=0, performance=ON_CPU)
    rows = torch.arange(4)
    logits = torch.randn(4, 10, generator=torch.Generator().manual_seed(0))
    log_p = logits.log_softmax(1)
    likelihood, prior = trainer._log_likelihood[rows], trainer._log_prior[rows]
    for epoch, under in ((1, prior), (3, 0.5 * prior + 0.5 * log_p), (5, log_p), (10, log_p)):
        trainer._learner.epoch_number = epoch
        expected = -((likelihood + under).softmax(1) * log_p).sum(1).mean()
        torch.testing.assert_close(trainer._loss(logits, rows), expected)
