"""Excess risk of LP-RR-SGD and LP-Normal-SGD falls as 1 / sqrt(n).

`python -m pytest -m benchmark -s tests/benchmarks/test_convex_rate.py`, a few minutes on one core.
"""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.convex import label_variance
from labeldp.trainers.methods.settings import ConvexConfig, Iterate, Noise
from tests.trainers.small_data import SeededVault, trained

pytestmark = pytest.mark.benchmark

CLASSES, COLUMNS, TEST = 4, 5, 4000
COUNTS = (1000, 3000, 10_000, 30_000, 100_000)
REPEATS = 5
METHODS = {
    "LP-RR-SGD, epsilon 1": ConvexConfig(
        epsilon=1.0, diameter=24.0, batch_size=1, iterate=Iterate.LAST
    ),
    "LP-Normal-SGD, epsilon 2, delta 1e-5": ConvexConfig(
        noise=Noise.GAUSSIAN, epsilon=2.0, diameter=24.0, batch_size=1, iterate=Iterate.LAST
    ),
}


def excess_risk(config: ConvexConfig, *, train: int, seed: int) -> float:
    """Risk above that of the true model, E KL(truth, prediction): labels follow softmax(x W)."""
    random = np.random.default_rng(seed)
    weights = np.random.default_rng(100).normal(size=(COLUMNS, CLASSES))
    values = random.normal(size=(train + TEST, COLUMNS))
    truth = softmax(values @ (weights - weights.mean(1, keepdims=True)), axis=1)
    labels = (random.random((len(truth), 1)) > truth.cumsum(1)[:, :-1]).sum(1)
    features = torch.from_numpy(values.astype(np.float32))
    data = PublicData(
        name="logistic",
        num_classes=CLASSES,
        train_features=features[:train],
        test_features=features[train:],
        test_labels=labels[train:],
    )
    trainer = trained(config, (data, SeededVault(labels[:train], CLASSES, seed=seed)), seed=seed)
    predicted = trainer.predict(data.test_features).astype(np.float64)
    divergence = truth[train:] * (np.log(truth[train:]) - np.log(predicted))
    return float(divergence.sum(1).mean())


def bound(config: ConvexConfig, count: int) -> float:
    """2 D G (2 + log n) / sqrt(n): Shamir and Zhang 2013, Theorem 2, at steps D / (G sqrt(t))."""
    second_moment = 2 + label_variance(config.mechanism(CLASSES))
    return 2 * config.diameter * math.sqrt(second_moment) * (2 + math.log(count)) / math.sqrt(count)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", METHODS)
def test_excess_risk_falls_as_one_over_the_root_of_n(name: str) -> None:
    config = METHODS[name]
    risks = [
        np.mean([excess_risk(config, train=count, seed=seed) for seed in range(REPEATS)])
        for count in COUNTS
    ]
    slope = np.polyfit(np.log(COUNTS), np.log(risks), 1)[0]
    print(f"\n{name}: excess risk {dict(zip(COUNTS, np.round(risks, 4), strict=True))}", end="")
    print(f", slope {slope:.3f}")
    assert slope == pytest.approx(-0.5, abs=0.1)
    assert all(risk < bound(config, count) for risk, count in zip(risks, COUNTS, strict=True))
