"""Optimal channels: golden values, exact digits, distributions, and the cases that are known."""

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chisquare

from labeldp.mechanisms import channels
from labeldp.mechanisms.channels import (
    ProgramNotSolved,
    StaircaseChannel,
    SubsetSelection,
    optimal_channel,
)
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from tests.shared_material import shared_path

EPSILONS = st.sampled_from([0.01, 0.3, 1.0, 4.0, 12.0, 50.0])


def golden(kind: str) -> list[dict[str, Any]]:
    rows: dict[str, Any] = json.loads(
        shared_path("oracle", "channels", "channels.json").read_text()
    )
    return list(rows[kind])


def capacity(epsilon: float) -> float:
    """The most nats that an epsilon-DP output has about a label, under any prior."""
    peak = epsilon / -math.expm1(-epsilon)
    return peak - 1 - math.log(peak)


def test_the_best_subset_and_its_information_are_golden() -> None:
    for row in golden("uniform"):
        found = SubsetSelection(epsilon=row["epsilon"], num_classes=row["classes"])
        assert found.subset_size == row["subset"]
        assert found.information == pytest.approx(row["nats_subset"], rel=1e-6)
        one = SubsetSelection(epsilon=row["epsilon"], num_classes=row["classes"], subset_size=1)
        assert one.information == pytest.approx(row["nats_randomized_response"], rel=1e-6)


def test_the_information_under_a_prior_is_golden() -> None:
    for row in golden("prior"):
        found = optimal_channel(row["prior"], row["epsilon"])
        assert found.utility == pytest.approx(row["nats_optimal"], rel=1e-6)
        correct = optimal_channel(row["prior"], row["epsilon"], "correct").utility
        prior = np.array([row["prior"]])
        known = RRWithPrior(epsilon=row["epsilon"]).keep_probability(prior)[0]
        assert correct == pytest.approx(known, rel=1e-9)


def test_the_squared_error_is_golden() -> None:
    for row in golden("squared_error"):
        first, last, step = row["grid"]
        found = optimal_channel(
            row["prior"],
            row["epsilon"],
            "squared_error",
            values=row["values"],
            outputs=np.arange(first, last + step / 2, step),
            unbiased=row["unbiased"],
        )
        assert found.utility == pytest.approx(row["mse"], rel=1e-6)
        table = found.probabilities  # as exact as floats are: the solver alone leaves lone outputs
        assert (table.max(0) <= math.exp(row["epsilon"]) * table.min(0) * (1 + 1e-9)).all()


@given(
    prior=arrays(float, st.integers(2, 14), elements=st.floats(0, 1)).filter(lambda p: p.sum() > 0),
    epsilon=EPSILONS.filter(lambda epsilon: epsilon < 10),
)
@example(prior=np.array([*[1.0] * 9, 2e-313, 0, 0]), epsilon=1.0)
@settings(max_examples=40, deadline=None)
def test_a_channel_is_private_and_tells_no_more_than_any_may(prior: Any, epsilon: float) -> None:
    prior = prior / prior.sum()
    found = optimal_channel(prior, epsilon)
    columns = found.probabilities.T
    assert np.allclose(found.probabilities.sum(1), 1)
    used = columns[columns.max(1) > 1e-9]
    assert (used.max(1) <= used.min(1) * math.exp(epsilon) * (1 + 1e-6)).all()
    assert found.utility <= capacity(epsilon)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 1.0])
def test_many_classes_tell_more_than_subset_selection(alpha: float) -> None:
    priors = np.random.default_rng(0).dirichlet(np.full(20, alpha), size=5) + 1e-4
    for prior in priors / priors.sum(1, keepdims=True):
        found = optimal_channel(prior, 1.0)
        sets = channels._windows(20, SubsetSelection(epsilon=1.0, num_classes=20).size)
        weight = 1 / (1 + math.expm1(1.0) * sets[0].mean())
        flat = weight * channels._gains(sets, prior, 1.0, channels.Utility.INFORMATION).mean()
        assert flat < found.utility <= capacity(1.0)


