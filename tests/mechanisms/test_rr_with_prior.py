"""RRWithPrior: the linear program's optimum, exact privacy, the distribution of releases."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chisquare

from labeldp.mechanisms.rr_with_prior import RRWithPrior, tempered


def awkward_priors(num_classes: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Random priors, sparse ones, ones with ties, the uniform one and a certain one."""
    smooth = generator.dirichlet(np.ones(num_classes), size=6)
    sparse = generator.dirichlet(np.full(num_classes, 0.2), size=4)
    sparse[np.arange(4), sparse.argmin(axis=1)] = 0.0
    ties = generator.integers(0, 3, size=(6, num_classes)) + np.eye(6, num_classes)
    special = np.stack([np.full(num_classes, 1.0), np.eye(num_classes)[-1]])
    rows = np.concatenate([smooth, sparse, ties, special])
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def slow_top_k(prior: NDArray[np.float64], epsilon: float) -> int:
    """k* by the paper's definition, one k after the other."""
    descending = sorted(prior, reverse=True)
    values = [
        math.exp(epsilon) / (math.exp(epsilon) + k - 1) * math.fsum(descending[:k])
        for k in range(1, len(prior) + 1)
    ]
    return 1 + values.index(max(values))


def transition_matrix(mechanism: RRWithPrior, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pr[output | label] as [label, output]; columns of outputs that never occur are 0."""
    num_classes = len(prior)
    matrix = np.zeros((num_classes, num_classes))
    likeliest = np.argsort(-prior, kind="stable")[: mechanism.top_k(prior[None])[0]]
    for output in likeliest:
        column = mechanism.log_likelihood(np.array([output]), prior[None])[0]
        matrix[:, output] = np.exp(column)
    return matrix


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 4.0, 20.0])
def test_exact_transition_probabilities_are_private_and_keep_what_is_promised(
    epsilon: float,
) -> None:
    mechanism = RRWithPrior(epsilon=epsilon)
    for prior in awkward_priors(6, np.random.default_rng(1)):
        matrix = transition_matrix(mechanism, prior)
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
        possible = matrix[:, matrix.sum(axis=0) > 0]
        assert np.log(possible.max(axis=0) / possible.min(axis=0)).max() <= epsilon + 1e-12
        kept = mechanism.keep_probability(prior[None])[0]
        assert prior @ np.diag(matrix) == pytest.approx(kept, abs=1e-12)


def test_top_k_is_the_paper_s_on_thousands_of_priors_in_several_blocks() -> None:
    generator = np.random.default_rng(2)
    priors = generator.dirichlet(np.full(100, 0.1), size=6000)
    mechanism = RRWithPrior(epsilon=2.0)
    k = mechanism.top_k(priors)
    some = np.arange(0, 6000, 17)
    assert k[some].tolist() == [slow_top_k(prior, 2.0) for prior in priors[some]]
    assert len(set(k.tolist())) > 3
    # A block draws its own noise once: the blocks by themselves release the same labels.
    labels, rows = generator.integers(0, 100, 6000), 2**18 // 100
    whole, one = np.random.default_rng(4), np.random.default_rng(4)
    noisy = mechanism.release(labels, priors, generator=whole)
    for start in range(0, 6000, rows):
        block = slice(start, start + rows)
        part = mechanism.release(labels[block], priors[block], generator=one)
        np.testing.assert_array_equal(part, noisy[block])
    assert whole.random() == one.random()


def test_released_labels_follow_the_transition_probabilities() -> None:
    generator = np.random.default_rng(3)
    mechanism = RRWithPrior(epsilon=1.0)
    for prior in (np.array([0.3, 0.3, 0.05, 0.3, 0.05]), np.array([0.1, 0.0, 0.5, 0.3, 0.1])):
        matrix = transition_matrix(mechanism, prior)
        assert 1 < (matrix[0] > 0).sum() < 5
        for label in range(5):
            labels = np.full(50_000, label)
            noisy = mechanism.release(labels, np.tile(prior, (50_000, 1)), generator=generator)
            counts = np.bincount(noisy, minlength=5)
            possible = matrix[label] > 0
            assert counts[~possible].sum() == 0
            expected = matrix[label, possible] * 50_000
            assert chisquare(counts[possible], expected).pvalue > 1e-4


def test_of_equally_good_numbers_and_equally_likely_classes_the_lowest_are_taken() -> None:
    prior = np.array([[0.0, 0.25, 0.25, 0.25, 0.25], [0.2, 0.5, 0.1, 0.1, 0.1]])
    mechanism = RRWithPrior(epsilon=1.0)
    object.__setattr__(mechanism, "epsilon", 1e-17)  # rounds to 0: every k up to 4 is as good
    assert mechanism.top_k(prior).tolist() == [1, 1]
    many, labels = np.tile(prior, (50, 1)), np.tile([3, 4], 50)
    noisy = mechanism.release(labels, many, generator=np.random.default_rng(5))
    assert (noisy == 1).all()
    some = 0  # rows whose k rounding puts between equal classes, below a likelier one
    for epsilon in np.linspace(0.1, 3.0, 30):
        weights = np.array([1.0, *[math.exp(-epsilon)] * 5])
        rows = np.array([np.roll(weights, shift) for shift in range(6)])
        rows = np.concatenate([rows / (rows.sum() / 6), rows[:, ::-1] / (rows[0].sum())])
        mechanism = RRWithPrior(epsilon=float(epsilon))
        for row, k, outputs in zip(
            rows, mechanism.top_k(rows), mechanism.outputs(rows), strict=True
        ):
            assert np.flatnonzero(outputs).tolist() == sorted(np.argsort(-row, kind="stable")[:k])
            some += 1 < k < 6
    assert some


def test_temperature_sharpens_and_flattens() -> None:
    prior = np.array([[0.5, 0.3, 0.2, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(prior)
    np.testing.assert_allclose(tempered(logits, temperature=1.0), prior, atol=1e-15)
    squared = prior**2 / (prior**2).sum()
    np.testing.assert_allclose(tempered(logits + 40.0, temperature=0.5), squared, atol=1e-12)
    np.testing.assert_array_equal(tempered(logits, temperature=1e-310), [[1.0, 0.0, 0.0, 0.0]])
    both = np.concatenate([logits, logits[:, ::-1]])  # each row by itself
    np.testing.assert_allclose(tempered(both, temperature=1.0).sum(axis=1), 1.0, atol=1e-15)
    assert tempered(torch.zeros(2, 3), temperature=2.0).dtype == torch.float64


def test_tensors_give_tensors_and_rows_that_miss_1_count_as_if_they_did_not() -> None:
    mechanism, prior = RRWithPrior(epsilon=1.0), np.array([[0.9, 0.06, 0.04], [0.3, 0.3, 0.4]])
    tensor, noisy = torch.tensor(prior), np.array([0, 1])
    for ask in (mechanism.top_k, mechanism.outputs, mechanism.keep_probability):
        assert isinstance(ask(tensor), torch.Tensor)
        np.testing.assert_allclose(ask(tensor).numpy(), ask(prior * (1 + 5e-5)), rtol=1e-12)
    seen = mechanism.log_likelihood(torch.tensor(noisy), tensor)
    np.testing.assert_array_equal(seen.numpy(), mechanism.log_likelihood(noisy, prior))
