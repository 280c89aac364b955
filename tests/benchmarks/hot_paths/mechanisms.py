"""Bayes' rule on noisy one-hot vectors, against the sum over coordinates for every class."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr, logsumexp
from scipy.stats import binom

from labeldp.mechanisms.accounting import ORDERS, conversion_offsets
from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.auditing.one_run import one_run_lower_bound
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.pate.accounting import confident_gnmax_costs
from labeldp.mechanisms.pate.aggregators import count_votes
from labeldp.mechanisms.pate.decisions import exact_rdp_gnmax
from labeldp.mechanisms.pate.published_cost import AnswerPrice, cost_of_answers
from labeldp.mechanisms.pate.vote_leakage import answer_log_probabilities
from labeldp.mechanisms.posterior import posterior
from labeldp.mechanisms.randomness import OsEntropy, SecureEntropy
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.trainers.methods.priors import kernel_directions
from tests.benchmarks.benchmark import Work, benchmark

_EXAMPLES, _CLASSES, _QUADRATIC = 10_000, 100, 1000


@benchmark(
    "posterior",
    "posterior of 10,000 noisy vectors over 100 classes",
    "the quadratic form, all coordinates for each class",
    mark=6.5,
)
def _posterior(scratch: Path) -> Work:
    mechanism = LaplaceNoise(epsilon=2.0, num_classes=_CLASSES)
    generator = np.random.default_rng(0)
    labels = generator.integers(0, _CLASSES, size=_EXAMPLES)
    noisy = mechanism.release(labels, generator=generator)
    log_prior = np.log(generator.dirichlet(np.full(_CLASSES, 0.5), size=_EXAMPLES) + 1e-9)

    def plain(rows: int) -> np.ndarray:
        """-|o - e_c| / b summed over all K coordinates for each of the K classes."""
        scores = np.empty((rows, _CLASSES))
        for label, one_hot in enumerate(np.eye(_CLASSES)):
            scores[:, label] = -np.abs(noisy[:rows] - one_hot).sum(1) / mechanism.scale
        scores += log_prior[:rows]
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return np.asarray(weights / weights.sum(1, keepdims=True))

    def ours() -> np.ndarray:
        return np.asarray(posterior(mechanism.log_likelihood(noisy), log_prior))

    return Work(
        ours=ours,
        reference=lambda: plain(_QUADRATIC),
        part=_QUADRATIC / _EXAMPLES,
        check=lambda: np.testing.assert_allclose(
            ours()[:_QUADRATIC], plain(_QUADRATIC), rtol=1e-9, atol=1e-300
        ),
    )


# Noise of a hundred thousand labels, with AES beside PCG64; priors of RRWithPrior.

_LABELS, _NOISE_CLASSES = 100_000, 10
_PRIORS, _ROW_BY_ROW = 50_000, 1000


@benchmark(
    "noise-laplace",
    "LaplaceNoise, a million draws, AES",
    "the same with PCG64, which is not secret",
    mark=0.5,
)
def _noise(scratch: Path) -> Work:
    secret, plain = OsEntropy().generator(""), np.random.default_rng()
    labels = np.arange(_LABELS) % _NOISE_CLASSES
    mechanism = LaplaceNoise(epsilon=1.0, num_classes=_NOISE_CLASSES)

    def made(generator: Any) -> np.ndarray:
        return np.asarray(mechanism.release(labels, generator=generator))

    def check() -> None:
        """Draws differ: they have the same mean and spread."""
        ours, theirs = made(secret), made(plain)
        assert abs(ours.mean() - theirs.mean()) < 0.02 * theirs.std()
        assert abs(ours.std() / theirs.std() - 1) < 0.02

    return Work(ours=lambda: made(secret), reference=lambda: made(plain), check=check)


@benchmark(
    "rr-with-prior",
    "RRWithPrior, release of 50,000 labels of 100 classes",
    "row by row",
    mark=5,
    most_seconds=0.5,
)
def _priors(scratch: Path) -> Work:
    generator = np.random.default_rng(1)
    prior = generator.dirichlet(np.full(100, 0.3), size=_PRIORS)
    labels = generator.integers(0, 100, size=_PRIORS)
    mechanism = RRWithPrior(epsilon=2.0)

    def row_by_row() -> list[int]:
        """The paper's Algorithm 2: the k with the largest (sum of k largest) / (1 + ...)."""
        released, kept = [], []
        for row, label in zip(prior[:_ROW_BY_ROW], labels, strict=False):
            order = np.argsort(-row)
            sums = np.cumsum(row[order])
            k = int(np.argmax(sums / (1 + np.arange(100) * np.exp(-2.0)))) + 1
            outputs = order[:k].tolist()
            weights = np.full(k, np.exp(-2.0) if label in outputs else 1.0)
            if label in outputs:
                weights[outputs.index(label)] = 1.0
            released.append(generator.choice(outputs, p=weights / weights.sum()))
            kept.append(k)
        return kept

    return Work(
        ours=lambda: mechanism.release(labels, prior, generator=generator),
        reference=row_by_row,
        part=_ROW_BY_ROW / _PRIORS,
        check=lambda: np.testing.assert_array_equal(
            mechanism.top_k(prior[:_ROW_BY_ROW]), row_by_row()
        ),
    )