@given(seed=st.integers(0, 1000), classes=st.sampled_from([2, 3, 10, 11, 30]), epsilon=EPSILONS)
@settings(max_examples=30, deadline=None)
def test_no_two_digits_differ_by_more_than_the_factor(
    seed: int, classes: int, epsilon: float
) -> None:
    """In whole numbers: each output's weights, and what is left for the empty set."""
    priors = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), size=4)
    found, _ = StaircaseChannel(epsilon=epsilon)._channels(-np.sort(-priors, axis=1))
    factor = Fraction(math.exp(min(epsilon, 700)))
    for channel in found:
        inside, outside, total = channel.digits(min(epsilon, 30.0))
        for high, low in zip(inside.tolist(), outside.tolist(), strict=True):
            assert low <= high <= factor * low
        sums = np.where(channel.sets.T, inside, outside).sum(axis=1)
        empty = [total - int(each) for each in sums]
        assert max(empty) <= factor * min(empty)
        assert total < 2**62 and max(empty) < total / 50


@given(classes=st.integers(2, 300), size=st.integers(1, 299), epsilon=EPSILONS)
@settings(deadline=None)
def test_subset_selection_holds_the_label_with_no_more_than_its_probability(
    classes: int, size: int, epsilon: float
) -> None:
    """Exactly, in the digits that are drawn."""
    size = 1 + size % (classes - 1)
    held, rest = SubsetSelection(epsilon=epsilon, num_classes=classes, subset_size=size).odds()
    assert held * (classes - size) <= Fraction(math.exp(min(epsilon, 700))) * rest * size
    assert 0 < held + rest < 2**63
    drawn = min(epsilon, 30.0)
    weight = size * math.exp(drawn)
    assert held / (held + rest) == pytest.approx(weight / (weight + classes - size), rel=1e-9)


class Given:
    """A generator of these numbers first and of zeros then, which notes the ends of its ranges."""

    def __init__(self, numbers: Any) -> None:
        self.numbers, self.ends = np.asarray(numbers), list[int]()

    def integers(self, low: int, high: int, size: int, dtype: Any = np.int64) -> Any:
        assert low == 0
        self.ends.append(high)
        return self.numbers if len(self.ends) == 1 else np.zeros(size, dtype)


