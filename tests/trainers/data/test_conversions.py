"""The synthetic log: its law of purchases stays as it is, and a person's visits are alike."""

import numpy as np
import pytest

from labeldp.trainers.data.conversions import SECRETS, conversions


def test_columns_that_came_first_keep_their_numbers() -> None:
    log = conversions(2000, seed=3)
    assert (log.bought == "yes").sum() == 38
    assert log.id[0] == "v000001840"
    assert float(log.probability.sum()) == pytest.approx(40.0, abs=1e-6)  # a share of 2%
    assert float(log.days.sum()) == pytest.approx(412901.5586, abs=1e-3)


def test_a_person_makes_up_to_20_visits_from_one_device() -> None:
    log = conversions(20_000, seed=0)
    people = log.groupby("person")
    visits = people.size()
    assert set(visits) == set(range(1, 21))
    assert people[["country", "device"]].nunique().max().tolist() == [1, 1]
    # A name does not say how often the person came.
    assert abs(np.corrcoef(visits, visits.index.str[1:].astype(int))[0, 1]) < 0.1


def test_purchases_alone_have_an_amount_and_a_delay() -> None:
    log = conversions(50_000, seed=0)
    bought = log.bought == "yes"
    assert (log.amount > 0).equals(bought) and log.delay.notna().equals(bought)
    assert (log.delay[bought] >= 0).all()
    dear = bought & (log.price > log.price[bought].median())
    assert log.delay[dear].mean() > log.delay[bought & ~dear].mean()
    assert set(SECRETS) <= set(log.columns)
