"""Directions of a kernel and the release of noisy sums along them."""

from pathlib import Path

import numpy as np
import torch
from scipy.spatial.distance import cdist

from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.randomness import SecureEntropy
from labeldp.trainers.methods.priors import kernel_directions, moment_query
from tests.benchmarks.benchmark import Work, benchmark

_EXAMPLES, _WIDTH, _LANDMARKS, _COMPARED = 10_000, 100, 400, 20
_RELEASED, _MOMENTS, _CLASSES, _NOISE = 60_000, 200, 10, 3.0


def _features() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = 2 * torch.randn(30, _WIDTH, generator=generator)
    group = torch.randint(30, (_EXAMPLES,), generator=generator)
    return centers[group] + torch.randn(_EXAMPLES, _WIDTH, generator=generator)


@benchmark(
    "kernel-directions",
    "directions of a kernel on 10,000 x 100 features, 400 landmarks",
    "the same by the book, with SciPy and a singular value decomposition",
    mark=2.6,
)
def _directions(scratch: Path) -> Work:
    features = _features()
    order = torch.randperm(_EXAMPLES, generator=torch.Generator().manual_seed(0))
    chosen = order[:_LANDMARKS].numpy()
    rows = features.double().numpy()

    def plain() -> np.ndarray:
        """Nystroem's method by the book: K_nm K_mm^(-1/2), and its singular vectors."""
        centers = rows[chosen]
        width = 1.5 * np.median(cdist(centers, centers, "sqeuclidean"))
        values, vectors = np.linalg.eigh(np.exp(-cdist(centers, centers, "sqeuclidean") / width))
        kept = values > 1e-7 * values[-1]
        root = vectors[:, kept] / np.sqrt(values[kept])
        embedded = np.exp(-cdist(rows, centers, "sqeuclidean") / width) @ root
        return np.linalg.svd(embedded, full_matrices=False)[0]

    def ours() -> np.ndarray:
        return kernel_directions(features, landmarks=_LANDMARKS, seed=0).values

    def check() -> None:
        """Signs and rotations among equals are free: the space they span is not."""
        common = np.linalg.svd(ours()[:, :_COMPARED].T @ plain()[:, : 2 * _COMPARED])[1]
        assert common.min() > 0.99, common.min()

    return Work(ours=ours, reference=plain, check=check)


@benchmark(
    "moment-release",
    "200 noisy sums, 10 classes, 60,000 labels, exact noise",
    "the product in doubles plus normal noise, whose bits tell",
    mark=0.27,
)
def _release(scratch: Path) -> Work:
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(_RELEASED, _MOMENTS)).astype(np.float32)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True) * np.float32(1 + 1e-6)
    labels = generator.integers(0, _CLASSES, size=_RELEASED)
    mechanism = LabelMoments(noise_std=_NOISE, num_classes=_CLASSES)
    secret = SecureEntropy().generator("")

    def ours() -> np.ndarray:
        found: np.ndarray = mechanism.release(labels, weights, generator=secret)
        return found

    def plain() -> np.ndarray:
        """In doubles, with noise whose bits tell (and no check of the rows' lengths)."""
        sums = weights.T.astype(np.float64) @ np.eye(_CLASSES)[labels]
        found: np.ndarray = sums + generator.normal(scale=_NOISE, size=sums.shape)
        return found

    def check() -> None:
        exact = weights.T.astype(np.float64) @ np.eye(_CLASSES)[labels]
        for released in (ours(), plain()):
            assert abs((released - exact).std() / _NOISE - 1) < 0.1

    return Work(ours=ours, reference=plain, check=check)


@benchmark(
    "moment-read-out",
    "scores of 10,000 examples from noisy sums",
    "the Gaussian process conditioned class by class",
    mark=1.9,
)
def _read_out(scratch: Path) -> Work:
    directions = kernel_directions(_features(), landmarks=_LANDMARKS, seed=0)
    query = moment_query(directions, noise_std=_NOISE, tolerated=0.5)
    generator = np.random.default_rng(0)
    labels = generator.integers(0, _CLASSES, size=_EXAMPLES)
    moments = query.weights.T.astype(np.float64) @ np.eye(_CLASSES)[labels]
    moments += generator.normal(scale=_NOISE, size=moments.shape)

    def ours() -> np.ndarray:
        return query.scores(moments, noise_std=_NOISE)

    def plain() -> np.ndarray:
        """Condition the Gaussian process on the sums, class by class, in the sums' own space."""
        values = query.directions.values.astype(np.float64)
        strengths, mean = query.directions.strengths, 1 / _CLASSES
        variance = _EXAMPLES * mean * (1 - mean) * 10 * strengths / strengths.sum()
        mixing = query.weights.T.astype(np.float64) @ values
        covariance = mixing * variance @ mixing.T + _NOISE**2 * np.eye(len(mixing))
        scores = np.empty((_EXAMPLES, _CLASSES))
        for label in range(_CLASSES):
            surprise = moments[:, label] - mean * query.weights.sum(0, dtype=np.float64)
            weights = variance * (mixing.T @ np.linalg.solve(covariance, surprise))
            scores[:, label] = mean + values @ weights
        return scores

    return Work(
        ours=ours,
        reference=plain,
        check=lambda: np.testing.assert_allclose(ours(), plain(), rtol=0, atol=1e-3),
    )
