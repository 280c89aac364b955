"""Targets: what each rule makes of each release, the gradient behind ALIBI, refusals."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.channels import SubsetSelection
from labeldp.mechanisms.posterior import PostProcessing
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse
from labeldp.trainers.methods.alibi import targets_of
from labeldp.trainers.models.schedules import soft_cross_entropy
from labeldp.trainers.settings.methods import LabelMechanism

MECHANISMS: list[LabelMechanism] = [
    LaplaceNoise(epsilon=2.0, num_classes=4),
    GaussianNoise(noise_std=0.7, num_classes=4),
    RandomizedResponse(epsilon=2.0, num_classes=4),
    NoNoise(num_classes=4),
    SubsetSelection(epsilon=2.0, num_classes=4, subset_size=2),
]
LABELS = np.random.default_rng(0).integers(4, size=50)


def released(mechanism: LabelMechanism) -> NDArray[Any]:
    return np.asarray(mechanism.release(LABELS, generator=np.random.default_rng(1)))


def some_log_prior() -> torch.Tensor:
    logits = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    return logits.log_softmax(1)


def test_only_labels_without_noise_are_smoothed() -> None:
    for mechanism in MECHANISMS:
        values = released(mechanism)
        plain, smooth = (
            targets_of(values, mechanism, PostProcessing.MAP_WITH_PRIOR, smoothing=share)
            for share in (0.0, 0.2)
        )
        rows, prior = torch.arange(50), some_log_prior()
        one, other = (each.batch(rows, log_prior=prior) for each in (plain, smooth))
        if isinstance(mechanism, NoNoise):
            torch.testing.assert_close(other, 0.8 * one + 0.05)
        else:
            assert torch.equal(one, other)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("rule", list(PostProcessing))
def test_every_rule_gives_probabilities_for_every_release(
    mechanism: LabelMechanism, rule: PostProcessing
) -> None:
    targets = targets_of(released(mechanism), mechanism, rule)
    rows = torch.tensor([3, 0, 49, 3])
    batch = targets.batch(rows, log_prior=some_log_prior()[rows])
    assert batch.shape == (4, 4) and batch.dtype == torch.float32
    assert (batch >= 0).all()
    torch.testing.assert_close(batch.sum(1), torch.ones(4))
    torch.testing.assert_close(batch[0], batch[3])
    assert targets.bayes == (rule.uses_prior and not isinstance(mechanism, NoNoise))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_the_gradient_is_that_of_the_likelihood_of_the_release(mechanism: LabelMechanism) -> None:
    """Cross-entropy to the detached posterior moves as -log sum_c p_c L_c does."""
    values = released(mechanism)
    logits = some_log_prior().double()
    targets = targets_of(values, mechanism, PostProcessing.MAP_WITH_PRIOR)
    ours = logits.clone().requires_grad_()
    log_probabilities = ours.log_softmax(1)
    batch = targets.batch(torch.arange(50), log_prior=log_probabilities)
    (gradient,) = torch.autograd.grad(soft_cross_entropy(log_probabilities, batch), ours)
    direct = logits.clone().requires_grad_()
    likelihood = torch.from_numpy(np.asarray(mechanism.log_likelihood(values))).double()
    negative_log = -(likelihood + direct.log_softmax(1)).logsumexp(1).mean()
    (expected,) = torch.autograd.grad(negative_log, direct)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("values", "mechanism", "message"),
    [
        (np.zeros((5, 3)), MECHANISMS[0], r"shape \(5, 3\); LaplaceNoise of 4 classes"),
        (np.zeros(5, dtype=int), MECHANISMS[1], r"shape \(5,\); GaussianNoise"),
        (np.full((2, 4), np.nan), MECHANISMS[0], "not finite in row 0"),
        (np.zeros((5, 4)), MECHANISMS[2], "RandomizedResponse releases whole numbers"),
        (np.array([0, 4]), MECHANISMS[3], r"label 4 in row 1; NoNoise.*0\.\.3"),
    ],
)
def test_a_release_that_does_not_fit_is_refused(
    values: NDArray[Any], mechanism: LabelMechanism, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        targets_of(values, mechanism, PostProcessing.MAP_WITH_PRIOR)
