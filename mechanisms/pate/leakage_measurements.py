"""How much repeated PATE answers give away, measured: by answers, by budget, and behind defences.

Votes go in; the attack of `vote_leakage` is run on simulated answers, and its mean error comes out:
the share of votes that it puts in the wrong class. The attack lives on fresh noise: the same
question, asked again, gives another sample of the same votes. Each defence takes that away:

| defence | the same input asked again | what remains |
|---|---|---|
| none | new noise each time | everything: the attack works |
| `cached` | the first answer | memory for each input; one answer each |
| `key` | the same noise, from a secret key | one answer each, by every replica |
| `limit` | new noise up to a limit, then no answer | as much as that many answers tell |

All of them recognize an input by a fingerprint. An attacker that changes an input a little without
changing the votes asks a "new" question each time, so `fingerprint` should send inputs that mean
the same to the same bytes. Every fresh draw must be charged to the privacy budget.

>>> votes = np.array([[120, 80, 50], [30, 200, 20]])
>>> generator = np.random.default_rng(0)
>>> row = measure_reconstruction(votes, noise_std=60.0, answers=10_000, generator=generator)
>>> row.error < 0.02
True
"""

import hashlib
import hmac
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Array, as_numpy
from labeldp.mechanisms.pate.aggregators import NO_ANSWER, Aggregator, ConfidentGNMax, GNMax
from labeldp.mechanisms.pate.vote_leakage import (
    answer_log_probabilities,
    error_rate,
    fit_concentration,
    queries_within_budget,
    reconstruct,
)
from labeldp.mechanisms.randomness import KEY_BYTES, cryptographic_generator

#: How often a client in good faith asks the same question.
REPEATS = 10


@dataclass(frozen=True, kw_only=True)
class Defence:
    """What an answering service does when an input comes again; by default it draws new noise.

    Attributes:
        cached: Repeat the first answer, "no answer" included.
        limit: Give at most this many answers about one input.
        key: Secret, at least 16 bytes: the noise is a keyed hash of the input. With the key the
            noise can be subtracted: guard it like the labels, and replace it when votes change.
    """

    cached: bool = False
    limit: int | None = None
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.limit is not None:
            _validate.whole(minimum=1, limit=self.limit)
        if self.key is not None and (not isinstance(self.key, bytes) or len(self.key) < 16):
            raise ValueError(
                "key must be at least 16 secret bytes, such as secrets.token_bytes(32): noise from "
                "a key that can be guessed can be subtracted"
            )


def exact_fingerprint(features: NDArray[Any]) -> bytes:
    """Digest of an input's type, shape and bytes."""
    contiguous = np.ascontiguousarray(features)
    header = f"{contiguous.dtype.str}{contiguous.shape}".encode()
    return hashlib.sha256(header + contiguous.tobytes()).digest()


class AnsweringService:
    """Answers questions about inputs from an ensemble's votes, behind one defence.

    `vote` maps features [N, ...] to votes [N, K]; inputs are recognized by their `fingerprint`.
    """

    def __init__(
        self,
        *,
        vote: Callable[[NDArray[Any]], NDArray[Any]],
        aggregator: Aggregator,
        defence: Defence,
        generator: np.random.Generator,
        fingerprint: Callable[[NDArray[Any]], bytes] = exact_fingerprint,
    ) -> None:
        self._vote = vote
        self._aggregator = aggregator
        self._defence = defence
        self._generator = generator
        self._fingerprint = fingerprint
        self._earlier: defaultdict[bytes, list[int]] = defaultdict(list)
        #: Number of different noise draws: what the privacy budget must pay for.
        self.drawn = 0

    def answer(self, features: Array) -> NDArray[np.int64]:
        """Answer questions [N, ...] in order; labels [N], -1 where there is no answer."""
        inputs = as_numpy(features)
        if inputs.ndim == 0 or len(inputs) == 0:
            raise ValueError(f"features has shape {inputs.shape}; at least one input is needed")
        votes = self._vote(inputs)
        if votes.ndim != 2 or len(votes) != len(inputs):
            raise ValueError(
                f"the ensemble returned votes of shape {votes.shape} for {len(inputs)} inputs; it "
                f"must be [{len(inputs)}, K]"
            )
        labels = np.empty(len(inputs), dtype=np.int64)
        for index, row in enumerate(votes):
            labels[index] = self._answer_one(self._fingerprint(inputs[index]), row)
        return labels

    def _answer_one(self, fingerprint: bytes, votes: NDArray[Any]) -> int:
        earlier, defence, noise = self._earlier[fingerprint], self._defence, self._generator
        if defence.limit is not None and len(earlier) >= defence.limit:
            label = NO_ANSWER
        elif defence.cached and earlier:
            label = earlier[0]
        else:
            if defence.key is not None:
                digest = hmac.digest(defence.key, fingerprint, "sha256")
                noise = cryptographic_generator(digest[:KEY_BYTES])
            if defence.key is None or not earlier:  # keyed noise is drawn once
                self.drawn += 1
            label = int(self._aggregator.answer(votes[None], generator=noise)[0])
        earlier.append(label)
        return label


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
    """Budget of an attacker for one input: a Confident-GNMax service, epsilon and delta.

    `threshold` and `sigma1` are those of the check.
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
    """Attack histograms [N, K], by a number of answers about each or as a budget allows.

    A budget is spent at data-dependent, expected costs, as in the paper. Each input is attacked
    `repeats` times.
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
    """Every defence by name, "none" first."""
    return {
        "none": Defence(),
        "cached answers": Defence(cached=True),
        "noise keyed by input": Defence(key=key),
        f"at most {limit} answers": Defence(limit=limit),
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
    """Attack GNMax behind each defence, and use it as clients in good faith.

    The attacker asks `questions` times about each of the histograms [N, K], the inputs; each of
    `clients` asks a service of its own about every input.
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
        # A service of its own for each client, as if keys changed: other noise.
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
        if salt is not None and defence.key is not None:
            chosen = replace(defence, key=defence.key + salt.to_bytes(4, "big"))
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
