"""prices: costs against closed forms, answers to a file of votes, and the noise for a price."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from labeldp.mechanisms.accounting import epsilon_of, gaussian_epsilon
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, LNMax
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost
from labeldp.platform.cli.prices import aggregator_of
from labeldp.trainers.settings.pate import AggregatorKind, PateConfig
from tests.platform.cli.asked import answer, refusal, words


@pytest.mark.parametrize(
    ("asked", "low", "high"),
    [
        # The L1 distance of two one-hot labels is 2.
        ("laplace --scale 0.5", 4.0, 4.0),
        (f"laplace --noise-std {math.sqrt(2)}", 2.0, 2.0),
        ("rr --keep-probability 0.75 --classes 10", math.log(27), math.log(27)),
        # Papernot and Steinke 2022: at most (2 + eta) epsilon; 3 epsilon for the geometric one.
        ("select --epsilon 0.5 --mean-trials 10 --distribution geometric", 0.5, 1.5),
        ("select --epsilon 0.5 --mean-trials 10 --distribution logarithmic", 0.5, 1.5),
    ],
)
def test_prices_of_pure_noise_and_of_selections(
    asked: str, low: float, high: float, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "epsilon", *asked.split())
    assert low * (1 - 1e-12) <= found["epsilon"] <= high * (1 + 1e-12)
    assert found["delta"] == 0.0
    poisson = "select --epsilon 0.1 --mean-trials 10 --distribution poisson --delta 1e-6"
    assert 0.1 < answer(capsys, "epsilon", *poisson.split())["epsilon"] < 1.0


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
    assert "this noise is pure" in " ".join(words(capsys, *target[:2], "--help").split())


@pytest.fixture
def votes(tmp_path: Path) -> str:
    """250 teachers: 40 clear queries and 10 contested ones."""
    counts = np.array([[240, 6, 4]] * 40 + [[90, 85, 75]] * 10)
    np.savez(tmp_path / "votes.npz", counts=counts)
    return str(tmp_path / "votes.npz")


def test_the_sigma2_of_lnmax_is_a_scale_here_and_a_deviation_in_sweeps() -> None:
    settings = PateConfig(aggregator=AggregatorKind.LNMAX, sigma2=40.0)
    (request,) = settings.rounds
    found = aggregator_of("lnmax", sigma1=None, threshold=None, sigma2=40.0 / 2**0.5)
    assert found == request.aggregator == LNMax(scale=40.0 / 2**0.5)


PATE = ["--sigma1", "100", "--sigma2", "40", "--threshold", "150", "--delta", "1e-5"]
SEED = ["--seed", "1"]


def test_epsilon_pate(capsys: pytest.CaptureFixture[str], votes: str) -> None:
    arguments = ["epsilon", "pate", "--votes", f"{votes}:counts", "--aggregator", "confident"]
    found = answer(capsys, *arguments, *PATE, "--seed", "1")
    for name in ("expected", "realised"):
        assert set(found[name]) >= {"epsilon", "order", "answered"}
    assert set(found["data_independent"]) >= {"epsilon", "order"}
    assert found["expected"]["epsilon"] < found["data_independent"]["epsilon"]
    assert 0 < found["realised"]["answered"] <= 50
    if found["sanitized"] is None:
        assert found["sanitized_reason"]
    else:
        assert set(found["sanitized"]) >= {"epsilon", "delta", "beta", "noise_std"}
    assert answer(capsys, *arguments, *PATE, "--seed", "1") == found
    drawn = [found["realised"], found["data_independent"], found["sanitized"] or {}]
    assert all(price.get("simulated") is True for price in drawn if price)
    assert "simulated" not in found["expected"] and "--seed 1" in found["note"]
    said = words(capsys, *arguments, *PATE)
    assert "simulated: True" in said and "drawn here with fresh noise, and not about any" in said
    older = answer(capsys, *arguments, *PATE, "--seed", "1", "--conversion", "mironov")
    assert older["expected"]["epsilon"] > found["expected"]["epsilon"]
    fewer = answer(capsys, *arguments, *PATE, "--seed", "1", "--answer", "5")
    assert fewer["realised"]["answered"] == 5


@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax"])
def test_epsilon_pate_without_a_check(
    capsys: pytest.CaptureFixture[str], votes: str, aggregator: str
) -> None:
    arguments = ["--votes", votes, "--aggregator", aggregator, "--sigma2", "40", "--delta", "1e-5"]
    found = answer(capsys, "epsilon", "pate", *arguments)
    assert found["realised"]["answered"] == found["expected"]["answered"] == 50
    assert found["realised"]["epsilon"] <= found["data_independent"]["epsilon"]


@pytest.mark.parametrize("answers", [5, 50])
@pytest.mark.parametrize(
    ("aggregator", "options"),
    [
        (ConfidentGNMax(threshold=150.0, sigma1=100.0, sigma2=40.0), ["confident", *PATE]),
        (GNMax(noise_std=40.0), ["gnmax", "--sigma2", "40", "--delta", "1e-5"]),
    ],
)
def test_the_command_line_and_a_sweep_publish_one_bound(
    capsys: pytest.CaptureFixture[str],
    votes: str,
    aggregator: ConfidentGNMax | GNMax,
    options: list[str],
    answers: int,
) -> None:
    """What a sweep's vault releases and its desk caps, with the noise of the command line."""
    counts = np.load(votes)["counts"]
    request = PateAnswers(aggregator=aggregator, queries=50, max_answers=answers)
    published = PublishedCost.of(request, teachers=250, classes=3, delta=1e-5)
    assert published is not None
    generator = np.random.default_rng(1)
    released = request.release(counts, generator=generator)
    bound = float(published.release(counts, released, generator=generator)[0])
    arguments = ["epsilon", "pate", "--votes", votes, "--aggregator", *options]
    found = answer(capsys, *arguments, "--seed", "1", "--answer", str(answers))["sanitized"]
    # Releases are rounded up to single precision.
    assert found["epsilon"] == pytest.approx(published.capped(bound, request), rel=2e-7)
    assert found["beta"] == published.publishing_noise.beta
    whole = epsilon_of([request.event, published.event], delta=1e-5 - published.tail)
    assert found["epsilon"] <= whole


