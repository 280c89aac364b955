"""process_ledger: lines at their own prices; `test_classifier` has the totals of fits."""

from dataclasses import replace

import numpy as np

from labeldp.mechanisms.accounting import GaussianEvent
from labeldp.platform.api.process_ledger import line_of
from tests.platform.sweep.examples import a_charge


def test_a_line_has_mechanism_price_and_number_of_labels() -> None:
    line = line_of(a_charge(epsilon=0.5), num_labels=1200, delta=1e-5, new=False)
    assert (line.epsilon, line.delta, line.labels, line.seeded) == (0.5, 0.0, 1200, False)
    assert str(line) == (
        "1 release of Laplace noise: epsilon 0.5 for each of 1,200 labels, paid by an earlier "
        "fit and read again"
    )
    gaussian = replace(
        a_charge(),
        event=GaussianEvent(noise_multiplier=3.0),
        indices=np.arange(7),
        mechanism={"name": "LabelMoments", "noise": {"name": "SeededNoise", "seed": 1}},
    )
    line = line_of(gaussian, num_labels=10, delta=1e-5)
    assert line.labels == 7 and line.delta == 1e-5 and line.seeded
    assert "at delta 1e-05 for each of 7 labels, paid now; noise from a seed" in str(line)
    for noise in ({"name": "RadioNoise"}, None):  # unknown sources guarantee nothing
        charge = replace(a_charge(), mechanism={"name": "LaplaceNoise", "noise": noise})
        assert line_of(charge, num_labels=10, delta=1e-5).seeded
