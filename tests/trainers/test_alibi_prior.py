"""ALIBI with a prior, and a prior alone: what they cost, how the weight moves, exact resume."""

from dataclasses import replace

import torch

from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import (
    AlibiPriorConfig,
    PriorSettings,
    PriorSource,
)
from tests.trainers.tiny_data import digits

ON_CPU = Performance(device=Device.CPU)
CLUSTERS = PriorSettings(source=PriorSource.CLUSTERS, clusters=40)
MOMENTS = PriorSettings(source=PriorSource.MOMENTS, landmarks=300)
QUICK = AlibiPriorConfig(epochs=6, width=32, epsilon=2.0, learning_rate=0.1, prior=CLUSTERS)


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