def test_each_number_that_may_be_drawn_stands_for_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that outputs have the probabilities of their digits exactly."""
    ends = np.array([[2, 5], [3, 4]])
    generator: Any = Given(np.tile(np.arange(7), 2))
    monkeypatch.setattr(channels, "_BLOCK_ENTRIES", 6)  # three labels at a time
    drawn = channels.exact_draws(np.repeat([0, 1], 7), ends, 7, generator)
    assert drawn.tolist() == [0, 0, 1, 1, 1, 2, 2, 0, 0, 0, 1, 2, 2, 2]
    assert generator.ends == [7]
    mechanism = SubsetSelection(epsilon=1.0, num_classes=5, subset_size=2)
    held, rest = mechanism.odds()
    generator = Given([0, held - 1, held, held + rest - 1])
    monkeypatch.setattr(channels, "as_discrete_generator", lambda given: given)
    sets = mechanism.release(np.full(4, 3), generator=generator)
    assert sets[:, 3].tolist() == [True, True, False, False]
    assert generator.ends[0] == held + rest


@pytest.mark.parametrize(("classes", "size"), [(2, 1), (5, 2), (10, 3), (70, 2)])
def test_subsets_are_drawn_with_their_probabilities(classes: int, size: int) -> None:
    mechanism = SubsetSelection(epsilon=1.5, num_classes=classes, subset_size=size)
    labels = np.full(100_000, classes - 1)
    sets = mechanism.release(labels, generator=np.random.default_rng(7))
    assert sets.dtype == bool and (sets.sum(1) == size).all()
    held = sets[:, -1]
    kept = mechanism.keep_probability * len(labels)
    assert chisquare([held.sum(), (~held).sum()], [kept, len(labels) - kept]).pvalue > 1e-6
    # All sets that hold the label are equally likely, and so are all others.
    for part, chosen in ((sets[held], size - 1), (sets[~held], size)):
        counts = part[:, :-1].sum(0)
        if chosen and classes > 2:
            assert chisquare(counts).pvalue > 1e-6
        if classes == 5:
            codes, seen = np.unique(part @ (1 << np.arange(classes)), return_counts=True)
            assert len(codes) == math.comb(4, chosen) and chisquare(seen).pvalue > 1e-6


@pytest.mark.parametrize("classes", [5, 14])
def test_staircases_are_drawn_with_their_probabilities(classes: int) -> None:
    prior = 0.7 ** np.arange(classes)
    prior = prior / prior.sum()
    shuffled = np.random.default_rng(0).permutation(classes)
    rows = np.tile(prior[shuffled], (50_000, 1))
    mechanism = StaircaseChannel(epsilon=1.0)
    channel = channels._solve_sets(
        (prior + 1e-4) / (1 + classes * 1e-4), 1.0, channels.Utility.INFORMATION
    )
    codes = {tuple(row): code for code, row in enumerate(channel.sets)}
    for rank in (0, classes - 1):
        label = int(np.flatnonzero(shuffled == rank)[0])
        sets = mechanism.release(
            np.full(50_000, label), rows, generator=np.random.default_rng(rank)
        )
        assert sets.dtype == bool
        weights = channel.weights * (1 + math.expm1(1.0) * channel.sets[:, rank])
        seen = np.zeros(len(weights))
        for row in sets[:, np.argsort(shuffled)]:
            if row.any():  # else the empty set, which is rare
                seen[codes[tuple(row)]] += 1
        assert seen.sum() > 49_900
        assert chisquare(seen, weights / weights.sum() * seen.sum()).pvalue > 1e-6


def test_seeded_sets_stay_the_same() -> None:
    # Seeded noise is promised to be the same in later versions. Bit c of a number is class c.
    labels, powers = np.arange(12), 1 << np.arange(7)
    priors = np.array([np.roll([0.4, 0.3, 0.2, 0.1], example) for example in labels])
    staircases = StaircaseChannel(epsilon=1.0).release(
        labels % 4, priors, generator=np.random.default_rng(0)
    )
    assert (staircases @ powers[:4]).tolist() == [2, 2, 4, 8, 12, 9, 8, 1, 1, 9, 3, 8]
    subsets = SubsetSelection(epsilon=1.0, num_classes=7, subset_size=3).release(
        labels % 7, generator=np.random.default_rng(0)
    )
    assert (subsets @ powers).tolist() == [49, 26, 7, 42, 67, 28, 104, 56, 14, 98, 7, 21]


def test_many_priors_share_a_few_programs() -> None:
    priors = np.random.default_rng(0).dirichlet([2.0, 1.0, 0.5, 0.2], size=200)
    roots = np.sqrt(-np.sort(-priors, axis=1))
    for prototypes in (1, 3):
        mechanism = StaircaseChannel(epsilon=1.0, prototypes=prototypes)
        found, codes = mechanism._channels(roots**2)
        assert len(found) == prototypes == len(np.unique(codes)) and len(codes) == 200
        near = sum(((roots[codes == c] - roots[codes == c].mean(0)) ** 2).sum() for c in set(codes))
        assert prototypes == 1 or near < 0.5 * ((roots - roots.mean(0)) ** 2).sum()
        again, same = mechanism._channels(roots**2)
        assert np.array_equal(codes, same)
        for one, other in zip(found, again, strict=True):
            assert np.array_equal(one.sets, other.sets) and (one.weights == other.weights).all()


def test_a_flat_prior_gives_subset_selection() -> None:
    for classes in (4, 10, 40):
        flat = np.full(classes, 1 / classes)
        found = optimal_channel(flat, 1.0).utility
        best = SubsetSelection(epsilon=1.0, num_classes=classes).information
        assert found == pytest.approx(best, rel=1e-6 if classes <= 10 else 0.01)


def test_what_cannot_be_solved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProgramNotSolved, match="wider outputs"):
        optimal_channel(
            [0.5, 0.5], 1.0, "squared_error", values=[0, 1], outputs=[0, 1], unbiased=True
        )

    def unsolved(*arguments: Any, **options: Any) -> None:
        raise ProgramNotSolved("no optimum")

    monkeypatch.setattr(channels, "_solve_sets", unsolved)
    labels, prior = np.zeros(50, dtype=int), np.full((50, 4), 0.25)
    with pytest.warns(UserWarning, match="subset selection is used instead"):
        sets = StaircaseChannel(epsilon=1.0).release(
            labels, prior, generator=np.random.default_rng(0)
        )
    assert (sets.sum(1) == 1).all()
