"""Losses on noisy labels: unbiased where they say so, and the likelihood of what was released."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.trainers.methods.alibi import BitFlipTrainer
from labeldp.trainers.methods.lp_mst import evidence_of, robust_loss
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import BitFlipConfig, RobustLoss
from tests.trainers.tiny_data import digits

LOGITS = torch.tensor([[0.3, -1.0, 2.0, 0.5]], dtype=torch.float64)


def losses_of_each_output(
    prior: np.ndarray, mechanism: RRWithPrior, loss: RobustLoss
) -> dict[int, float]:
    """Loss of one prediction for every label that can be released."""
    return {
        label: float(
            robust_loss(
                loss,
                LOGITS,
                torch.from_numpy(evidence_of(np.array([label]), prior, mechanism, loss)).double(),
            )
        )
        for label in np.flatnonzero(mechanism.outputs(prior)[0]).tolist()
    }


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (8, 8, 8, 1)])
def test_the_debiased_loss_is_that_of_the_true_label_on_average(
    epsilon: float, weights: tuple[int, ...]
) -> None:
    prior = np.array([weights]) / sum(weights)
    mechanism = RRWithPrior(epsilon=epsilon)
    by_output = losses_of_each_output(prior, mechanism, RobustLoss.DEBIASED)
    for label in by_output:  # of the possible outputs; others cannot be told apart
        average = sum(
            float(np.exp(mechanism.log_likelihood(np.array([output]), prior)[0, label])) * value
            for output, value in by_output.items()
        )
        truth = functional.cross_entropy(LOGITS, torch.tensor([label]))
        assert average == pytest.approx(float(truth), rel=1e-5)


def test_the_forward_loss_is_the_likelihood_of_the_release() -> None:
    mechanism, prior = RRWithPrior(epsilon=1.0), np.full((1, 4), 0.25)
    predicted = LOGITS.softmax(1).numpy()[0]
    keep = np.e / (np.e + 3)
    for label, value in losses_of_each_output(prior, mechanism, RobustLoss.FORWARD).items():
        seen = predicted[label] * keep + (1 - predicted[label]) * (1 - keep) / 3
        assert value == pytest.approx(-np.log(seen), rel=1e-6)


def test_one_possible_output_is_taken_as_it_is() -> None:
    prior = np.array([[0.97, 0.01, 0.01, 0.01]])
    mechanism = RRWithPrior(epsilon=0.5)
    assert mechanism.top_k(prior).tolist() == [1]
    evidence = evidence_of(np.array([0]), prior, mechanism, RobustLoss.DEBIASED)
    assert evidence.tolist() == [[1.0, 0.0, 0.0, 0.0]]


def test_a_label_that_the_prior_rules_out_is_refused() -> None:
    prior = np.array([[0.97, 0.01, 0.01, 0.01]])
    with pytest.raises(ValueError, match=r"noisy\[0\] is 2"):
        evidence_of(np.array([2]), prior, RRWithPrior(epsilon=0.5), RobustLoss.FORWARD)


def test_the_loss_of_bits_is_the_cross_entropy_of_every_bit() -> None:
    data, labels = digits()
    trainer = BitFlipTrainer(
        BitFlipConfig(),
        data=data,
        labels=labels,
        seed=0,
        performance=Performance(device=Device.CPU),
    )
    logits = torch.tensor([[0.5] * 9 + [3.0]])
    bits, sigmoids = trainer._bits[:1].double(), logits.double().sigmoid()
    expected = -(bits * sigmoids.log() + (1 - bits) * (1 - sigmoids).log()).sum()
    assert float(trainer._loss(logits, torch.tensor([0]))) == pytest.approx(float(expected))