# Directions of a kernel and the release of noisy sums along them.

_MOMENTS_EXAMPLES, _WIDTH, _LANDMARKS, _COMPARED = 10_000, 100, 400, 20
_RELEASED, _MOMENTS, _MOMENTS_CLASSES, _NOISE = 60_000, 200, 10, 3.0


def _features() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = 2 * torch.randn(30, _WIDTH, generator=generator)
    group = torch.randint(30, (_MOMENTS_EXAMPLES,), generator=generator)
    return centers[group] + torch.randn(_MOMENTS_EXAMPLES, _WIDTH, generator=generator)


@benchmark(
    "kernel-directions",
    "directions of a kernel on 10,000 x 100 features, 400 landmarks",
    "the same by the book, with SciPy and a singular value decomposition",
    mark=2.6,
)
def _directions(scratch: Path) -> Work:
    features = _features()
    order = torch.randperm(_MOMENTS_EXAMPLES, generator=torch.Generator().manual_seed(0))
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
    labels = generator.integers(0, _MOMENTS_CLASSES, size=_RELEASED)
    mechanism = LabelMoments(noise_std=_NOISE, num_classes=_MOMENTS_CLASSES)
    secret = SecureEntropy().generator("")

    def ours() -> np.ndarray:
        return np.asarray(mechanism.release(labels, weights, generator=secret))

    def plain() -> np.ndarray:
        """In doubles, with noise whose bits tell (and no check of the rows' lengths)."""
        sums = weights.T.astype(np.float64) @ np.eye(_MOMENTS_CLASSES)[labels]
        return np.asarray(sums + generator.normal(scale=_NOISE, size=sums.shape))

    def check() -> None:
        exact = weights.T.astype(np.float64) @ np.eye(_MOMENTS_CLASSES)[labels]
        for released in (ours(), plain()):
            assert abs((released - exact).std() / _NOISE - 1) < 0.1

    return Work(ours=ours, reference=plain, check=check)


# PATE's prices, against plain loops over the queries, the moves and the distances.

Floats = NDArray[np.float64]

#: The 298 orders of PATE 2018: 100 is there twice.
PUBLISHED_ORDERS = np.sort(np.append(ORDERS[ORDERS >= 2], 100.0))
THRESHOLD, SIGMA1, SIGMA2, DELTA = 200.0, 150.0, 40.0, 1e-5
_QUERIES, _LOOPED = 50_000, 2500
_DECISIONS, _MOVED = 500, 5
_ANSWERS, _WALKED, _ORDER = 2000, 40, 10.0


def mixed_votes(num_queries: int) -> NDArray[np.int64]:
    """Votes of 250 teachers on 10 classes, from unanimous to split; four in five are different."""
    generator = np.random.default_rng(0)
    leader = generator.beta(3, 1.5, size=num_queries)
    rest = generator.dirichlet(np.full(9, 0.5), size=num_queries) * (1 - leader)[:, None]
    probabilities = np.concatenate([leader[:, None], rest], axis=1)
    return generator.multinomial(250, probabilities)