def test_calibrate_pate(capsys: pytest.CaptureFixture[str], votes: str) -> None:
    arguments = ("--votes", votes, "--epsilon", "5", "--delta", "1e-5", "--answer", "20")
    found = answer(capsys, "calibrate", "pate", *arguments)
    assert set(found) >= {"sigma1", "sigma2", "threshold", "epsilon"}
    assert 0 < found["epsilon"] <= 5


def test_both_prices_of_the_same_answers(capsys: pytest.CaptureFixture[str], votes: str) -> None:
    arguments = ["epsilon", "pate", "--votes", votes, "--aggregator", "confident", *PATE, *SEED]
    found = answer(capsys, *arguments)
    assert answer(capsys, *arguments, "--accounting", "decision") == found
    counts = answer(capsys, *arguments, "--accounting", "counts")
    assert (found["accounting"], counts["accounting"]) == ("decision", "counts")
    for name in ("expected", "realised", "data_independent"):
        assert found[name] == counts["by_decision"][name]
        assert counts[name] == found["by_counts"][name]
        assert found[name]["epsilon"] < 0.95 * counts[name]["epsilon"]
    assert counts["sanitized"] == found["sanitized"]
    assert "accounting_note" not in found and "accounting_note" not in counts


@pytest.mark.parametrize(("aggregator", "sigma2"), [("gnmax", "0.1"), ("lnmax", "40")])
def test_a_word_where_decisions_are_priced_as_their_counts(
    capsys: pytest.CaptureFixture[str], votes: str, aggregator: str, sigma2: str
) -> None:
    arguments = ["--votes", votes, "--aggregator", aggregator, "--sigma2", sigma2]
    found = answer(capsys, "epsilon", "pate", *arguments, "--delta", "1e-5")
    assert "priced as their counts" in found["accounting_note"]
    both = found["data_independent"]["epsilon"], found["by_counts"]["data_independent"]["epsilon"]
    assert both[0] == pytest.approx(both[1])


def test_decisions_are_calibrated_to_less_noise(
    capsys: pytest.CaptureFixture[str], votes: str
) -> None:
    arguments = ("--votes", votes, "--epsilon", "1", "--delta", "1e-5", "--answer", "20")
    found = answer(capsys, "calibrate", "pate", *arguments)
    counts = answer(capsys, "calibrate", "pate", *arguments, "--accounting", "counts")
    assert (found["accounting"], counts["accounting"]) == ("decision", "counts")
    assert 0.999 < found["epsilon"] <= 1 and 0.999 < counts["epsilon"] <= 1
    assert found["sigma1"] * found["sigma2"] < 0.8 * counts["sigma1"] * counts["sigma2"]


def test_any_votes_are_priced_and_aimed_at_without_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for aggregator in ("confident", "gnmax", "lnmax"):
        kind = ["--aggregator", aggregator, "--delta", "1e-5", "--answer", "300"]
        kind += ["--queries", "1000"] if aggregator == "confident" else []
        found = answer(capsys, "calibrate", "pate", *kind, "--epsilon", "1")
        assert found["epsilon"] == pytest.approx(1, rel=1e-6) and not found["chosen_from_votes"]
        noise = ["--sigma1", str(found["sigma1"])] if found["sigma1"] is not None else []
        priced = answer(capsys, "epsilon", "pate", *kind, "--sigma2", str(found["sigma2"]), *noise)
        assert priced["epsilon"] == pytest.approx(1, rel=1e-6)
        assert priced["by_counts"] >= priced["epsilon"] * (1 - 1e-9)
    gnmax = ("epsilon", "pate", "--aggregator", "gnmax", "--sigma2", "40", "--delta", "1e-5")
    assert "needs the number of answers: --answer K" in refusal(capsys, *gnmax)
