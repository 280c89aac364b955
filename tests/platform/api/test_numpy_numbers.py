"""Epsilon and delta in NumPy's kinds of numbers: priced, drawn and stored as what they are."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.calibration import price_gaussian
from labeldp.platform.api.classifier import LabelPrivateClassifier
from labeldp.platform.api.label_release import epsilon as price_of
from labeldp.platform.api.label_release import privatize
from labeldp.platform.api.regressor import LabelPrivateRegressor
from labeldp.platform.vault.shared_vault import SharedVault

ROWS = np.random.default_rng(0).normal(size=(200, 3))


LOW_AND_HIGH: Any = (np.float32(-3), 3)


def classifier(epsilon: Any, delta: Any, method: str, vault: Any) -> Any:
    return LabelPrivateClassifier(
        method, epsilon=epsilon, delta=delta, classes=2, vault=vault, estimator=LogisticRegression()
    ).fit(ROWS, (ROWS[:, 0] > 0).astype(int))


def regressor(epsilon: Any, delta: Any, method: str, vault: Any) -> Any:
    return LabelPrivateRegressor(
        epsilon=epsilon,
        delta=delta,
        bounds=LOW_AND_HIGH,
        method=method,
        vault=vault,
        estimator=LinearRegression(),
    ).fit(ROWS, ROWS[:, 0])


@pytest.mark.parametrize(
    ("fit", "method"),
    [
        *((classifier, method) for method in ("alibi", "subset", "moment_labels")),
        *((regressor, method) for method in ("sums", "randomized_response")),
    ],
)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_a_fit_pays_for_the_number_and_once(fit: Any, method: str, kind: Any) -> None:
    own = kind(0.3)
    first = fit(own, np.float32(1e-5), method, "vault")
    assert type(first.epsilon_) is float and type(first.delta_) is float
    assert float(own) * (1 - 1e-6) <= first.epsilon_ <= float(own) * (1 + 1e-12)
    again = fit(float(own), float(np.float32(1e-5)), method, "vault")
    assert not any(line.new for line in again.ledger_) and again.epsilon_ == first.epsilon_
    epsilon, delta = SharedVault("vault").total(delta=np.float32(1e-5))  # type: ignore[arg-type]
    assert type(epsilon) is float and type(delta) is float
    assert epsilon <= float(own) * (1 + 1e-12)


def test_true_is_no_epsilon() -> None:
    every: tuple[Any, ...] = (True, np.True_)
    for wrong in every:
        with pytest.raises(ValueError, match="must be a number"):
            classifier(wrong, 1e-5, "alibi", None)
        with pytest.raises(ValueError, match="must be a number"):
            regressor(wrong, 1e-5, "auto", None)
        with pytest.raises(ValueError, match="must be a number"):
            privatize([0, 1], epsilon=wrong, classes=[0, 1])


def test_functions_of_prices_calculate_with_the_number() -> None:
    small: Any = np.float32(0.1)
    release = privatize(
        ["a", "b"] * 20,
        epsilon=small,
        classes=["a", "b"],
        groups=[1, 2] * 20,
        max_labels_per_person=3,
    )
    assert release.epsilon == pytest.approx(float(small), rel=1e-15)
    assert release.mechanism.epsilon == float(small) / 3
    noise: Any = np.float32(5)
    exact = price_gaussian(noise_std=5.0, delta=1e-5)
    assert price_of(GaussianNoise(noise_std=noise, num_classes=2), delta=1e-5) == exact
    assert price_gaussian(noise_std=noise, delta=1e-5) == exact