def gaussian_curve(log_q: float, noise: float, orders: Floats) -> Floats:
    """Theorem 6 of PATE 2018 for one query, at all orders at once."""
    ceiling = orders / noise**2
    mu2 = noise * math.sqrt(-log_q)
    mu1 = mu2 + 1
    e1, e2 = mu1 / noise**2, mu2 / noise**2
    if mu2 <= 1 or -log_q <= e2:
        return ceiling
    if log_q > (mu2 - 1) * e2 - mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1))):
        return ceiling
    log_1q = math.log1p(-math.exp(log_q))
    slope = log_1q - math.log1p(-math.exp((log_q + e2) * (1 - 1 / mu2)))
    steps = orders - 1
    bound = np.logaddexp(log_1q + steps * slope, log_q + steps * (e1 - log_q / mu2)) / steps
    return np.where(orders < mu1, np.minimum(bound, ceiling), ceiling)


def _log_q(row: NDArray[np.int64], noise_std: float) -> float:
    """Bound on the log probability of another answer than the leader."""
    leader = row.argmax()
    gaps = row[leader] - np.delete(row, leader)
    log_q = float(logsumexp(log_ndtr(-gaps / (math.sqrt(2) * noise_std))))
    return min(log_q, math.log1p(-1 / len(row)))


def plain_loop(votes: NDArray[np.int64]) -> float:
    """Epsilon of the expected cost, query by query."""
    orders = PUBLISHED_ORDERS
    total = np.zeros(len(orders))
    for row in votes:
        log_p = float(log_ndtr((row.max() - THRESHOLD) / SIGMA1))
        surprise = min(log_p, math.log(-math.expm1(log_p)))
        total += gaussian_curve(surprise, math.sqrt(2) * SIGMA1, orders)
        total += math.exp(log_p) * gaussian_curve(_log_q(row, SIGMA2), SIGMA2, orders)
    return float((total + conversion_offsets(orders, DELTA)).min())


def price(votes: NDArray[np.int64]) -> float:
    """The same by the library."""
    costs = confident_gnmax_costs(votes, threshold=THRESHOLD, sigma1=SIGMA1, sigma2=SIGMA2)
    return costs.cost(delta=DELTA, orders=PUBLISHED_ORDERS).epsilon


@benchmark(
    "accounting",
    "expected cost of 50,000 queries at 298 orders",
    "a loop over the queries, all orders at once",
    mark=26,
    most_seconds=0.3,
)
def _expected(scratch: Path) -> Work:
    votes = mixed_votes(_QUERIES)
    part = votes[:_LOOPED]
    return Work(
        ours=lambda: price(votes),
        reference=lambda: plain_loop(part),
        part=_LOOPED / _QUERIES,
        check=lambda: np.testing.assert_allclose(price(part), plain_loop(part), rtol=1e-9),
    )


@benchmark(
    "accounting-decisions",
    "exact cost of 500 answers of 250 teachers, all orders",
    "each vote moved to each class, one at a time",
    mark=6.9,
)
def _decision(scratch: Path) -> Work:
    votes, orders = mixed_votes(_DECISIONS), ORDERS

    def divergence(log_p: Floats, log_q: Floats) -> Floats:
        scores = np.outer(orders, log_p) + np.outer(1 - orders, log_q)
        return np.asarray(logsumexp(scores, axis=1) / (orders - 1))

    def plain() -> Floats:
        """Move each vote to each other class, and take the worst of both directions."""
        found = np.zeros((_MOVED, len(orders)))
        for number, row in enumerate(votes[:_MOVED]):
            before = answer_log_probabilities(row, SIGMA2)
            for loses in np.flatnonzero(row):
                for gains in range(len(row)):
                    if gains == loses:
                        continue
                    moved = row.copy()
                    moved[loses] -= 1
                    moved[gains] += 1
                    after = answer_log_probabilities(moved, SIGMA2)
                    for both in ((before, after), (after, before)):
                        found[number] = np.maximum(found[number], divergence(*both))
        return found

    return Work(
        ours=lambda: exact_rdp_gnmax(votes, SIGMA2, orders),
        reference=plain,
        part=_MOVED / _DECISIONS,
        check=lambda: np.testing.assert_allclose(
            exact_rdp_gnmax(votes[:_MOVED], SIGMA2, orders), plain(), rtol=1e-5
        ),
    )


