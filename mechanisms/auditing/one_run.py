"""How much epsilon does one training run prove? The audit of Steinke, Nasr and Jagielski 2023.

Label version: each of M canaries gets two candidate labels and a fair coin decides which one is
trained on (`canaries.CoinCanaries`). An attacker who sees the result guesses coins, or abstains.
If the whole run is (epsilon, delta)-label-DP, then whatever the attacker does, the number of right
guesses among R is hardly larger than a binomial with success e^epsilon / (1 + e^epsilon) (Thm 5.2,
arXiv:2305.08846). Nothing is assumed about the model, nor that canaries act independently. Too many
right guesses prove, with the stated confidence, that epsilon is larger.

M canaries prove at most `one_run_ceiling` even against a run that hides nothing, so show the two
together. Two further bounds assume a family of mechanisms.

**By the law of single labels** (`tight_lower_bound`), for noise on each label by itself.
Where each label passes a channel of its own, M coins are guessed independently. Of M canaries the R
with the surest ratios are guessed; the share W that is less sure is Beta(M - R, R + 1), and given W
each guess errs by itself with the mean error g(W) of the surest 1 - W. So for the best attacker

    P[T <= u] = E_W[ BinCDF(u; R, g(W)) ]

of T errors, and no other attacker who guesses R errs less (statement: Xiang et al. 2026, "Tight
privacy audit in one run"; that one run suffices for such mechanisms: Keinan et al. 2025,
corollary 5.4). The strengths of a family at which u errors or fewer have a chance of at most
1 - confidence are refuted.

**That law needs an R that was fixed before the outputs were seen**, such as half of the canaries.
An attacker who guesses wherever randomized response names one of the two labels makes surer guesses
than the law allows for, and the bound would exceed the true epsilon in up to 15% of runs. Unless
`guesses_fixed`, R may follow the outputs in any way. Then only the largest ratio bounds the
errors: given the outputs, each guess errs by itself with probability at least
1 / (1 + exp(largest |L|)), and P[T <= u] is at most BinCDF(u; R, that). Gaussian noise has no
largest ratio and needs a fixed R.

The attacker must have seen nothing but the noisy labels and public things.

**By a trade-off curve** (`f_dp_lower_bound`), for a whole run whose curve of false positives
against false negatives is known: Mahloujifar, Melis and Chaudhuri, "Auditing f-Differential Privacy
in One Run", ICML 2025 (arXiv:2410.22235). Epsilon-DP allows the worst mechanism of that epsilon;
fewer right guesses refute a whole curve, such as that of Gaussian noise.

**Without canaries** (`observational_audit`, after Kalemaj et al. 2025, "Observational auditing of
label privacy", arXiv:2511.14084) no label is spoiled. For each audited example a proxy q, made
without its label, draws another label; where the two differ, the attacker is shown both and names
the one that the model was trained on. The coin between them is as fair as the proxy is right: if
true labels are drawn from p(y|x), the odds of two labels before the model is looked at are

    p(a) q(b) / (p(b) q(a)) <= exp(2 tau),    tau = max |log p(y|x) - log q(y|x)|,

and after it, under epsilon-label-DP, at most exp(epsilon + 2 tau). So the one-run bound is one on
epsilon + 2 tau, and 2 tau is its slack. **Tau is an assumption**: no data can show it. Without it
nothing is bounded; nor is the published figure, a percentile at the best of many thresholds, a
bound.

>>> round(one_run_lower_bound(canaries=1000, guesses=400, correct=300), 2)
0.9
>>> round(one_run_ceiling(canaries=1000), 2)
5.81
>>> from labeldp.mechanisms.label_channels import GaussianFamily
>>> family = GaussianFamily()
>>> counts = {"canaries": 1000, "guesses": 1000, "correct": 691, "guesses_fixed": True}
>>> round(tight_lower_bound(**counts, family=family, delta=1e-5), 3)
3.67
>>> counts = {"canaries": 1000, "guesses": 600, "correct": 450}
>>> round(f_dp_lower_bound(**counts, curve=GaussianCurve(delta=1e-5)), 2)
1.66
>>> round(f_dp_lower_bound(**counts, curve=PureCurve()), 2)
0.93
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betaincinv, expit, ndtr, ndtri, roots_legendre

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Array, as_numpy
from labeldp.mechanisms.accounting import brentq, log_gaussian_delta
from labeldp.mechanisms.label_channels import Family, mean_error

#: Fractions of the canaries that are guessed; the best bound is kept.
FRACTIONS = (1.0, 0.5, 0.25, 0.1)


def one_run_lower_bound(
    *, canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Largest epsilon that the guesses refute, at `delta`; 0 where they refute none.

    Of M `canaries` the attacker guessed R coins, `correct` of them rightly. R must not follow from
    the coins; at delta 0 it may follow from the outputs. The bound exceeds the true epsilon with
    probability at most 1 - confidence.
    """
    check_counts(canaries, guesses, correct, confidence)
    _validate.delta(delta)
    return _lower_bound(canaries, guesses, correct, delta, 1 - confidence)


