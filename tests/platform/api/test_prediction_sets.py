"""Prediction sets of a fitted model, by secret calibration labels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier

import labeldp
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.api import fitting
from labeldp.trainers.models.table_models import RewardPredictor
from labeldp.trainers.models.trained_model import Origin, TrainedModel
from labeldp.trainers.settings.trainer import AmountPredictor
from tests.platform.api.asked import refused

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(3000, 4))
SCORE = X[:, 0] + GENERATOR.normal(size=3000)
CLASSES = np.select([SCORE < -0.5, SCORE < 0.5], ["low", "middle"], "top")
MODEL = LogisticRegression().fit(X[:500], CLASSES[:500])


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
def test_sets_of_classes_hold_the_label_and_are_paid_for() -> None:
    sets = labeldp.PredictionSets(MODEL, epsilon=1.0, coverage=0.9)
    sets.fit(pd.DataFrame(X[500:1500]), CLASSES[500:1500])
    found = sets.predict_set(X[1500:])
    held = found[np.arange(1500), np.searchsorted(MODEL.classes_, CLASSES[1500:])]
    assert found.shape == (1500, 3) and found.dtype == bool
    assert 0.87 < held.mean() < 0.96 and found.sum(1).mean() < 2.7
    assert (sets.epsilon_, sets.delta_) == (1.0, 0.0)
    (line,) = sets.ledger_
    assert str(line).startswith("1 choice of a threshold of prediction sets: epsilon 1 for each of")
    assert "pure" in sets.guarantee_
    again = labeldp.PredictionSets(MODEL, epsilon=1.0).fit(X[500:1500], CLASSES[500:1500])
    assert again.total_epsilon_ == pytest.approx(2.0)


def test_intervals_of_amounts_hold_the_amount() -> None:
    amounts = 50 + 10 * SCORE
    model = LinearRegression().fit(X[:500], amounts[:500])
    sets = labeldp.PredictionSets(model, epsilon=1.0, bounds=(0, 100))
    found = sets.fit(X[500:1500], amounts[500:1500]).predict_set(X[1500:])
    held = (found[:, 0] <= amounts[1500:]) & (amounts[1500:] <= found[:, 1])
    assert found.shape == (1500, 2) and 0.87 < held.mean() < 0.96
    assert np.ptp(found, axis=1).mean() < 45  # 33 without noise
    says = r"bounds is None; .*bounds=\(0, 500\)"
    refused(labeldp.PredictionSets(model), X, amounts, says=says)


def test_a_saved_model_of_amounts_gives_intervals_and_one_of_rewards_is_refused() -> None:
    amounts = np.rint(25 + 5 * SCORE).clip(0, 50)  # which could be numbers of levels
    data = fitting.number_rows(X[:500], num_classes=64)
    regressor = LinearRegression().fit(data.train_features, amounts[:500] / 50)
    facts: dict[str, Any] = {"method": "", "classes": None, "num_classes": 64, "seed": 0}
    origin = Origin(**facts, epsilon=1.0, delta=0.0, noise=NoiseKind.SECURE, bounds=(0.0, 50.0))
    model = TrainedModel(
        predictor=AmountPredictor(estimator=regressor, bounds=(0.0, 50.0)),
        preprocessing=data.preprocessing,
        origin=origin,
    )
    sets = labeldp.PredictionSets(model).fit(X[500:1500], amounts[500:1500])
    found = sets.predict_set(X[1500:])
    held = (found[:, 0] <= amounts[1500:]) & (amounts[1500:] <= found[:, 1])
    assert found.shape == (1500, 2) and found.max() <= 50 and 0.87 < held.mean() < 0.97
    reward = replace(model, predictor=RewardPredictor(smooth=(), slopes=np.ones(4)))
    refused(labeldp.PredictionSets(reward), X, amounts, says="rewards have no sets")
    hard = RidgeClassifier().fit(X[:500], amounts[:500] > 25)
    refused(labeldp.PredictionSets(hard), X, amounts > 25, says="classifier, which needs predict_")


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
def test_a_vault_reads_an_equal_choice_again_and_tokens_are_looked_up() -> None:
    vault = labeldp.SharedVault(labels=CLASSES[500:1500], classes=["low", "middle", "top"])
    fits = [
        labeldp.PredictionSets(MODEL, epsilon=1.0, vault=vault).fit(X[500:1500], vault.tokens)
        for _ in range(2)
    ]
    assert fits[0].threshold_ == fits[1].threshold_ and vault.epsilon() == 1.0
    twice = np.append(np.arange(1000), 0)  # a row given twice pays twice, as in any fit
    fits[0].fit(X[500:1500][twice], vault.tokens[twice])
    assert (fits[0].epsilon_, vault.epsilon()) == (2.0, 3.0)


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
def test_the_total_beside_noise_at_a_delta_has_a_bound() -> None:
    vault = labeldp.SharedVault(labels=CLASSES[:1500], classes=["low", "middle", "top"])
    model = labeldp.LabelPrivateClassifier("moment_labels", epsilon=1.0, vault=vault)
    model.fit(X[:500], vault.tokens[:500])
    sets = labeldp.PredictionSets(MODEL, epsilon=1.0, vault=vault)
    sets.fit(X[500:1500], vault.tokens[500:1500])
    assert (sets.epsilon_, sets.delta_) == (1.0, 0.0)
    assert (sets.total_epsilon_, sets.total_delta_) == pytest.approx((1.0, 1e-5), rel=1e-6)


class Swapped:
    """The model with its classes in another order, named as a saved model names them."""

    classes = MODEL.classes_[::-1]

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(MODEL.predict_proba(rows)[:, ::-1])


@pytest.mark.filterwarnings("ignore::labeldp.PrivacyAddsUp")
def test_classes_may_have_any_order() -> None:
    found = []
    for model in (MODEL, Swapped()):
        sets = labeldp.PredictionSets(model, epsilon=300.0).fit(X[500:1500], CLASSES[500:1500])
        found.append(sets.predict_set(X[1500:]))
    np.testing.assert_array_equal(found[0], found[1][:, ::-1])


def test_a_missing_amount_is_called_so() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    amounts = rows[:, 0].clip(-1, 1)
    model = LinearRegression().fit(rows, amounts)
    amounts[3] = np.nan
    vault = labeldp.SharedVault(labels=amounts)
    with pytest.raises(ValueError, match="amount 3 is missing or infinite"):
        labeldp.PredictionSets(model, bounds=(-1, 1), vault=vault).fit(rows, vault.tokens)
    assert not vault.charges()
    for wrong in (None, LinearRegression, labeldp.LabelPrivateClassifier):
        refused(labeldp.PredictionSets(wrong), rows, amounts, says="; give a fitted model")


def test_what_cannot_be_covered_is_refused_before_it_is_paid() -> None:
    rows = X[500:1500]
    labels = CLASSES[500:1500]
    sets = labeldp.PredictionSets(MODEL, epsilon=0.5)
    few = r"40 calibration labels at epsilon 0\.5 are too few"
    refused(sets, rows[:40], labels[:40], says=few)
    other = np.where(np.arange(1000) == 3, "other", labels)
    refused(sets, rows, other, says=r"y row 3 .* is not one of the 3 stated classes")
    broken = LogisticRegression().fit(X[:500], CLASSES[:500])
    broken.intercept_ = np.full(3, np.nan)
    infinite = "predicts NaN or infinity for row 0"
    refused(labeldp.PredictionSets(broken), rows, labels, says=infinite)
    several = Swapped()
    several.classes = several.classes[:2]
    refused(labeldp.PredictionSets(several), rows, labels, says=r"\(1000, 3\) for 2 classes")
    wide = labeldp.PredictionSets(LinearRegression().fit(X, SCORE), bounds=(-1e308, 1e308))
    refused(wide, X, SCORE, says="two finite numbers")