@benchmark(
    "smooth-sensitivity",
    "sensitivity of the cost of 2,000 answers at 250 distances",
    "a walk for each query, a vote a step",
    mark=180,
)
def _smooth(scratch: Path) -> Work:
    votes = mixed_votes(_ANSWERS)
    cost = AnswerPrice(noise_std=SIGMA2, num_classes=10, order=_ORDER)

    def walk(row: NDArray[np.int64]) -> Floats:
        """PATE 2018, Algorithms 3 to 5, for one histogram: a vote a step to the worst place."""
        counts = -np.sort(-row)
        log_q = _log_q(counts, SIGMA2)
        rises = log_q < cost.log_q1
        found = np.full(250, cost.largest_change)
        for distance in range(250):
            log_q = _log_q(counts, SIGMA2)
            if cost.log_q1 <= log_q <= cost.log_q0 or rises != (log_q < cost.log_q1):
                break
            found[distance] = cost.change(np.array([log_q]))[0]
            if rises:
                counts[0] -= 1
                counts[1] += 1
            elif counts[1] == 0:
                break
            else:
                counts[np.flatnonzero(counts[1:] == counts[1])[-1] + 1] -= 1
                counts[0] += 1
        return found

    def ours(some: NDArray[np.int64]) -> Floats:
        return cost_of_answers(some, price=cost, num_teachers=int(some[0].sum()))[1]

    def plain() -> Floats:
        return np.asarray(np.sum([walk(row) for row in votes[:_WALKED]], axis=0))

    return Work(
        ours=lambda: ours(votes),
        reference=plain,
        part=_WALKED / _ANSWERS,
        check=lambda: np.testing.assert_allclose(ours(votes[:_WALKED]), plain(), rtol=1e-9),
    )


# Counting votes.

_TEACHERS, _VOTES_QUERIES, _VOTES_CLASSES, _BY_QUERY = 800, 50_000, 100, 2000


@benchmark(
    "votes",
    "votes of 800 teachers, 50,000 queries, 100 classes",
    "a bincount for each query",
    mark=0.57,
    most_seconds=1.0,
    most_megabytes=60,
)
def _counting(scratch: Path) -> Work:
    draws = np.random.default_rng(0)
    votes = draws.integers(0, _VOTES_CLASSES, (_TEACHERS, _VOTES_QUERIES), dtype=np.uint8)

    def plain() -> np.ndarray:
        return np.stack(
            [np.bincount(votes[:, query], minlength=_VOTES_CLASSES) for query in range(_BY_QUERY)]
        )

    return Work(
        ours=lambda: count_votes(votes, num_classes=_VOTES_CLASSES),
        reference=plain,
        part=_BY_QUERY / _VOTES_QUERIES,
        check=lambda: np.testing.assert_array_equal(
            count_votes(votes, num_classes=_VOTES_CLASSES)[:_BY_QUERY], plain()
        ),
    )


# A lower bound from canaries, against the same theorem in plain Python.

_COINS, _RIGHT, _DELTA = 1000, 900, 1e-5


@benchmark(
    "audit-one-run",
    "lower bound from 1,000 coin canaries at a delta",
    "the theorem with SciPy, a tail at a time",
    mark=160,
)
def _one_run(scratch: Path) -> Work:
    def ours() -> float:
        return one_run_lower_bound(canaries=_COINS, guesses=_COINS, correct=_RIGHT, delta=_DELTA)

    def plain() -> float:
        """Theorem 5.2 of Steinke et al. with SciPy's binomial, every tail by itself, bisected."""
        low, high = 0.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            right = 1 / (1 + math.exp(-middle))
            tail = [binom.sf(_RIGHT - fewer - 1, _COINS, right) for fewer in range(_RIGHT + 1)]
            alpha = max(0.0, *((tail[n] - tail[0]) / n for n in range(1, _RIGHT + 1)))
            refuted = tail[0] + 2 * _COINS * _DELTA * alpha <= 0.05
            low, high = (middle, high) if refuted else (low, middle)
        return low

    return Work(
        ours=ours,
        reference=plain,
        check=lambda: np.testing.assert_allclose(ours(), plain(), rtol=1e-6),
    )