def one_run_ceiling(*, canaries: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """The most that `canaries` can prove: the bound if all are guessed and all are right."""
    return one_run_lower_bound(
        canaries=canaries, guesses=canaries, correct=canaries, delta=delta, confidence=confidence
    )


def canaries_needed(*, epsilon: float, confidence: float = 0.95) -> int:
    """Fewest canaries whose ceiling reaches `epsilon` (at delta 0): q^M <= 1 - confidence."""
    _validate.non_negative(epsilon=epsilon)
    _validate.between(0, 1, confidence=confidence)
    # log q = -log(1 + e^-epsilon); the tolerance keeps a quotient that is whole from rounding up
    return math.ceil(math.log(1 - confidence) / -math.log1p(math.exp(-epsilon)) - 1e-9)


def check_counts(canaries: int, guesses: int, correct: int, confidence: float) -> None:
    """Refuse counts that contradict each other, and audits that can prove nothing."""
    _validate.whole(minimum=1, canaries=canaries)
    _validate.whole(guesses=guesses, correct=correct)
    if not correct <= guesses <= canaries:
        raise ValueError(
            f"correct is {correct}, guesses {guesses} and canaries {canaries}; they must satisfy "
            "correct <= guesses <= canaries"
        )
    check_enough_canaries(canaries, confidence)


def check_enough_canaries(canaries: int, confidence: float) -> None:
    """Refuse an audit that can prove nothing, and state how many canaries it takes."""
    needed = canaries_needed(epsilon=0.0, confidence=confidence)
    if canaries < needed:
        raise ValueError(
            f"canaries is {canaries}; at confidence {confidence} even a perfect attack on so few "
            f"proves nothing: it takes {needed} to prove that epsilon is above 0, and "
            f"{canaries_needed(epsilon=3.0, confidence=confidence)} to prove 3"
        )


def guess_counts(canaries: int) -> tuple[int, ...]:
    """Return how many canaries to guess, for each of `FRACTIONS` of them."""
    return tuple(math.ceil(fraction * canaries) for fraction in FRACTIONS)


@dataclass(frozen=True, kw_only=True)
class OneRunAudit:
    """Lower bounds on the epsilon of one run."""

    epsilon_low: float  # epsilon is at least this, with the stated confidence
    ceiling: float  # what as many canaries could have proven at most
    guesses: int  # how many coins were guessed, in the best try
    correct: int  # how many of them rightly
    canaries: int  # M


def right_guesses(scores: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which guesses of coins are right, the surest first [M].

    A score below 0 guesses 1, the further from 0 the surer; `truth` are the coins. Ties in sureness
    keep their order of drawing, which knows nothing of the coins.
    """
    right: NDArray[np.bool_] = (scores < 0) == (truth == 1)
    return right[np.argsort(-np.abs(scores), kind="stable")]


def one_run_audit(
    scores: Array,
    truth: Array,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> OneRunAudit:
    """Audit from an attacker's scores [M] and the coins [M], 0 or 1.

    A score above 0 means coin 0, the first candidate; the larger the surer, 0 for no idea
    (`candidate_scores`). The canaries with the largest |score| are guessed, a fraction of those
    with a score other than 0. That number follows the outputs, which the theorem allows at delta 0;
    at a larger delta it is a fraction of all canaries. Of several fractions the best bound is kept,
    and the stated error is divided among them (Bonferroni).
    """
    score = as_numpy(scores).astype(np.float64)
    coins = as_numpy(truth)
    if score.ndim != 1 or score.size == 0 or coins.shape != score.shape:
        raise ValueError(
            f"scores has shape {score.shape} and truth {coins.shape}; both must be [M], M at least "
            "1, a score and a coin for each canary"
        )
    rule = "it must be finite (0 means no idea)"
    _validate.refuse_entries(~np.isfinite(score), score, "scores", rule)
    _validate.refuse_entries(~np.isin(coins, (0, 1)), coins, "truth", "coins are 0 or 1")
    _validate.delta(delta)
    check_enough_canaries(score.size, confidence)
    right_among_first = np.concatenate([[0], np.cumsum(right_guesses(score, coins))])
    counts = guess_counts(score.size if delta else int(np.count_nonzero(score)))
    error = (1 - confidence) / len(counts)
    tries = [
        (_lower_bound(score.size, r, int(right_among_first[r]), delta, error), r) for r in counts
    ]
    epsilon_low, guesses = max(tries)
    return OneRunAudit(
        epsilon_low=epsilon_low,
        ceiling=one_run_ceiling(canaries=score.size, delta=delta, confidence=confidence),
        guesses=guesses,
        correct=int(right_among_first[guesses]),
        canaries=score.size,
    )


def candidate_scores(confidences: Array, candidates: Array) -> NDArray[np.float64]:
    """Scores of the coins: log-probability of the first candidate minus that of the second [M].

    From a model's probabilities on the canaries [M, K] and the two labels of each [M, 2].
    """
    rows = _validate.probabilities(confidences, name="confidences")
    pairs = as_numpy(candidates)
    if pairs.shape != (len(rows), 2):
        raise ValueError(
            f"candidates has shape {pairs.shape}; {len(rows)} canaries need [{len(rows)}, 2]"
        )
    for side in (0, 1):
        _validate.labels(pairs[:, side], num_classes=rows.shape[1], name=f"candidates[:, {side}]")
    chosen = _log_of_pairs(rows, pairs)
    return chosen[:, 0] - chosen[:, 1]


def _log_of_pairs(rows: NDArray[np.float64], pairs: NDArray[Any]) -> NDArray[np.float64]:
    """Log probabilities of two labels of each row [M, 2]."""
    # A probability that underflowed is small, not impossible.
    chosen = np.maximum(np.take_along_axis(rows, pairs, axis=1), np.finfo(np.float64).tiny)
    return np.asarray(np.log(chosen))


def _lower_bound(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    if correct == 0:
        return 0.0
    # delta = 0: Pr[Bin(R, q) >= correct] = error, the lower q (Clopper and Pearson), less than 1
    success = min(betaincinv(correct, guesses - correct + 1, error), math.nextafter(1.0, 0.0))
    high = max(0.0, math.log(success / (1 - success)))
    if delta == 0 or high == 0:
        return high

    def refuted(epsilon: float) -> bool:
        return _p_value(epsilon, canaries, guesses, correct, delta) <= error

    # Delta only ever weakens the bound, so the answer lies in [0, high].
    return largest_refuted(refuted, 0.0, high, steps=50) if refuted(0.0) else 0.0


def largest_refuted(
    refuted: Callable[[float], bool], low: float, high: float, *, steps: int
) -> float:
    """Return the largest epsilon from `low`, which is refuted, up to `high`, by bisection."""
    for _ in range(steps):
        middle = (low + high) / 2
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


def _p_value(epsilon: float, canaries: int, guesses: int, correct: int, delta: float) -> float:
    """Thm 5.2: beta + 2 M delta alpha, alpha the steepest chord of the binomial's upper tail."""
    fewer = np.arange(1, correct + 1)
    at_least = correct - np.arange(correct + 1)
    tail = bdtrc(at_least - 1.0, guesses, expit(epsilon))  # Pr[Bin(R, q) >= at_least]
    alpha = max(0.0, float(((tail[1:] - tail[0]) / fewer).max()))
    return min(1.0, float(tail[0]) + 2 * canaries * delta * alpha)


# By the law of single labels

_NODES, _WEIGHTS = roots_legendre(64)
#: Probabilities of W at which the mean over W is taken, and their weights.
_PLACES = (_NODES + 1) / 2
_SHARES = _WEIGHTS / 2
#: The search's least strength, which shows nothing, and how near it comes to its end.
_WEAKEST = 1e-6
_SLACK = 1e-10


@lru_cache(maxsize=256)  # a sweep's trials need the same ceilings
def tight_lower_bound(
    *,
    canaries: int,
    guesses: int,
    correct: int,
    family: Family,
    guesses_fixed: bool = False,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Largest epsilon at `delta` of the family that the guesses refute; 0 where they refute none.

    It is infinite where they refute all: sets of several classes leave some guesses to chance at
    any epsilon.

    Args:
        canaries: Number M of canaries.
        guesses: Number R of them that were guessed.
        correct: Number of right guesses.
        family: Mechanisms among which the bound is sought, one for each epsilon.
        guesses_fixed: Whether R was fixed without looking at the outputs. Gaussian noise requires
            it, and so does a `delta` above 0.
        delta: Delta at which the bound is stated.
        confidence: The bound exceeds the true epsilon with probability at most 1 - confidence.
    """
    check_counts(canaries, guesses, correct, confidence)
    family.epsilon(family.strongest, delta=delta)  # refuses a delta that it has none at
    if not guesses_fixed and math.isinf(family.largest(family.strongest)):
        raise ValueError(
            f"the number of guesses ({guesses} of {canaries} canaries) was not fixed beforehand. "
            "Gaussian noise can make a few outputs arbitrarily certain, so no bound of that "
            "family holds; fix the number before looking at the outputs (guesses_fixed, "
            "--guesses-fixed)"
        )
    errors = guesses - correct

    def excess(strength: float) -> float:
        # P[T <= u], how likely the best attacker makes at most u errors, or an upper bound.
        if not guesses_fixed:
            chance = float(bdtr(errors, guesses, expit(-family.largest(strength))))
        elif guesses == canaries:
            chance = float(bdtr(errors, guesses, mean_error(family, strength, np.ones(1))[0]))
        else:
            less_sure = betaincinv(canaries - guesses, guesses + 1, _PLACES)
            wrong = mean_error(family, strength, 1 - less_sure)
            chance = float(bdtr(errors, guesses, wrong) @ _SHARES)
        return chance - (1 - confidence)

    if correct == 0 or excess(_WEAKEST) > 0:
        return 0.0
    if excess(family.strongest) <= 0:
        return math.inf
    # Chances grow with the strength: the root is the weakest that is not refuted.
    refuted = brentq(excess, _WEAKEST, family.strongest, xtol=_SLACK) - 2 * _SLACK
    return family.epsilon(max(refuted, _WEAKEST), delta=delta)


def best_tight_bound(
    tries: Iterable[tuple[int, int]],
    *,
    canaries: int,
    family: Family,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Largest of the bounds of several numbers of guesses, each of which pays for the choice.

    `tries` are guesses and how many of them are right, the numbers fixed without looking at the
    outputs; the error 1 - confidence is divided among them (Bonferroni).
    """
    counts = list(tries)
    each = 1 - (1 - confidence) / max(1, len(counts))
    return max(
        (
            tight_lower_bound(
                canaries=canaries,
                guesses=guesses,
                correct=correct,
                family=family,
                guesses_fixed=True,
                delta=delta,
                confidence=each,
            )
            for guesses, correct in set(counts)
        ),
        default=0.0,
    )


# By a trade-off curve

_LARGEST_EPSILON = 40.0


@dataclass(frozen=True, kw_only=True)
class PureCurve:
    """Any epsilon-DP mechanism at all: chances differ by at most a factor e^epsilon."""

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """Return a lower bound on the probability of a wrong guess, given that of a right one."""
        # both lines of the curve: e^-eps x, and 1 - e^eps (1 - x) near certainty
        shrink = math.exp(-epsilon)
        grow = math.exp(epsilon)
        return lambda right: max(shrink * right, 1 - grow * (1 - right))


@dataclass(frozen=True, kw_only=True)
class RandomizedResponseCurve:
    """K-class randomized response."""

    num_classes: int  # K, at least 2

    def __post_init__(self) -> None:
        _validate.whole(minimum=2, num_classes=self.num_classes)

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """Return a lower bound on the probability of a wrong guess, given that of a right one."""
        other = 1 / (math.exp(epsilon) + self.num_classes - 1)
        keep = 1 - (self.num_classes - 1) * other
        # Outputs in the order in which they speak for a label: itself, those that say nothing, the
        # label it is tested against. Sums of their chances under that label, and under the other.
        right = [0.0, keep, 1 - other, 1.0]
        wrong = [0.0, other, 1 - keep, 1.0]
        return lambda likelihood: float(np.interp(likelihood, right, wrong))


@dataclass(frozen=True, kw_only=True)
class GaussianCurve:
    """The Gaussian mechanism, once or composed; its epsilon is stated at `delta`."""

    delta: float  # in (0, 1)

    def __post_init__(self) -> None:
        _validate.between(0, 1, delta=self.delta)

    def smallest_wrong(self, epsilon: float) -> Callable[[float], float]:
        """Return a lower bound on the probability of a wrong guess, given that of a right one."""
        target = math.log(self.delta)

        def excess(log_separation: float) -> float:
            multiplier = math.exp(-log_separation)
            return log_gaussian_delta(noise_multiplier=multiplier, epsilon=epsilon) - target

        separation = math.exp(brentq(excess, -20.0, 5.0, xtol=1e-12))
        return lambda right: float(ndtr(ndtri(right) - separation))


Curve = PureCurve | RandomizedResponseCurve | GaussianCurve


def f_dp_lower_bound(
    *, canaries: int, guesses: int, correct: int, curve: Curve, confidence: float = 0.95
) -> float:
    """Largest epsilon of the family `curve` that the guesses refute; 0 where they refute none.

    Of M `canaries` R were guessed, fixed without looking at the outputs, `correct` of them rightly.
    The bound exceeds the true epsilon with probability at most 1 - confidence.

    By the paper's recursion for two candidates: if `correct` guesses or more were right with
    probability 1 - confidence, then, going down one right guess at a time, right and wrong guesses
    would have to be at least this likely; together they cannot exceed the share that is guessed.
    """
    check_counts(canaries, guesses, correct, confidence)
    error = 1 - confidence
    share = guesses / canaries

    def refuted(epsilon: float) -> bool:
        smallest_wrong = curve.smallest_wrong(epsilon)
        right = error * correct / canaries
        wrong = error * (guesses - correct) / canaries
        for fewer in range(correct - 1, -1, -1):
            next_wrong = max(wrong, smallest_wrong(right))
            right = min(1.0, right + fewer / (guesses - fewer) * (next_wrong - wrong))
            wrong = next_wrong
            if right + wrong > share:
                return True  # both only grow
        return False

    if correct == 0 or not refuted(1e-9):
        return 0.0
    return largest_refuted(refuted, 0.0, _LARGEST_EPSILON, steps=26)  # to 1e-6


# Without canaries


@dataclass(frozen=True, kw_only=True)
class ObservationalAudit:
    """Lower bound on a model's epsilon, if the proxy is as good as stated."""

    epsilon_low: float  # epsilon (at delta 0) is at least this; the slack is taken off already
    slack: float  # 2 tau, what the proxy's error may explain
    ceiling: float  # what as many examples could have proven at most, less the slack
    guesses: int  # how many labels were guessed, in the best try
    correct: int  # how many of them rightly
    examples: int  # those whose two labels differ


def observational_audit(
    confidences: Array,
    *,
    labels: Array,
    proxy: Array,
    proxy_log_error: float,
    generator: np.random.Generator,
    confidence: float = 0.95,
) -> ObservationalAudit:
    """Audit a model on examples whose labels it was trained on, none of them spoiled.

    `confidences` are the model's probabilities [N, K], `labels` the secret labels it was trained on
    [N], `proxy` the probabilities q of a model that never saw them [N, K], and `proxy_log_error` is
    tau. Guesses rest on how much more likely than the proxy the model finds each of two labels. The
    bound exceeds the true epsilon with probability at most 1 - confidence.
    """
    _validate.non_negative(proxy_log_error=proxy_log_error)
    rows = _validate.probabilities(confidences, name="confidences")
    chances = _validate.probabilities(proxy, name="proxy", num_classes=rows.shape[1])
    true = _validate.labels(labels, num_classes=rows.shape[1], name="labels", secret=True)
    _validate.same_length(confidences=len(rows), proxy=len(chances), labels=len(true))
    impossible = np.flatnonzero(np.take_along_axis(chances, true[:, None], axis=1) <= 0)
    if impossible.size:
        raise ValueError(
            f"proxy gives the label of example {impossible[0]} probability 0 ({impossible.size} "
            "examples), so its error has no bound; mix it with a little of the uniform "
            "distribution"
        )
    sums = np.cumsum(chances, axis=1)
    uniform = generator.random((len(sums), 1)) * sums[:, -1:]
    drawn = (sums <= uniform).sum(axis=1)  # a label of each row, with the chances that it states
    differ = drawn != true
    if not differ.any():
        raise ValueError(
            f"the proxy drew the true label of all {len(true)} examples, so there is nothing "
            "to distinguish; audit more examples, or take a proxy that is less sure"
        )
    pairs = np.stack([true, drawn], axis=1)[differ]
    coins = generator.integers(2, size=len(pairs))  # which of the two is shown first
    pairs = np.where(coins[:, None] == 0, pairs, pairs[:, ::-1])
    evidence = _log_of_pairs(rows[differ], pairs) - _log_of_pairs(chances[differ], pairs)
    found = one_run_audit(evidence[:, 0] - evidence[:, 1], coins, confidence=confidence)
    slack = 2 * proxy_log_error
    return ObservationalAudit(
        epsilon_low=max(0.0, found.epsilon_low - slack),
        slack=slack,
        ceiling=max(0.0, found.ceiling - slack),
        guesses=found.guesses,
        correct=found.correct,
        examples=len(pairs),
    )
