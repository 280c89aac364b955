"""gnss: the paper's release of its cost, value by value."""

import json

import numpy as np
import pytest

from tests.mechanisms.gnss import gnss_rdp, paper_release
from tests.shared_material import shared_path


def test_official_release_costs() -> None:
    golden = json.loads(shared_path("oracle", "pate", "smooth_sensitivity.json").read_text())
    assert len(golden["gnss"]) == 100
    for row in golden["gnss"]:
        ours = gnss_rdp(beta=row["beta"], noise_multiplier=row["sigma"], order=row["order"])
        assert ours == pytest.approx(row["rdp"], rel=1e-9)


def test_official_releases() -> None:
    golden = json.loads(shared_path("oracle", "pate", "smooth_sensitivity.json").read_text())
    for row in golden["release"]:
        with np.load(shared_path("oracle", "pate", f"{row['case']}.npz")) as arrays:
            votes = arrays["votes"][: row["queries"]]
        ours = paper_release(
            votes,
            threshold=row["threshold"],
            sigma1=row["sigma1"],
            sigma2=row["sigma2"],
            order=row["order"],
            delta=row["delta"],
        )
        assert ours.expected_answered == pytest.approx(row["expected_answered"], rel=1e-9)
        assert ours.rdp == pytest.approx(row["rdp"], rel=1e-9)
        assert ours.epsilon_before == pytest.approx(row["eps_before_release"], rel=1e-9)
        assert ours.beta == pytest.approx(row["beta_opt"], rel=1e-9)
        assert ours.smooth_sensitivity == pytest.approx(row["ss_opt"], rel=1e-6)
        assert ours.noise_multiplier == pytest.approx(row["sigma_ss_opt"], rel=1e-6)
        assert ours.rdp_release == pytest.approx(row["rdp_release"], rel=1e-6)
        assert ours.epsilon_after == pytest.approx(row["eps_with_release"], rel=1e-6)
        assert ours.noise_std == pytest.approx(row["noise_std"], rel=1e-6)
