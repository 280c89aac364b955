"""process_ledger: what guarantees nothing; `test_classifier` has lines, prices and totals."""

from dataclasses import replace

import pytest

from labeldp.platform.api.process_ledger import line_of
from tests.platform.sweep.examples import a_charge


@pytest.mark.parametrize("noise", [{"name": "SeededNoise", "seed": 1}, {"name": "Radio"}, None])
def test_noise_from_a_seed_or_an_unknown_source_guarantees_nothing(noise: object) -> None:
    charge = replace(a_charge(), mechanism={"name": "LaplaceNoise", "noise": noise})
    assert line_of(charge, num_labels=10, delta=1e-5).seeded
    assert not line_of(a_charge(), num_labels=10, delta=1e-5).seeded
