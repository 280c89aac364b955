"""prices: the same numbers as the command line's, for names and for objects."""

import json

import pytest

from labeldp import epsilon
from labeldp.mechanisms import GaussianNoise, LaplaceNoise, RandomizedResponse
from labeldp.platform.cli.command_line import main


@pytest.mark.parametrize(
    ("found", "arguments"),
    [
        (epsilon("laplace", noise_std=2.0), "laplace --noise-std 2"),
        (epsilon("gaussian", noise_std=4.0, delta=1e-6), "gaussian --noise-std 4 --delta 1e-6"),
        (epsilon("rr", keep_probability=0.7, classes=5), "rr --keep-probability .7 --classes 5"),
    ],
)
def test_names_cost_the_same_on_the_command_line(
    found: float, arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["epsilon", *arguments.split(), "--json"])
    assert json.loads(capsys.readouterr().out)["epsilon"] == found


def test_mechanisms_cost_their_composed_price_together() -> None:
    laplace = LaplaceNoise(epsilon=0.5, num_classes=4)
    response = RandomizedResponse(epsilon=0.25, num_classes=4)
    assert epsilon(laplace, response) == 0.75
    gaussian = GaussianNoise(noise_std=8.0, num_classes=4)
    assert epsilon(gaussian) == epsilon("gaussian", noise_std=8.0, delta=1e-5)
    assert epsilon(gaussian, gaussian, delta=1e-6) > epsilon(gaussian, delta=1e-6)


def test_near_misses_and_numbers_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean laplace"):
        epsilon("laplac", scale=1.0)
    with pytest.raises(TypeError, match="delta"):
        epsilon("laplace", scale=1.0, delta=1e-5)
    with pytest.raises(TypeError, match="scale"):
        epsilon(LaplaceNoise(epsilon=1.0, num_classes=2), scale=1.0)
