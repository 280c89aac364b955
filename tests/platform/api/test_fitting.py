"""fitting: labels that no message shows, rows of every kind, prices before the first release."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from labeldp.mechanisms.ledger import total_of_prices
from labeldp.mechanisms.randomized_response import keep_probability
from labeldp.platform.api.fitting import configured, digest_of, fit_changes, stated_classes
from labeldp.platform.api.network_fits import public_rows
from labeldp.platform.api.process_ledger import line_of
from labeldp.platform.settings.configuration import flatten
from labeldp.platform.settings.methods import ENOUGH_KEPT, NAMED, choose, name_of
from tests.platform.sweep.examples import a_charge

SECRET = np.array(["benign", "malignant", "benign"])


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ({"malignant", "benign"}, ["benign", "malignant"]),
        (frozenset("ba"), ["a", "b"]),
        (np.array([3, 1, 2]), [1, 2, 3]),
        (4, [0, 1, 2, 3]),
        (pd.Index([3, 1, 2]), [1, 2, 3]),
        (pd.Series(["b", "a"]), ["a", "b"]),
        (pd.array(["b", "a"], dtype="category"), ["a", "b"]),
        (pd.array([1, 0], dtype="Int64"), [0, 1]),
        (1000, list(range(1000))),
        ("publish", ["benign", "malignant"]),
        (None, "classes is None"),
        (1, "two classes at least"),
        (1001, "1,000 at most"),
        (range(1001), "1,000 at most"),
        (["a", "a", "b"], "one of them twice"),
        ([0, 1, None], "values of several kinds"),
        ([["a"], ["a", "b"]], "values of several kinds"),
        ("yes", "state them"),
        ({"a": 0, "b": 1}, "state them"),
        (pd.DataFrame({"a": ["no", "yes"]}), "state them"),
        (True, "state them"),
        (torch.tensor([0, 1]), "state them"),
    ],
)
def test_classes_are_stated_and_sorted_or_refused(classes: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert stated_classes(classes, SECRET).tolist() == expected
        return
    with pytest.raises(ValueError, match=expected):
        stated_classes(classes, SECRET)


GENERATOR = np.random.default_rng(0)
NUMBERS = GENERATOR.normal(size=(50, 4)) * [1, 1e6, 1e-6, 0] + 3
TABLE = pd.DataFrame({"age": np.arange(50.0), "city": ["Bern", "Rome"] * 25})


def test_digests_distinguish_rows_to_the_last_bit() -> None:
    def digest(rows: object) -> str:
        return digest_of(public_rows(rows, num_classes=2).fingerprint, rows)

    other = NUMBERS.copy()
    other[7, 1] = np.nextafter(other[7, 1], 2e9)
    assert digest(NUMBERS) == digest(NUMBERS.copy()) != digest(other)
    assert digest(NUMBERS) != digest(NUMBERS[::-1])
    assert digest(TABLE) == digest(TABLE.copy()) != digest(TABLE[::-1])


@pytest.mark.parametrize(
    ("name", "rows"),
    [*((name, 10) for name in NAMED if name != "no_privacy"), ("moment_labels", 2_000_000)],
)
def test_a_fit_is_planned_at_no_more_than_its_epsilon(name: str, rows: int) -> None:
    changes = fit_changes(NAMED[name], rows=rows, shape=(20,), epsilon=1.5, delta=1e-6)
    config = configured(changes, seed=3, settings={})
    assert name_of(flatten(config)) == name
    chain = config.trainer.planned_charge(num_classes=3, seed=3).chain()
    epsilon, delta = total_of_prices(chain, delta=config.trainer.delta)
    assert delta == (0 if NAMED[name].pure else 1e-6)
    assert 1.5 - 1e-6 <= epsilon <= 1.5 + 1e-9
    if name == "moment_labels":  # many rows take fewer epochs and landmarks
        few = (changes["trainer.epochs"], changes["trainer.prior.landmarks"])
        assert few == ((5, 300) if rows > 10**6 else (12, 1500))


def test_sums_over_a_table_are_smooth_functions_of_its_columns() -> None:
    given: Any = {"rows": 100, "shape": (8,), "epsilon": 1.0, "delta": 1e-5}
    for named_columns, source in ((False, "moments"), (True, "smooth_sums")):
        changes = fit_changes(NAMED["moment_labels"], **given, named_columns=named_columns)
        assert changes["trainer.prior.source"] == source
        assert name_of(changes) == "moment_labels"


# methods: names there and back, near misses, and the border of the rule behind `auto`.


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_single_labels_are_used_above_the_border_and_sums_below(classes: int) -> None:
    border = math.log((classes - 1) * ENOUGH_KEPT / (1 - ENOUGH_KEPT))
    assert keep_probability(epsilon=border, num_classes=classes) == pytest.approx(ENOUGH_KEPT)
    above, _ = choose(epsilon=border + 0.01, delta=1e-5, num_classes=classes)
    below, _ = choose(epsilon=border - 0.01, delta=1e-5, num_classes=classes)
    pure, reason = choose(epsilon=border - 0.01, delta=0.0, num_classes=classes)
    assert (above, below) == ("subset", "moment_labels")
    assert pure == "cluster_labels" and "delta is 0" in reason
    assert {above, below, pure} <= set(NAMED)
    size: Any = {"epsilon": 0.05, "num_classes": classes}
    few, reason = choose(**size, delta=1e-5, rows=1000)
    assert few == "cluster_labels" and "noise leaves 6 sums worthwhile" in reason
    assert choose(**size, delta=1e-5, rows=1_000_000)[0] == "moment_labels"
    with pytest.raises(ValueError, match="epsilon is 0"):
        choose(epsilon=0, delta=1e-5, num_classes=classes)


# process_ledger: what guarantees nothing; `test_classifier` has lines, prices and totals.


@pytest.mark.parametrize("noise", [{"name": "SeededNoise", "seed": 1}, {"name": "Radio"}, None])
def test_noise_from_a_seed_or_an_unknown_source_guarantees_nothing(noise: object) -> None:
    charge = replace(a_charge(), mechanism={"name": "LaplaceNoise", "noise": noise})
    assert line_of(charge, num_labels=10, delta=1e-5).seeded
    assert not line_of(a_charge(), num_labels=10, delta=1e-5).seeded
