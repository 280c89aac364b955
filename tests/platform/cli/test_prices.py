"""prices: costs and the noise for them, answers to a file of votes, and to any votes."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost
from labeldp.platform.cli.bounds import aggregator_of
from labeldp.trainers.methods.pate_settings import AggregatorKind, PateConfig
from tests.platform.cli.asked import answer, refusal, words


@pytest.mark.parametrize("epsilon", ["0.1", "8"])
def test_calibrate_is_the_way_back(epsilon: str) -> None:
    target = float(epsilon)
    for noise, given in (
        ("laplace", {"--scale": "scale"}),
        ("gaussian --delta 1e-6", {"--noise-std": "noise_std"}),
        ("rr --classes 10", {"--keep-probability": "keep_probability"}),
    ):
        found = answer("calibrate", *noise.split(), "--epsilon", epsilon)
        numbers = [word for name, key in given.items() for word in (name, repr(found[key]))]
        again = answer("epsilon", *noise.split(), *numbers)
        assert again["epsilon"] == pytest.approx(found["epsilon"], rel=1e-12)
        assert target * (1 - 1e-9) <= found["epsilon"] <= target
        if "--delta" not in noise:
            pure = ("calibrate", *noise.split(), "--epsilon", epsilon, "--delta", "1e-5")
            assert answer(*pure) == found
    assert "this noise is pure" in " ".join(words("calibrate", "rr", "--help").split())


def test_the_sigma2_of_lnmax_is_a_scale_here_and_a_deviation_in_sweeps() -> None:
    settings = PateConfig(aggregator=AggregatorKind.LNMAX, sigma2=40.0)
    (request,) = settings.rounds
    found = aggregator_of("lnmax", sigma1=None, threshold=None, sigma2=40.0 / 2**0.5)
    assert found == request.aggregator == LNMax(scale=40.0 / 2**0.5)


@pytest.fixture
def votes(tmp_path: Path) -> str:
    """250 teachers: 40 clear queries and 10 contested ones."""
    counts = np.array([[240, 6, 4]] * 40 + [[90, 85, 75]] * 10)
    np.savez(tmp_path / "votes.npz", counts=counts)
    return str(tmp_path / "votes.npz")


CONFIDENT = ("confident", "--sigma1", "100", "--sigma2", "40", "--threshold", "150")


def test_epsilon_pate(votes: str) -> None:
    asked = ("epsilon", "pate", "--votes", f"{votes}:counts", "--delta", "1e-5", "--aggregator")
    seeded = (*asked, *CONFIDENT, "--seed", "1")
    found = answer(*seeded)
    for name in ("expected", "realised"):
        assert set(found[name]) >= {"epsilon", "order", "answered"}
    assert set(found["data_independent"]) >= {"epsilon", "order"}
    assert found["expected"]["epsilon"] < found["data_independent"]["epsilon"]
    assert 0 < found["realised"]["answered"] <= 50
    assert set(found["sanitized"]) >= {"epsilon", "delta", "beta", "noise_std"}
    drawn = [found["realised"], found["data_independent"], found["sanitized"]]
    assert all(price["simulated"] is True for price in drawn)
    assert "simulated" not in found["expected"] and "--seed" in found["note"]
    assert "drawn here with fresh noise" in words(*asked, *CONFIDENT)
    older = answer(*seeded, "--conversion", "mironov")
    assert older["expected"]["epsilon"] > found["expected"]["epsilon"]
    assert answer(*seeded, "--answer", "5")["realised"]["answered"] == 5
    counts = answer(*seeded, "--accounting", "counts")
    assert (found["accounting"], counts["accounting"]) == ("decision", "counts")
    for name in ("expected", "realised", "data_independent"):
        assert found[name]["epsilon"] < 0.95 * counts[name]["epsilon"]
    assert counts["sanitized"] == found["sanitized"]
    laplace = answer(*asked, "lnmax", "--sigma2", "40")
    assert laplace["realised"]["answered"] == laplace["expected"]["answered"] == 50
    assert laplace["sanitized"] is None and "not for lnmax" in laplace["sanitized_reason"]
    assert "needs --sigma1" in refusal(*asked, *CONFIDENT[:1], "--sigma2", "40")
    assert "has no check" in refusal(*asked, "gnmax", *CONFIDENT[1:])
    line = refusal(*seeded, "--queries", "10")
    assert "--queries is 10, but --votes determines it" in line


@pytest.mark.parametrize("answers", [5, 50])
@pytest.mark.parametrize(
    ("aggregator", "options"),
    [
        (ConfidentGNMax(threshold=150.0, sigma1=100.0, sigma2=40.0), CONFIDENT),
        (GNMax(noise_std=40.0), ("gnmax", "--sigma2", "40")),
    ],
)
def test_the_command_line_and_a_sweep_publish_one_bound(
    votes: str, aggregator: ConfidentGNMax | GNMax, options: tuple[str, ...], answers: int
) -> None:
    """What a sweep's vault releases and its desk caps, with the noise of the command line."""
    counts = np.load(votes)["counts"]
    request = PateAnswers(aggregator=aggregator, queries=50, max_answers=answers)
    published = PublishedCost.of(request, teachers=250, classes=3, delta=1e-5)
    assert published is not None
    generator = np.random.default_rng(1)
    released = request.release(counts, generator=generator)
    bound = float(published.release(counts, released, generator=generator)[0])
    asked = ("epsilon", "pate", "--votes", votes, "--delta", "1e-5", "--seed", "1")
    more = ("--aggregator", *options, "--answer", str(answers))
    found = answer(*asked, *more)["sanitized"]
    # Releases are rounded up to single precision.
    assert found["epsilon"] == pytest.approx(published.capped(bound, request), rel=2e-7)
    assert found["beta"] == published.publishing_noise.beta
    whole = epsilon_of([request.event, published.event], delta=1e-5 - published.tail)
    assert found["epsilon"] <= whole


def test_calibrate_pate_reads_of_votes_their_numbers_alone(votes: str) -> None:
    asked = ("calibrate", "pate", "--epsilon", "1", "--delta", "1e-5", "--answer", "20")
    found = answer(*asked, "--votes", votes)
    assert found == answer(*asked, "--queries", "50", "--teachers", "250")
    assert 0.999 < found["epsilon"] <= 1 and found["threshold"] == 150
    assert "--teachers is 9, but --votes" in refusal(*asked, "--votes", votes, "--teachers", "9")


def test_any_votes_are_priced_and_aimed_at_without_a_file() -> None:
    for aggregator in ("confident", "gnmax", "lnmax"):
        kind = ["--aggregator", aggregator, "--delta", "1e-5", "--answer", "300"]
        kind += ["--queries", "1000"] if aggregator == "confident" else []
        found = answer("calibrate", "pate", *kind, "--epsilon", "1")
        assert found["epsilon"] == pytest.approx(1, rel=1e-6) and not found["chosen_from_votes"]
        noise = ["--sigma1", str(found["sigma1"])] if found["sigma1"] is not None else []
        priced = answer("epsilon", "pate", *kind, "--sigma2", str(found["sigma2"]), *noise)
        assert priced["epsilon"] == pytest.approx(1, rel=1e-6)
        by_counts = (*kind, "--sigma2", str(found["sigma2"]), *noise, "--accounting", "counts")
        published = answer("epsilon", "pate", *by_counts)["epsilon"]
        assert published >= priced["epsilon"] * (1 - 1e-9)
    gnmax = ("epsilon", "pate", "--aggregator", "gnmax", "--sigma2", "40", "--delta", "1e-5")
    assert "needs the number of answers: --answer K" in refusal(*gnmax)
