"""Canaries: examples whose labels are made wrong on purpose, so that an audit can look for them.

Two kinds. `Canaries` (Malek et al. 2021, Game 3) get one wrong label each, drawn uniformly; the
memorization attack tests whether a model prefers it to the other wrong labels. `CoinCanaries`
(Steinke, Nasr and Jagielski 2023, with substitution of labels in place of inclusion of examples)
get two candidate labels and a fair coin between them; the one-run audit guesses the coins.

Both are drawn without a model. An attacker may know which examples are canaries, but not the
labels and coins.

A mechanism that treats labels one by one is audited best in its release (`audit_release`). The best
attacker there is known, the likelihood ratio of the two labels that a coin chose between, and one
run of it proves nearly all there is to prove (Keinan et al. 2025, corollary 5.4). A model is made
of the release, and reveals no more; audit both, since a secret that the model happens to hide is
not guaranteed. Sums over many labels hide every canary behind all the others. `audit_moments`
therefore makes each canary's row of the weights a unit vector that no other example has (a Dirac
canary), so that its label stands alone in one sum, under the same noise, at the same price.

>>> labels = np.array([0, 1, 2, 0, 1, 2])
>>> canaries = Canaries.draw(labels, num_classes=3, num_canaries=2)
>>> bool((canaries.labels != canaries.true_labels).all())
True
>>> int((canaries.plant(labels) != labels).sum())
2
>>> generator = np.random.default_rng(0)
>>> labels = generator.integers(10, size=4000)
>>> coins = CoinCanaries.draw(labels, num_classes=10, num_canaries=2000, generator=generator)
>>> mechanism = GaussianNoise(noise_std=2.0, num_classes=10)
>>> values = mechanism.release(coins.plant(labels), generator=generator)
>>> audit = audit_release(values[coins.positions], mechanism=mechanism, coins=coins, delta=1e-5)
>>> audit.guesses, 2.0 < audit.epsilon_tight < 2.96
(1000, True)
>>> audit = audit_moments(LabelMoments(noise_std=1.0, num_classes=10), canaries=1000, delta=1e-5,
...                       generator=np.random.default_rng(0))
>>> 4.5 < audit.epsilon_tight < 6.57  # what this noise costs
True
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, Array, as_numpy, like
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.auditing.one_run import (
    OneRunAudit,
    one_run_lower_bound,
    right_guesses,
    tight_lower_bound,
)
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.label_moments import LabelMoments

#: Seed of the published canaries (Malek et al. 2021); their blocks try every eleventh seed from it.
PUBLISHED_SEED = 11337
_PUBLISHED_SEED_STEP = 11
_MOST_SEEDS_TRIED = 2_000
#: Share of the coins that are guessed, fixed beforehand.
GUESSED = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class _Planted:
    """Labels that replace others: M canaries, in the order of the draw (`draw` makes them)."""

    positions: NDArray[np.int64]  # their training examples [M], each at most once

    def __post_init__(self) -> None:
        for array in vars(self).values():
            array.setflags(write=False)

    def _plant(self, labels: AnyArray, chosen: NDArray[np.int64]) -> AnyArray:
        planted = np.array(as_numpy(labels))
        last = self.positions.max()
        if planted.ndim != 1 or last >= planted.size:
            raise ValueError(
                f"labels has shape {planted.shape}, but a canary sits at position {last}; plant "
                "canaries in the labels that they were drawn for"
            )
        planted[self.positions] = chosen
        return like(planted, labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Canaries(_Planted):
    """Wrong labels for the memorization attack."""

    labels: NDArray[np.int64]  # the wrong labels that a model is trained on [M]
    true_labels: NDArray[np.int64]  # those they replace [M]: private, to set the true class aside

    @classmethod
    def draw(
        cls,
        labels: Array,
        *,
        num_classes: int,
        num_canaries: int,
        seed: int = PUBLISHED_SEED,
        block: int = 0,
    ) -> "Canaries":
        """Draw mislabeled examples as the published attack does, bit for bit.

        NumPy's legacy generator picks the positions without replacement, then, in the order of the
        draw, one of the K - 1 wrong labels of each, all equally likely. The seed (below 2**32) is
        not privacy noise, but with the true labels it reveals the canaries' labels: an attacker
        must not know it.

        Blocks 0, 1, ... share no example, so that each run has one of its own. Seeds are tried in
        steps of 11 from `seed`, and one whose positions meet an earlier block's is passed over:
        this replays the published ten blocks of one hundred. After 2,000 seeds, each further one
        draws among the examples that are left, which is the same in distribution.
        """
        _validate.whole(block=block, seed=seed)
        if seed >= 2**32:
            raise ValueError(f"seed is {seed}; the published draw takes seeds below 2**32")
        true_labels = _check_draw(labels, num_classes, num_canaries * (block + 1))
        taken = np.zeros(true_labels.size, dtype=bool)
        found = attempt = 0
        while found <= block:
            generator = np.random.RandomState((int(seed) + attempt * _PUBLISHED_SEED_STEP) % 2**32)
            left = attempt >= _MOST_SEEDS_TRIED
            among: Any = np.flatnonzero(~taken) if left else true_labels.size
            drawn = generator.choice(among, num_canaries, replace=False)
            attempt += 1
            if not taken[drawn].any():
                taken[drawn] = True
                found += 1
        positions = drawn.astype(np.int64)
        own = true_labels[positions]
        rank = generator.randint(0, num_classes - 1, size=positions.size)
        wrong = (rank + (rank >= own)).astype(np.int64)
        return cls(positions=positions, labels=wrong, true_labels=own)

    def plant(self, labels: AnyArray) -> AnyArray:
        """Return a copy of `labels` [n] with the canaries' labels in their places."""
        return self._plant(labels, self.labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class CoinCanaries(_Planted):
    """Pairs of labels, and the coins that chose between them, for the one-run audit."""

    candidates: NDArray[np.int64]  # two different labels each [M, 2]; known to the attacker
    coins: NDArray[np.int64]  # the label trained on [M], 0 or 1, fair and independent; secret

    @classmethod
    def draw(
        cls,
        labels: Array,
        *,
        num_classes: int,
        num_canaries: int,
        generator: np.random.Generator,
    ) -> "CoinCanaries":
        """Draw examples, two candidate labels for each, and the coins between them.

        With three classes or more the true label is not a candidate: a model that has learned the
        task then has no reason of its own to prefer either.
        """
        true_labels = _check_draw(labels, num_classes, num_canaries)
        positions = generator.choice(true_labels.size, num_canaries, replace=False)
        if num_classes == 2:
            candidates = np.tile(np.arange(2), (num_canaries, 1))
        else:
            first = generator.integers(num_classes - 1, size=num_canaries)
            second = generator.integers(num_classes - 2, size=num_canaries)
            second += second >= first
            ranks = np.stack([first, second], axis=1)
            candidates = ranks + (ranks >= true_labels[positions, None])
        coins = generator.integers(2, size=num_canaries)
        return cls(positions=positions.astype(np.int64), candidates=candidates, coins=coins)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels that the coins chose [M]."""
        return self.candidates[np.arange(self.coins.size), self.coins]

    def plant(self, labels: AnyArray) -> AnyArray:
        """Return a copy of `labels` [n] with the chosen labels in their places."""
        return self._plant(labels, self.labels)


def _check_draw(labels: Array, num_classes: int, num_canaries: int) -> NDArray[np.int64]:
    _validate.whole(minimum=2, num_classes=num_classes)  # a canary needs a wrong label
    true_labels = _validate.labels(labels, num_classes=num_classes, secret=True)
    _validate.whole(minimum=1, num_canaries=num_canaries)
    if num_canaries > true_labels.size:
        raise ValueError(
            f"{num_canaries} canaries are requested, but there are {true_labels.size} examples; "
            f"each takes one of its own, so request at most {true_labels.size}"
        )
    return true_labels


@dataclass(frozen=True, kw_only=True)
class ReleaseAudit(OneRunAudit):
    """A release's proof about its epsilon; `ceiling` is `epsilon_tight` if all were right."""

    epsilon_tight: float  # bound if it is of the family that it claims (`tight_lower_bound`)


def ratio_scores(
    values: NDArray[Any], *, mechanism: PerLabel, candidates: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log-likelihood of the first candidate minus that of the second [M], by the mechanism.

    From its release of the canaries, [M] or [M, K], and the two labels of each [M, 2].
    """
    exact = values if np.issubdtype(values.dtype, np.integer) else values.astype(np.float64)
    likelihoods = mechanism.log_likelihood(exact)
    chosen = np.take_along_axis(likelihoods, candidates, axis=1)
    scores: NDArray[np.float64] = chosen[:, 0] - chosen[:, 1]
    return scores


def audit_release(
    values: NDArray[Any],
    *,
    mechanism: PerLabel,
    coins: CoinCanaries,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> ReleaseAudit:
    """Audit a release by its own likelihood ratio, on canaries that were in it.

    `values` are the release of the canaries, in their order, [M] or [M, K]. Epsilon is stated at
    `delta`, which is above 0 for Gaussian noise; each bound exceeds the true epsilon with
    probability at most 1 - confidence.
    """
    _validate.same_length(values=len(values), canaries=coins.coins.size)
    family = mechanism.family
    if family is None:
        raise ValueError(f"{type(mechanism).__name__} has no family of noise to audit it in")
    scores = ratio_scores(values, mechanism=mechanism, candidates=coins.candidates)
    size = scores.size
    guesses = math.ceil(GUESSED * size)
    correct = int(right_guesses(scores, coins.coins)[:guesses].sum())
    stated: dict[str, Any] = dict(
        canaries=size, guesses=guesses, delta=delta, confidence=confidence
    )
    tight, ceiling = (
        tight_lower_bound(correct=right, family=family, guesses_fixed=True, **stated)
        for right in (correct, guesses)
    )
    return ReleaseAudit(
        epsilon_low=one_run_lower_bound(correct=correct, **stated),
        epsilon_tight=tight,
        ceiling=ceiling,
        guesses=guesses,
        correct=correct,
        canaries=size,
    )


def audit_moments(
    mechanism: LabelMoments,
    *,
    canaries: int,
    delta: float,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> ReleaseAudit:
    """Release moments of made-up labels, each in a direction of its own, and audit the release.

    The weights are an M x M matrix, M canaries. **It audits the mechanism as it is written, not a
    model and not a data set**: that the noise that is drawn is the noise that is charged, as far as
    the canaries can show.
    """
    _validate.whole(minimum=2, canaries=canaries)
    _validate.between(0, 1, delta=delta)
    labels = generator.integers(mechanism.num_classes, size=canaries)
    coins = CoinCanaries.draw(
        labels, num_classes=mechanism.num_classes, num_canaries=canaries, generator=generator
    )
    sums = mechanism.release(
        coins.plant(labels), np.eye(canaries, dtype=np.float32), generator=generator
    )
    alone = GaussianNoise(noise_std=mechanism.noise_std, num_classes=mechanism.num_classes)
    return audit_release(
        sums[coins.positions], mechanism=alone, coins=coins, delta=delta, confidence=confidence
    )
