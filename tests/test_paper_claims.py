"""The small measurements of the papers' claims find what is so by construction."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binom

from labeldp.trainers.data.labelled_data import LabelledData, PublicData
from tests.benchmarks.memorization_games import play
from tests.benchmarks.pate_choices import spoiled, uncurated


@pytest.mark.parametrize("same_canary", [True, False])
def test_a_canary_is_guessed_as_often_as_its_noise_allows(*, same_canary: bool) -> None:
    epsilon = 3.0
    guesses, correct = play(epsilon=epsilon, runs=1000, same_canary=same_canary, seed=0)
    assert guesses > 500
    # Interpolation shows the noisy label, which is one of the two in most runs.
    assert 0.85 < correct / guesses < 1 / (1 + np.exp(-epsilon)) + 0.02


def test_without_a_bit_of_budget_a_canary_is_a_coin() -> None:
    guesses, correct = play(epsilon=1e-3, runs=2000, same_canary=False, seed=0)
    assert binom.ppf(5e-5, guesses, 0.5) <= correct <= binom.ppf(1 - 5e-5, guesses, 0.5)


def test_uncurated_data_have_the_wrong_labels_and_rare_classes_that_are_asked_for() -> None:
    truth = np.repeat(np.arange(4), 500)
    features = torch.eye(4)[truth]
    public = PublicData(
        name="made up",
        num_classes=4,
        train_features=features,
        test_features=features[::10],
        test_labels=truth[::10],
    )
    data = LabelledData(public=public, train_labels=truth)
    worse, truth = spoiled(data, wrong=0.2, rarest=0.1, seed=0)
    shares = np.bincount(truth) / 500
    np.testing.assert_allclose(shares, [1, 0.1 ** (1 / 3), 0.1 ** (2 / 3), 0.1], atol=0.06)
    assert (worse.train_labels != truth).mean() == pytest.approx(0.2, abs=0.04)
    assert worse.public.train_features.argmax(1).tolist() == truth.tolist()
    same, _ = spoiled(data, wrong=0.0, rarest=1.0, seed=0)
    assert same.train_labels.tolist() == data.train_labels.tolist()


def test_students_on_answers_and_on_labels_are_drawn_beside_the_cost() -> None:
    kinds = pd.MultiIndex.from_tuples([(0.0, 1.0), (0.2, 0.05)])
    found = {"answers": [90, 80], "their labels": [91, 70], "labels of any": [92, 71]}
    axes: Any = uncurated(pd.DataFrame({**found, "cost": [1.0, 1.5]}, kinds)).axes
    accuracy, cost = axes
    assert [bar.get_width() for bar in accuracy.patches] == [90, 80, 91, 70, 92, 71]
    assert [bar.get_width() for bar in cost.patches] == [1.0, 1.5]
    names = [text.get_text() for text in accuracy.get_yticklabels()]
    assert names == ["as they are", "20% wrong, rarest 1:20"]
