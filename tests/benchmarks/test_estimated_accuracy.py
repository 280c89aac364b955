"""Evidence on Fashion-MNIST: the best of nine is found without looking at a test label.

Nine settings of ALIBI are trained on the same release; each is judged by its accuracy on the public
test split, which nobody would have, and by two ways that are private. Some minutes on two cores;
noise from the operating system, so every run is another draw.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate, CorrectCount
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.settings.configuration import DEFAULT_SHARE, LEAST_EPSILON
from labeldp.trainers.data.labelled_data import LabelledData, load, set_aside
from labeldp.trainers.methods.settings import AlibiConfig
from labeldp.trainers.models.features import described_by_features
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import Schedule
from tests.real_data import real_data_root

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

RATES, DECAYS = (0.1, 0.3, 1.0), (1e-5, 1e-4, 1e-3)
COUNT = CorrectCount(epsilon=LEAST_EPSILON)
#: What choosing may cost, in percent of accuracy.
ALLOWED = 0.5


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> LabelledData:
    """Fashion-MNIST as features that no label went into, a tenth of its labels held out."""
    loaded = load("fashion_mnist", root=real_data_root("fashion_mnist"))
    public = described_by_features(loaded.public, folder=tmp_path_factory.mktemp("features"))
    return set_aside(replace(loaded, public=public), share=DEFAULT_SHARE)


def _best(estimates: list[AccuracyEstimate]) -> int:
    return int(np.argmax([each.accuracy for each in estimates]))


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_choosing_the_best_of_nine_costs_little(data: LabelledData, epsilon: float) -> None:
    assert data.held_out_labels is not None and data.public.held_out_features is not None
    every = np.append(data.train_labels, data.held_out_labels)
    vault = LabelVault(labels=every, num_classes=10)
    training = LabelVault(labels=data.train_labels, num_classes=10)
    held_out = np.arange(len(data.train_labels), len(every))
    base = AlibiConfig(
        epsilon=epsilon, epochs=8, batch_size=256, schedule=Schedule.COSINE, dropout=0.5
    )
    accuracies, guesses = [], []
    for rate, decay in itertools.product(RATES, DECAYS):
        config = replace(base, learning_rate=rate, weight_decay=decay)
        model = config.start(data=data.public, labels=training, seed=0, performance=Performance())
        for _ in range(config.epochs):
            model.epoch()
        accuracies.append(model.evaluate())
        guesses.append(model.predict(data.public.held_out_features).argmax(1).astype(np.int64))
    counted = [vault.release(COUNT, each, indices=held_out).values[0] for each in guesses]
    # The labels to train on pay for the training, the others for the counts: no label pays both.
    paid = max(training.epsilon(delta=0.0), vault.epsilon(delta=0.0))
    assert paid == pytest.approx(max(epsilon, 9 * COUNT.epsilon))
    mechanism = base.mechanism(10)
    released = LabelVault(labels=data.held_out_labels, num_classes=10).release(mechanism).values
    size = len(data.held_out_labels)
    by_count = [
        AccuracyEstimate.from_count(each, examples=size, mechanism=COUNT) for each in counted
    ]
    by_release = [AccuracyEstimate.from_release(released, each, mechanism) for each in guesses]
    test = 100 * np.array(accuracies)
    ways = {"nine counts": _best(by_count), "one release": _best(by_release)}
    errors = {"nine counts": by_count[0].error, "one release": by_release[0].error}
    print(f"epsilon {epsilon}: test accuracy {np.round(test, 2)}, in all {paid:g}")
    lost = {way: float(test.max() - test[place]) for way, place in ways.items()}
    for way, points in lost.items():
        error = f"standard error {100 * errors[way]:.2f}"
        print(f"  {way}: {test[ways[way]]:.2f}, {points:.2f} below the best, {error}")
    assert lost["nine counts"] <= ALLOWED
    for estimate, accuracy in zip(by_count, accuracies, strict=True):
        # The test split is a sample as well.
        test_error = np.sqrt(accuracy * (1 - accuracy) / len(data.public.test_labels))
        assert abs(estimate.accuracy - accuracy) < 5 * np.hypot(estimate.error, test_error)
