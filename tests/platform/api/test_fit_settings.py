"""fit_settings: what is planned costs epsilon, for every method and size; the user's own on top."""

import pytest

from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.platform.api.fit_settings import (
    FitSize,
    configured,
    fit_changes,
    refuse_prices,
)
from labeldp.platform.api.method_names import NAMED
from labeldp.platform.sweep.configuration import ConfigurationError


@pytest.mark.parametrize("rows", [10, 1000, 300_000])
@pytest.mark.parametrize("name", [name for name in NAMED if name != "no_privacy"])
def test_a_fit_is_planned_at_no_more_than_its_epsilon(name: str, rows: int) -> None:
    size = FitSize(rows=rows, shape=(20,), num_classes=3)
    config = configured(
        fit_changes(NAMED[name], size, epsilon=1.5, delta=1e-6), seed=3, settings={}
    )
    charge = config.trainer.planned_charge(num_classes=3, seed=3)
    chain = charge.chain()
    delta = delta_of_total(chain, delta=config.trainer.delta)
    assert delta == (0 if NAMED[name].pure else 1e-6)
    # PATE's noise is that of Gaussian counts, and decisions made of them cost less.
    least = 0 if name == "pate" else 1.5 - 1e-9
    assert least <= epsilon_of_prices(chain, delta=delta) <= 1.5 + 1e-9


def test_many_rows_take_fewer_epochs_and_landmarks() -> None:
    few, many = (
        fit_changes(
            NAMED["moment_labels"],
            FitSize(rows=rows, shape=(20,), num_classes=3),
            epsilon=1.0,
            delta=1e-5,
        )
        for rows in (1000, 2_000_000)
    )
    assert few["trainer.prior.landmarks"] == 1500 and many["trainer.prior.landmarks"] == 300
    assert few["trainer.epochs"] == 12 and many["trainer.epochs"] == 5


def test_the_users_own_settings_come_last_and_are_checked() -> None:
    changes = fit_changes(
        NAMED["alibi"], FitSize(rows=100, shape=(8,), num_classes=2), epsilon=1.0, delta=1e-5
    )
    config = configured(changes, seed=1, settings={"epochs": 3, "trainer.width": 7})
    assert (config.trainer.epochs, config.trainer.width, config.seed) == (3, 7, 1)
    with pytest.raises(ConfigurationError, match=r"trainer\.learning_rate"):
        configured(changes, seed=1, settings={"learnin_rate": 3})


@pytest.mark.parametrize("key", ["epsilon", "trainer.delta"])
def test_what_is_paid_is_no_setting(key: str) -> None:
    with pytest.raises(ValueError, match=rf"'{key}'; .*LabelPrivateClassifier\((epsilon|delta)="):
        refuse_prices({"epochs": 3, key: 1.0})
    refuse_prices({"epochs": 3, "prior.epsilon_like": 1.0})
