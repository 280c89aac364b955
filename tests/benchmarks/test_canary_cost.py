"""Evidence for the default of `audit.canaries`: one label in a hundred costs next to no accuracy.

The same training, with the same seeds and the same noise, with and without wrong labels: digits,
a table of 800 rows and 20 columns, and Adult if it is there; without privacy and with ALIBI at
epsilon 2. Some minutes on one core.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification

from labeldp.mechanisms.auditing import Canaries
from labeldp.platform.settings.configuration import LABELS_PER_CANARY
from labeldp.trainers.data.labelled_data import LabelledData, PublicData, load
from labeldp.trainers.methods.settings import AlibiConfig, Noise
from labeldp.trainers.performance import Performance
from tests.real_data import real_data_root
from tests.trainers.small_data import SeededVault

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

#: One label in so many is spoiled: the default, and what is more.
SHARES = (LABELS_PER_CANARY, 50, 20, 7)
#: What the default may cost, in percent of accuracy.
ALLOWED = 0.5


def table(seed: int) -> LabelledData:
    """800 rows to train on, three classes."""
    rows, labels = make_classification(
        3000,
        n_features=20,
        n_informative=12,
        n_classes=3,
        class_sep=1.2,
        flip_y=0.02,
        random_state=seed,
    )
    features = torch.from_numpy(((rows - rows[:800].mean(0)) / rows[:800].std(0)).astype("f4"))
    public = PublicData(
        name="table",
        num_classes=3,
        train_features=features[:800].clone(),
        test_features=features[800:].clone(),
        test_labels=labels[800:].astype(np.int64),
    )
    return LabelledData(public=public, train_labels=labels[:800].astype(np.int64))


def adult(seed: int) -> LabelledData:
    return load("adult", root=real_data_root("adult"), limit=8000)


def accuracy(data: LabelledData, config: AlibiConfig, *, one_in: int | None, seed: int) -> float:
    """Test accuracy in percent, with one label in so many made wrong."""
    labels, classes = np.asarray(data.train_labels, dtype=np.int64), data.public.num_classes
    if one_in is not None:
        size = len(labels) // one_in
        canaries = Canaries.draw(labels, num_classes=classes, num_canaries=size, seed=seed)
        labels = canaries.plant(labels)
    source = SeededVault(labels, classes, seed=seed)
    model = config.start(data=data.public, labels=source, seed=seed, performance=Performance())
    for _ in range(config.epochs):
        model.epoch()
    return float(100 * model.evaluate())


@pytest.mark.parametrize("noise", [Noise.NONE, Noise.LAPLACE])
@pytest.mark.parametrize(
    ("name", "load_data", "config", "seeds"),
    [
        ("digits", lambda seed: load("digits"), AlibiConfig(), 40),
        ("table", table, AlibiConfig(), 40),
        ("adult", adult, AlibiConfig(epochs=15), 8),
    ],
)
def test_the_default_costs_less_than_half_a_point(
    name: str,
    load_data: Callable[[int], LabelledData],
    config: AlibiConfig,
    seeds: int,
    noise: Noise,
) -> None:
    torch.set_num_threads(1)
    settings = replace(config, noise=noise, epsilon=2.0)
    lost: dict[int, list[float]] = {share: [] for share in SHARES}
    whole = []
    for seed in range(seeds):
        data = load_data(seed)
        whole.append(accuracy(data, settings, one_in=None, seed=seed))
        for share in SHARES:
            lost[share].append(whole[-1] - accuracy(data, settings, one_in=share, seed=seed))
    shown = [
        f"one in {share}: {np.mean(each):.2f} +- {np.std(each, ddof=1) / np.sqrt(seeds):.2f}"
        for share, each in lost.items()
    ]
    print(f"\n{name}, {noise.value}: accuracy {np.mean(whole):.2f}; lost with {', '.join(shown)}")
    cost = np.array(lost[LABELS_PER_CANARY])
    # Not by chance: its 95% interval lies below what is allowed.
    assert cost.mean() + 1.96 * cost.std(ddof=1) / np.sqrt(seeds) < ALLOWED
