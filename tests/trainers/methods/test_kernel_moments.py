"""Kernel moments: exact where there is no noise, honest about noise, blind to labels."""

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.label_moments import ROUNDING, LabelMoments
from labeldp.trainers.methods.priors import Directions, kernel_directions, moment_query
from tests.trainers.tiny_data import digits


def directions_of_digits(landmarks: int = 300) -> tuple[Directions, NDArray[np.int64]]:
    data, labels = digits()
    features = data.train_features.float() / 255
    return kernel_directions(features, landmarks=landmarks, seed=0), labels.labels


def test_directions_are_those_of_the_kernel() -> None:
    """With all examples as landmarks Nystroem's method is exact: the kernel's own eigenvectors."""
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32))
    directions = kernel_directions(rows, landmarks=60, seed=0)
    squares = torch.cdist(rows, rows).square().double()
    kernel = torch.exp(-squares / (1.5 * squares.median())).numpy()
    values, vectors = np.linalg.eigh(kernel)
    np.testing.assert_allclose(directions.strengths[:10], values[::-1][:10], rtol=1e-3)
    overlap = np.abs((directions.values[:, :5] * vectors[:, ::-1][:, :5]).sum(0))
    np.testing.assert_allclose(overlap, 1, atol=1e-3)


def test_one_seed_finds_the_same_directions_whatever_the_threads() -> None:
    """Else a trial that is resumed with more cores would draw, and pay, once more."""
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 1, 2, 3):
            torch.set_num_threads(count)
            found.append(directions_of_digits()[0])
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert np.array_equal(found[0].values, other.values)
        assert np.array_equal(found[0].strengths, other.strengths)


def divided_by_length(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    divided: NDArray[np.float32] = rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return divided


def test_rows_that_are_too_long_by_rounding_are_shortened_and_others_keep_their_bits() -> None:
    """A later stage would be refused when earlier ones are paid for."""
    count = 3000
    candidates = np.arange(0.005, 0.05, 0.0003, dtype=np.float32)
    rows = np.repeat(candidates[:, None], count, axis=1)
    single = np.linalg.norm(divided_by_length(rows).astype(np.float64), axis=1)
    entry = candidates[single.argmax()]
    assert single.max() > 1 + ROUNDING
    values = np.full((50, count), entry)
    values[0, 1:] = 0  # a short row
    directions = Directions(values=values, strengths=np.linspace(2, 1, count))
    query = moment_query(directions, noise_std=1e-6, tolerated=0.1)
    assert query.weights.shape == values.shape and query.weights.dtype == np.float32
    assert np.linalg.norm(query.weights.astype(np.float64), axis=1).max() <= 1 + 2.0**-23
    assert query.weights[0, 0] == entry / np.float32(query.scale)
    np.testing.assert_allclose(query.weights[1:], divided_by_length(values[1:]), rtol=1e-5)
    LabelMoments(noise_std=1.0, num_classes=2).release(
        np.zeros(50, dtype=np.int64), query.weights, generator=np.random.default_rng(0)
    )


def test_the_noise_in_predictions_is_no_more_than_what_is_tolerated() -> None:
    directions, labels = directions_of_digits()
    noise_std, tolerated = 3.0, 0.1
    query = moment_query(directions, noise_std=noise_std, tolerated=tolerated)
    mechanism = LabelMoments(noise_std=noise_std, num_classes=10)
    scores = np.array(
        [
            query.scores(
                mechanism.release(labels, query.weights, generator=np.random.default_rng(seed)),
                noise_std=noise_std,
            )
            for seed in range(20)
        ]
    )
    assert 0.1 * tolerated < scores.std(0).mean() < tolerated


def test_without_noise_it_is_kernel_regression() -> None:
    directions, labels = directions_of_digits()
    query = moment_query(directions, noise_std=1e-6, tolerated=0.1)
    moments = LabelMoments(noise_std=1e-6, num_classes=10).release(
        labels, query.weights, generator=np.random.default_rng(0)
    )
    scores = query.scores(moments, noise_std=1e-6)
    # The least-squares fit to centered labels, but for the rows that were shortened.
    assert (scores.argmax(1) == labels).mean() > 0.99
    np.testing.assert_allclose(scores.sum(1), 1, atol=0.15)
