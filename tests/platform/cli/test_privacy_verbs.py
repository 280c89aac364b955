"""privacy_verbs: costs against closed forms, and calibration as the way back."""

import math

import pytest
from scipy.stats import norm

from labeldp.mechanisms.accounting import gaussian_epsilon
from labeldp.platform.cli.command_line import main
from tests.platform.cli.asked import answer


def test_epsilon_laplace(capsys: pytest.CaptureFixture[str]) -> None:
    # The L1 distance of two one-hot labels is 2.
    found = answer(capsys, "epsilon", "laplace", "--scale", "0.5")
    assert (found["epsilon"], found["delta"]) == (4.0, 0.0)
    found = answer(capsys, "epsilon", "laplace", "--noise-std", str(math.sqrt(2)))
    assert found["epsilon"] == pytest.approx(2.0, rel=1e-12)


def test_epsilon_gaussian(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("epsilon", "gaussian", "--noise-std", "2.8197", "--delta", "1e-5")
    found = answer(capsys, *arguments)
    # Balle and Wang 2018, theorem 8, with an L2 sensitivity of sqrt 2.
    shift, epsilon = math.sqrt(2) / 2.8197, found["epsilon"]
    delta = norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(
        -shift / 2 - epsilon / shift
    )
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert found["delta"] == 1e-5
    assert epsilon == pytest.approx(2.0, abs=1e-4)


def test_epsilon_rr(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "epsilon", "rr", "--keep-probability", "0.75", "--classes", "10")
    assert found["epsilon"] == pytest.approx(math.log(27), rel=1e-12)


@pytest.mark.parametrize(("distribution", "factor"), [("geometric", 3), ("logarithmic", 3)])
def test_epsilon_select(
    capsys: pytest.CaptureFixture[str], distribution: str, factor: float
) -> None:
    arguments = ("--epsilon", "0.5", "--mean-trials", "10", "--distribution", distribution)
    found = answer(capsys, "epsilon", "select", *arguments)
    assert set(found) >= {"epsilon", "delta"}
    # Papernot and Steinke 2022: at most (2 + eta) epsilon; 3 epsilon for the geometric one.
    assert 0.5 < found["epsilon"] <= factor * 0.5 + 1e-12
    assert found["delta"] == 0


def test_epsilon_select_poisson_needs_a_delta(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("epsilon", "select", "--epsilon", "0.1", "--mean-trials", "10")
    with_delta = (*arguments, "--distribution", "poisson", "--delta", "1e-6")
    assert 0.1 < answer(capsys, *with_delta)["epsilon"] < 1.0


@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_calibrate_is_the_way_back(capsys: pytest.CaptureFixture[str], epsilon: str) -> None:
    target = float(epsilon)
    laplace = answer(capsys, "calibrate", "laplace", "--epsilon", epsilon)
    assert laplace["scale"] == pytest.approx(2 / target, rel=1e-12)
    again = answer(capsys, "epsilon", "laplace", "--scale", repr(laplace["scale"]))
    assert again["epsilon"] == laplace["epsilon"] == pytest.approx(target, rel=1e-12)
    gaussian = answer(capsys, "calibrate", "gaussian", "--epsilon", epsilon, "--delta", "1e-6")
    multiplier = gaussian["noise_std"] / math.sqrt(2)
    exact = gaussian_epsilon(noise_multiplier=multiplier, delta=1e-6)
    assert exact == gaussian["epsilon"] == pytest.approx(target, rel=1e-9)
    rr = answer(capsys, "calibrate", "rr", "--epsilon", epsilon, "--classes", "10")
    keep = math.exp(target) / (math.exp(target) + 9)
    assert rr["keep_probability"] == pytest.approx(keep, rel=1e-12)
    for found in (laplace, gaussian, rr):
        assert found["epsilon"] <= target


@pytest.mark.parametrize("noise", ["laplace", "rr"])
def test_a_delta_changes_nothing_about_pure_noise_and_the_help_says_so(
    capsys: pytest.CaptureFixture[str], noise: str
) -> None:
    target = ("calibrate", noise, "--epsilon", "1")
    assert answer(capsys, *target) == answer(capsys, *target, "--delta", "1e-5")
    with pytest.raises(SystemExit):
        main(["calibrate", noise, "--help"])
    assert "this noise is pure" in " ".join(capsys.readouterr().out.split())
