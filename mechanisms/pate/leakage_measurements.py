"""How much repeated PATE answers give away, measured: by answers, by budget, and behind defences.

Votes go in; the attack of `vote_leakage` is run on simulated answers, again and again, and its mean
error comes out: the share of votes that it puts in the wrong class.

>>> votes = np.array([[120, 80, 50], [30, 200, 20]])
>>> generator = np.random.default_rng(0)
>>> row = measure_reconstruction(votes, noise_std=60.0, answers=10_000, generator=generator)
>>> row.error < 0.02
True
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax
from labeldp.mechanisms.pate.answering import (
    NO_ANSWER,
    AnsweringService,
    AnswerLimit,
    CachedAnswers,
    Defence,
    FreshNoise,
    NoiseKeyedByInput,
)
from labeldp.mechanisms.pate.vote_leakage import (
    answer_log_probabilities,
    error_rate,
    fit_concentration,
    queries_within_budget,
    reconstruct,
)

#: How often a client of good will asks the same question in `measure_defence`.
REPEATS = 10


@dataclass(frozen=True, kw_only=True)
class Reconstruction:
    """How well histograms are recovered.

    Attributes:
        noise_std: Of the noise on every count.
        answers: About each input; the mean where a budget decides.
        error: Mean error of maximum likelihood.
        error_with_prior: ... with a prior that is learned from all attacked inputs.
        milliseconds: For one input, by maximum likelihood.
    """

    noise_std: float
    answers: float
    error: float
    error_with_prior: float
    milliseconds: float


@dataclass(frozen=True, kw_only=True)
class DefenceRow:
    """What one defence does.

    Attributes:
        defence: Its name.
        error: Mean error of the attack that asks the very same question again and again.
        error_evaded: ... that changes the input a little each time.
        draws: Fresh draws of noise for each attacked input: what the privacy budget pays for.
        accuracy: Share of a client's first questions that get the votes' winner.
        answered_again: Share of answers to a client who asks each question ten times.
    """

    defence: str
    error: float
    error_evaded: float
    draws: float
    accuracy: float
    answered_again: float


@dataclass(frozen=True, kw_only=True)
class VoteBudget:
    """What an attacker may spend on one input: a Confident-GNMax service and its budget.

    Attributes:
        threshold: What the largest count plus noise must reach.
        sigma1: Noise of that check.
        epsilon: The budget, with `delta`.
        delta: In (0, 1).
    """

    threshold: float
    sigma1: float
    epsilon: float
    delta: float


def measure_reconstruction(
    votes: NDArray[np.integer[Any]],
    *,
    noise_std: float,
    generator: np.random.Generator,
    answers: int | None = None,
    budget: VoteBudget | None = None,
    repeats: int = 5,
) -> Reconstruction:
    """Attack histograms with a number of answers about each, or as many as a budget allows.

    Args:
        votes: Histograms [N, K], of as many teachers each.
        noise_std: Of the noise on every count.
        generator: Source of the answers.
        answers: About each input.
        budget: Or what they may cost; data-dependent, expected costs, as in the paper.
        repeats: Attacks on each input.

    Raises:
        ValueError: Both or none of `answers` and `budget`, or not vote counts.
    """
    if (answers is None) == (budget is None):
        raise ValueError("give either answers or budget: how often may the attacker ask?")
    _validate.whole(minimum=1, repeats=repeats)
    teachers = _teachers(votes)
    asked = [answers if budget is None else _affordable(row, noise_std, budget) for row in votes]
    chances = [np.exp(answer_log_probabilities(row, noise_std)) for row in votes]
    errors, with_prior, seconds = [], [], 0.0
    for _ in range(repeats):
        counts = np.stack(
            [
                generator.multinomial(max(1, int(number or 0)), chance / chance.sum())
                for number, chance in zip(asked, chances, strict=True)
            ]
        )
        started = time.perf_counter()
        found = reconstruct(counts, noise_std, teachers)
        seconds += time.perf_counter() - started
        concentration = fit_concentration(counts, noise_std, teachers)
        learned = reconstruct(counts, noise_std, teachers, concentration=concentration)
        errors.append(error_rate(found, votes).mean())
        with_prior.append(error_rate(learned, votes).mean())
    return Reconstruction(
        noise_std=noise_std,
        answers=float(np.mean([number or 0 for number in asked])),
        error=float(np.mean(errors)),
        error_with_prior=float(np.mean(with_prior)),
        milliseconds=1000 * seconds / (repeats * len(votes)),
    )


def all_defences(*, key: bytes, limit: int = 20) -> dict[str, Defence]:
    """Every defence by name, "none" first.

    Args:
        key: Of the noise that is keyed by the input.
        limit: Of answers about one input.
    """
    return {
        "none": FreshNoise(),
        "cached answers": CachedAnswers(),
        "noise keyed by input": NoiseKeyedByInput(key=key),
        f"at most {limit} answers": AnswerLimit(answers=limit),
    }


def measure_defences(
    votes: NDArray[np.integer[Any]],
    defences: Mapping[str, Defence],
    *,
    noise_std: float,
    questions: int,
    generator: np.random.Generator,
    clients: int = 100,
) -> list[DefenceRow]:
    """Attack a service behind each defence, and use it as a client of good will.

    Args:
        votes: Histograms [N, K] of as many teachers each, one for each input.
        defences: By name.
        noise_std: Of GNMax.
        questions: How often the attacker asks about each input.
        generator: Source of fresh noise.
        clients: Each asks a service of its own about every input.

    Raises:
        ValueError: Not vote counts, or no question.
    """
    _validate.whole(minimum=1, questions=questions, clients=clients)
    teachers = _teachers(votes)
    rows = []
    for name, defence in defences.items():
        start = _starter(votes, defence, noise_std, generator)
        attacked, evaded = start(), start()
        errors = [
            _attack(service, index, row, noise_std, teachers, questions, drift=drift)
            for service, drift in ((attacked, 0.0), (evaded, 1e-6))
            for index, row in enumerate(votes)
        ]
        half = len(votes)
        # Who changes keys or restarts gets other noise: several services, as several would have it.
        firsts, again = [], []
        for client in range(clients):
            inputs = np.repeat(np.arange(half), REPEATS)
            service = start(salt=client)
            labels = service.answer(_features(inputs, drift=0.0)).reshape(half, REPEATS)
            firsts.append(labels[:, 0] == votes.argmax(axis=1))
            again.append(labels != NO_ANSWER)
        rows.append(
            DefenceRow(
                defence=name,
                error=float(np.mean(errors[:half])),
                error_evaded=float(np.mean(errors[half:])),
                draws=attacked.drawn / half,
                accuracy=float(np.mean(firsts)),
                answered_again=float(np.mean(again)),
            )
        )
    return rows


def _features(inputs: NDArray[np.int64], *, drift: float) -> NDArray[np.float64]:
    """Questions [N, 2]: which input, and a change that no teacher notices."""
    return np.stack([inputs.astype(np.float64), drift * np.arange(len(inputs))], axis=1)


def _starter(
    votes: NDArray[Any], defence: Defence, noise_std: float, generator: np.random.Generator
) -> Callable[..., AnsweringService]:
    def start(salt: int | None = None) -> AnsweringService:
        chosen = defence
        if salt is not None and isinstance(defence, NoiseKeyedByInput):
            chosen = NoiseKeyedByInput(key=defence.key + salt.to_bytes(4, "big"))
        return AnsweringService(
            vote=lambda features: votes[features[:, 0].astype(int)],
            aggregator=GNMax(noise_std=noise_std),
            defence=chosen,
            generator=generator,
        )

    return start


def _attack(
    service: AnsweringService,
    index: int,
    row: NDArray[Any],
    noise_std: float,
    teachers: int,
    questions: int,
    *,
    drift: float,
) -> float:
    labels = service.answer(_features(np.full(questions, index), drift=drift))
    counts = np.bincount(labels[labels != NO_ANSWER], minlength=len(row))[None]
    try:
        found = reconstruct(counts, noise_std, teachers)
    except ValueError:  # so many equal answers can't be fresh ones: they are worth one
        found = reconstruct(np.minimum(counts, 1), noise_std, teachers)
    return float(error_rate(found, row[None])[0])


def _affordable(row: NDArray[Any], noise_std: float, budget: VoteBudget) -> int:
    aggregator = ConfidentGNMax(threshold=budget.threshold, sigma1=budget.sigma1, sigma2=noise_std)
    return queries_within_budget(row, aggregator, epsilon=budget.epsilon, delta=budget.delta)


def _teachers(votes: NDArray[Any]) -> int:
    if votes.ndim != 2 or len(votes) == 0:
        raise ValueError(f"votes has shape {votes.shape}; it must be [N, K], a row for each input")
    sums = np.unique(votes.sum(axis=1))
    if sums.size > 1:
        raise ValueError(
            f"votes are of {sums[0]} to {sums[-1]} teachers; every row must have as many"
        )
    return int(sums[0])
