"""ledger_lines: a charge in words, at its own price."""

from dataclasses import replace
from typing import Any

import numpy as np

from labeldp.mechanisms.accounting import GaussianEvent
from labeldp.mechanisms.release_store import Charge
from labeldp.platform.api.ledger_lines import guarantee, line_of
from tests.platform.sweep.examples import a_charge


def test_a_line_says_what_when_paid_and_for_how_many() -> None:
    line = line_of(a_charge(epsilon=0.5), num_labels=1200, delta=1e-5, new=False)
    assert (line.epsilon, line.delta, line.labels, line.seeded) == (0.5, 0.0, 1200, False)
    assert str(line) == (
        "one release of Laplace noise: epsilon 0.5 for each of 1,200 labels, paid by an earlier "
        "fit and read again"
    )


def test_what_is_not_pure_is_stated_at_its_delta_and_a_seed_is_said() -> None:
    charge = Charge(
        key="k",
        event=GaussianEvent(noise_multiplier=3.0),
        indices=np.arange(7),
        mechanism={"name": "LabelMoments", "noise": {"name": "SeededNoise", "seed": 1}},
        failure_probability=0.0,
    )
    line = line_of(charge, num_labels=10, delta=1e-5)
    assert line.labels == 7 and line.delta == 1e-5 and line.seeded
    assert "at delta 1e-05 for each of 7 labels, paid now; noise from a seed" in str(line)


def test_noise_that_is_not_known_is_called_no_guarantee() -> None:
    for noise in ({"name": "RadioNoise"}, None):
        charge = replace(a_charge(), mechanism={"name": "LaplaceNoise", "noise": noise})
        assert line_of(charge, num_labels=10, delta=1e-5).seeded
    assert not line_of(a_charge(), num_labels=10, delta=1e-5).seeded


def test_a_guarantee_says_what_voids_it() -> None:
    facts: dict[str, Any] = dict(epsilon=1.0, delta=0.0, total=(3.0, 0.0), noise_seed=None)
    facts |= {"seeded": False, "scope": "all fits with its vault"}
    said = guarantee(**facts)
    assert "epsilon 1 (pure) for this fit and 3 for all fits" in said and "seed" not in said
    for change, words in (
        ({"seeded": True}, "came from a seed, and hides nothing"),
        ({"noise_seed": 4}, "not private: the noise comes from seed 4"),
        ({"epsilon": np.inf}, "not private: labels were published"),
        ({"total": (np.inf, 0.0)}, "for this fit and without any bound for all"),
        ({"not_counted": ["workers"]}, "features are not protected; not counted: workers"),
        ({"total": (3.0, 1e-5)}, "1 (pure) for this fit and 3 at delta 1e-05 for all fits"),
    ):
        assert words in guarantee(**{**facts, **change})
